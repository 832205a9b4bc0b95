/*!
Operations for each second over arithmetic intensity, a point for each case, under the roof of the device: the peak of
its memory's bandwidth times the intensity, and the peak of its arithmetic units (Williams et al. 2009).
*/

use maud::{Markup, html};
use report_common::{Scale, humanise};

use super::axis::Axis;
use super::{Area, CHARACTER, Plot, along, area_of_line, free, labelled, mark, path, px, svg};

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
    let mut taken: Vec<Area> =
        points.iter().map(|(_, (x, y))| [x - 6.0, y - 6.0, x + 6.0, y + 6.0]).collect();
    let compute = roof.compute.map(|compute| {
        let (text, y) = (format!("peak {}", humanise(compute, "FLOP/s")), y.at(compute));
        let places = [(PLOT.right, y - 8.0), (PLOT.right, y + 18.0)];
        let place = free(&text, &places, PLOT, &taken);
        taken.push(area_of_line(&text, place));
        (text, place)
    });
    let bandwidth = roof.bandwidth.map(|bandwidth| {
        let text = humanise(bandwidth, "B/s");
        // Along the slope, from its middle on: on its left, or if the slope is short, on its right.
        let ends = (begin.ln(), roof.ridge().unwrap_or(highest).ln());
        let along = [0.5, 0.6, 0.7, 0.8, 0.9, 0.4, 0.3].map(|part: f64| {
            let intensity = (ends.0 + part * (ends.1 - ends.0)).exp();
            place(intensity, roof.at(intensity))
        });
        let width = CHARACTER * text.chars().count() as f64;
        let left = along.map(|(x, y)| (x - 10.0, y - 4.0));
        let right = along.map(|(x, y)| (x + 10.0 + width, y + 16.0));
        let places = [left, right].concat();
        let place = free(&text, &places, PLOT, &taken);
        taken.push(area_of_line(&text, place));
        (text, place)
    });
    let labelled = labelled(PLOT, &points, 0..points.len(), &taken, &along(&line));
    let rate_scale = Scale::for_value("FLOP/s", top);
    let plain = Scale::for_value("1", 1.0);
    let content = html! {
        (y.rows(PLOT, &rate_scale, &format!("operations per second in {}, logarithmic", rate_scale.symbol())))
        (x.columns(PLOT, &plain, "arithmetic intensity in operations per byte (FLOP/B), logarithmic"))
        path.roof d=(path(&line)) {}
        @for (text, (right, baseline)) in compute.iter().chain(&bandwidth) {
            text.axis x=(px(*right)) y=(px(*baseline)) text-anchor="end" { (text) }
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

    /// Returns the areas of all texts of a chart within the plot, as far as a character's width is known.
    fn texts(svg: &str) -> Vec<(String, Area)> {
        let texts = svg.split("<text").skip(1).filter(|text| !text.contains("tick"));
        let of = |text: &str, name: &str| {
            let value = text.split_once(&format!("{name}=\""))?.1;
            Some(value.split_once('"')?.0.to_owned())
        };
        let area = |text: &str| {
            let content = text.split_once('>').expect("a text").1;
            let content = content.split_once('<').expect("an end").0.to_owned();
            let number = |name| of(text, name).and_then(|it| it.parse::<f64>().ok());
            let (x, y) = (number(" x").expect("a place"), number(" y").expect("a place"));
            let width = CHARACTER * content.chars().count() as f64;
            let right = match of(text, "text-anchor").as_deref() {
                Some("middle") => x + width / 2.0,
                Some("end") => x,
                _ => x + width,
            };
            let area = area_of_line(&content, (right, y));
            (content, area)
        };
        texts.map(area).filter(|(_, area)| area[3] < PLOT.bottom && area[1] > 10.0).collect()
    }

    #[test]
    fn no_text_covers_another() {
        let roof = Roof { compute: Some(1e11), bandwidth: Some(1e10) };
        // Near the peak, on the slope, and all at one place.
        for places in [
            vec![(200.0, 9e10), (300.0, 9.5e10), (400.0, 9.9e10)],
            vec![(1.0, 9e9), (2.0, 1.9e10), (3.0, 2.9e10), (10.0, 9e10)],
            vec![(5.0, 2e9); 6],
        ] {
            let load = |(index, (intensity, compute)): (usize, &(f64, f64))| Load {
                label: format!("batch {index}"),
                name: String::new(),
                series: 0,
                intensity: *intensity,
                compute: *compute,
            };
            let loads: Vec<_> = places.iter().enumerate().map(load).collect();
            let svg = roofline("t", &[], roof, &loads).expect("a chart").into_string();
            let texts = texts(&svg);
            assert!(texts.len() >= 4, "{texts:?}");
            for (at, (one, area)) in texts.iter().enumerate() {
                for (other, beside) in &texts[at + 1..] {
                    assert!(!super::super::overlap(*area, *beside), "{one} and {other}: {svg}");
                }
            }
        }
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
