//! Figures, and charts as SVG.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::spec::{Chart, Kind};
use super::{bars, draw, mark};

/// A figure of a page: charts that belong together, with a heading and an explanation.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Its id on the page.
    pub id: String,
    /// Heading, if the section has several figures.
    pub heading: Option<String>,
    /// Explanation below.
    pub caption: Option<Markup>,
    /// Charts, side by side if there is room.
    pub charts: Vec<Chart>,
    /// Whether it is drawn without scripts as well.
    pub is_static: bool,
}

impl Figure {
    /// Returns the figure as SVG, which the script replaces.
    #[must_use]
    pub fn draw(&self) -> Markup {
        let drawn: Vec<Markup> = match self.is_static {
            true => self.charts.iter().filter_map(svg).collect(),
            false => Vec::new(),
        };
        html! {
            figure id=(self.id) hidden[!self.is_static] {
                @if let Some(heading) = &self.heading { h3 { (heading) } }
                div.panels { @for chart in &drawn { div.panel { (chart) } } }
                @if let Some(caption) = &self.caption { figcaption { (caption) } }
            }
        }
    }

    /// Returns whether there is anything to draw.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.charts.iter().all(|chart| chart.drawable().next().is_none())
    }

    /// Returns the figure for the script.
    #[must_use]
    pub fn json(&self) -> Value {
        let charts: Vec<Value> = self
            .charts
            .iter()
            .filter(|chart| chart.drawable().next().is_some())
            .map(Chart::json)
            .collect();
        json!({ "id": self.id, "charts": charts })
    }
}

/// Returns a chart as SVG; `None` without a value that can be drawn.
#[must_use]
pub fn svg(chart: &Chart) -> Option<Markup> {
    chart.drawable().next()?;
    Some(match chart.kind {
        Kind::Points => draw::points(chart),
        Kind::Bars | Kind::Stacks => bars::bars(chart),
    })
}

/// Returns a chart as an SVG document of its own, with its style.
#[must_use]
pub fn document(chart: &Chart) -> Option<String> {
    let drawn = svg(chart)?.into_string();
    // The legend before it has drawings too.
    let start = drawn.find("<svg role=\"img\"")?;
    let open = start + drawn[start..].find('>')? + 1;
    let inside = &drawn[open..drawn.rfind("</svg>")?];
    let size = drawn[start..open].split("viewBox=\"0 0 ").nth(1)?.split('"').next()?;
    let (width, height) = size.split_once(' ')?;
    let (width, height): (f64, f64) = (width.parse().ok()?, height.parse().ok()?);
    let mut names: Vec<(usize, &str)> = Vec::new();
    for series in chart.series.iter().filter(|series| series.is_drawn()) {
        if let Some(group) = series.group
            && !names.iter().any(|(known, _)| *known == group)
        {
            names.push((group, &series.name));
        }
    }
    let (legend, below) = mark::legend_inside(&names, height);
    let style = concat!(
        "<style>",
        include_str!("../colours.css"),
        include_str!("../chart.css"),
        "</style>"
    );
    let height = height + below;
    let legend = legend.into_string();
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">{style}{inside}{legend}</svg>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::spec::{Axis, AxisKind, Point, Series};
    use super::*;

    fn chart(kind: AxisKind, points: Vec<Point>) -> Chart {
        Chart {
            title: "t".into(),
            kind: Kind::Points,
            x: Axis::new("batch size", "1", AxisKind::Sizes),
            y: Axis::new("latency", "ns", kind),
            series: vec![Series::line("a", 0, points)],
            marks: Vec::new(),
        }
    }

    #[test]
    fn both_drawings_have_the_same_points() {
        let values = [(1.0, 1e6), (2.0, 3e6), (4.0, f64::NAN), (8.0, 0.0), (0.0, 5.0)];
        let points =
            values.map(|(x, y)| Point::of_case(x, y, Some((y * 0.9, y * 1.1)), 3)).to_vec();
        let chart = chart(AxisKind::Logarithmic, points);
        let svg = svg(&chart).expect("a chart").into_string();
        assert_eq!(svg.matches("class=\"mark ").count(), 2, "{svg}");
        let json = chart.json();
        let points = json["series"][0]["points"].as_array().expect("points");
        insta::assert_snapshot!(Value::Array(points.clone()), @"[[1,1000000,900000,1100000],[2,3000000,2700000,3300000]]");
    }

    #[test]
    fn nothing_to_draw_is_no_chart() {
        assert!(svg(&chart(AxisKind::Logarithmic, vec![Point::new(1.0, 0.0)])).is_none());
        assert!(svg(&chart(AxisKind::Fitting, Vec::new())).is_none());
    }

    #[test]
    fn a_document_is_whole() {
        let chart = chart(AxisKind::Fitting, vec![Point::new(1.0, 2.0), Point::new(2.0, 3.0)]);
        let document = document(&chart).expect("a chart");
        assert!(
            document.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" "),
            "{document:.200}"
        );
        assert!(document.contains("<style>") && document.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn a_document_has_its_legend_inside() {
        let mut chart = chart(AxisKind::Fitting, vec![Point::new(1.0, 2.0), Point::new(2.0, 3.0)]);
        chart.series.push(Series::points("b", 1, vec![Point::new(1.0, 4.0)]));
        let document = document(&chart).expect("a chart");
        assert_eq!((document.matches("<svg ").count(), document.matches("</svg>").count()), (1, 1));
        assert!(document.contains(">a</text>") && document.contains(">b</text>"), "{document}");
        assert!(!document.contains("<li>"), "{document}");
    }
}
