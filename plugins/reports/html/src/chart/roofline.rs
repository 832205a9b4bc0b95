/*!
Operations for each second over arithmetic intensity, a point for each case, under the roof of the device: the peak of
its memory's bandwidth times the intensity, and the peak of its arithmetic units (Williams et al. 2009).
*/

use maud::{Markup, html};
use report_common::{Scale, humanise};

use super::axis::Axis;
use super::{Plot, labelled, mark, path, px, svg};

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 420.0;
const PLOT: Plot = Plot { left: 72.0, right: 900.0, top: 28.0, bottom: 370.0 };

/// Peaks of a device, each if it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Roof {
    /// Operations for each second.
    pub(crate) compute: Option<f64>,
    /// Bytes for each second.
    pub(crate) bandwidth: Option<f64>,
}

/// A case under the roof.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// Name of the point in the chart.
    pub(crate) label: String,
    /// Its full name.
    pub(crate) name: String,
    /// Index of its colour and shape.
    pub(crate) series: usize,
    /// Operations for each byte.
    pub(crate) intensity: f64,
    /// Operations for each second.
    pub(crate) compute: f64,
}

impl Roof {
    /// Returns the most operations for each second at an intensity.
    fn at(&self, intensity: f64) -> f64 {
        let of_memory = self.bandwidth.map_or(f64::INFINITY, |bandwidth| bandwidth * intensity);
        self.compute.map_or(of_memory, |compute| of_memory.min(compute))
    }

    /// Returns the intensity from which arithmetic is the limit.
    fn ridge(&self) -> Option<f64> {
        Some(self.compute? / self.bandwidth?)
    }
}

/// Returns the chart, or nothing without a roof or points.
pub(crate) fn roofline(
    title: &str,
    series: &[String],
    roof: Roof,
    loads: &[Load],
) -> Option<Markup> {
    if loads.is_empty() || roof == (Roof { compute: None, bandwidth: None }) {
        return None;
    }
    let intensities = loads.iter().map(|load| load.intensity);
    let x = Axis::logarithmic(intensities.chain(roof.ridge()), PLOT.left, PLOT.right);
    let (lowest, highest) = x.ends();
    let top = roof.compute.unwrap_or_else(|| roof.at(highest));
    let rates = loads.iter().map(|load| load.compute).chain([top]);
    let y = Axis::logarithmic(rates, PLOT.bottom, PLOT.top);
    let place = |intensity: f64, compute: f64| (x.at(intensity), y.at(compute));
    // The slope begins where it enters the plot.
    let (bottom, _) = y.ends();
    let begin = roof.bandwidth.map_or(lowest, |bandwidth| lowest.max(bottom / bandwidth));
    let corners = [Some(begin), roof.ridge().filter(|ridge| *ridge > begin), Some(highest)];
    let line: Vec<_> = corners.into_iter().flatten().map(|it| place(it, roof.at(it))).collect();
    let points: Vec<_> = loads
        .iter()
        .map(|load| (load.label.as_str(), place(load.intensity, load.compute)))
        .collect();
    let labelled = labelled(PLOT, &points, 0..points.len());
    let rate_scale = Scale::for_value("FLOP/s", top);
    let plain = Scale::for_value("1", 1.0);
    let content = html! {
        (y.rows(PLOT, &rate_scale, &format!("operations per second in {}, logarithmic", rate_scale.symbol())))
        (x.columns(PLOT, &plain, "arithmetic intensity in operations per byte (FLOP/B), logarithmic"))
        path.roof d=(path(&line)) {}
        @if let Some(compute) = roof.compute {
            text.axis x=(px(PLOT.right)) y=(px(y.at(compute) - 8.0)) text-anchor="end" {
                "peak " (humanise(compute, "FLOP/s"))
            }
        }
        @if let Some(bandwidth) = roof.bandwidth {
            @let middle = (begin * roof.ridge().unwrap_or(highest)).sqrt();
            @let (left, above) = place(middle, roof.at(middle));
            text.axis x=(px(left - 10.0)) y=(px(above - 4.0)) text-anchor="end" {
                (humanise(bandwidth, "B/s"))
            }
        }
        @for (load, (_, place)) in loads.iter().zip(&points) {
            (mark::mark(load.series, false, *place, &tooltip(load, roof)))
        }
        @for (index, (left, top)) in labelled {
            text x=(px(left)) y=(px(top)) text-anchor="middle" { (loads[index].label) }
        }
    };
    let of_roof = [
        roof.compute.map(|peak| humanise(peak, "FLOP/s")),
        roof.bandwidth.map(|peak| humanise(peak, "B/s")),
    ];
    let of_roof: Vec<_> = of_roof.into_iter().flatten().collect();
    let description = format!(
        "{} cases by arithmetic intensity and operations per second, under the device's peaks of {}.",
        loads.len(),
        of_roof.join(" and "),
    );
    Some(html! {
        @if series.len() > 1 { (mark::legend(series)) }
        (svg((WIDTH, HEIGHT), title, &description, &content))
    })
}

fn tooltip(load: &Load, roof: Roof) -> String {
    let part = 100.0 * load.compute / roof.at(load.intensity);
    format!(
        "{}: {}, {} FLOP/B, {} % of the roof",
        load.name,
        humanise(load.compute, "FLOP/s"),
        report_common::significant(load.intensity, 3),
        report_common::significant(part, 2),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roof_is_the_lower_of_its_peaks() {
        let roof = Roof { compute: Some(100.0), bandwidth: Some(10.0) };
        assert_eq!([1.0, 10.0, 50.0].map(|intensity| roof.at(intensity)), [10.0, 100.0, 100.0]);
        assert_eq!(roof.ridge(), Some(10.0));
        let slope = Roof { compute: None, ..roof };
        assert_eq!((slope.at(50.0), slope.ridge()), (500.0, None));
    }

    #[test]
    fn there_is_no_chart_without_a_roof_or_a_point() {
        let none = Roof { compute: None, bandwidth: None };
        let load = Load {
            label: "1".into(),
            name: "batch 1".into(),
            series: 0,
            intensity: 5.0,
            compute: 2e9,
        };
        assert!(roofline("t", &[], none, std::slice::from_ref(&load)).is_none());
        let roof = Roof { compute: Some(1e11), bandwidth: Some(1e10) };
        assert!(roofline("t", &[], roof, &[]).is_none());
        let svg = roofline("t", &[], roof, &[load]).expect("a chart").into_string();
        for text in ["FLOP/B", "GFLOP/s", "peak 100", "10.0\u{202f}GB/s", "4.0 % of the roof"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}
