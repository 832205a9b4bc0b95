//! Contents of charts, as values.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::Scale;

/// Number of series that can be distinguished in one chart.
pub const MAXIMUM_SERIES: usize = 8;

/// A chart.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Title.
    pub title: String,
    /// Form.
    pub kind: Kind,
    /// Horizontal axis, or the axis of the rows of bars.
    pub x: Axis,
    /// Vertical axis, or the axis of the lengths of bars.
    pub y: Axis,
    /// Series, the most important first.
    pub series: Vec<Series>,
    /// Places on the horizontal axis that are named.
    pub marks: Vec<Mark>,
}

/// Form of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Lines and points.
    Points,
    /// Bars beside each other; `x` has categories.
    Bars,
    /// Bars of one row after each other, a series each; `x` has categories.
    Stacks,
}

/// An axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Quantity on the axis, without the unit.
    pub title: String,
    /// Unit by its symbol, as metrics have it.
    pub unit: String,
    /// Kind.
    pub kind: AxisKind,
}

/// Kind of an axis.
#[derive(Debug, Clone, PartialEq)]
pub enum AxisKind {
    /// Even, around the values.
    Around,
    /// Even, from zero.
    FromZero,
    /// Logarithmic. Values must be above zero.
    Logarithmic,
    /// From zero, or logarithmic if small values would vanish.
    Fitting,
    /// Logarithmic, with a tick at each value, such as batch sizes.
    Sizes,
    /// Shares of a whole by their depth in the tail: 0 for 0 %, 1 for 90 %, 2 for 99 %.
    Nines,
    /// Names, at 0, 1, 2 and so on.
    Names(Vec<String>),
}

impl Axis {
    /// Returns an axis.
    pub fn new(title: impl Into<String>, unit: impl Into<String>, kind: AxisKind) -> Self {
        Self { title: title.into(), unit: unit.into(), kind }
    }

    /// Returns an axis of names.
    pub fn names(title: impl Into<String>, names: Vec<String>) -> Self {
        Self::new(title, "1", AxisKind::Names(names))
    }
}

/// A series.
#[derive(Debug, Clone)]
pub struct Series {
    /// Name.
    pub name: String,
    /// Name of the lines of the same kind in all groups, such as `p99`, if a group has several.
    pub line: Option<&'static str>,
    /// Position of its group, which sets colour and shape; `None` for a line that all groups are compared with, such as
    /// a roof.
    pub group: Option<usize>,
    /// Whether its points are joined by a line.
    pub joined: bool,
    /// Whether it is the less important of its group: dashed, with hollow points.
    pub lesser: bool,
    /// Whether its points have marks.
    pub marked: bool,
    /// Points, by rising `x` if they are joined.
    pub points: Vec<Point>,
}

impl Series {
    /// Returns a line with marks.
    pub fn line(name: impl Into<String>, group: usize, points: Vec<Point>) -> Self {
        let group = Some(group);
        Self {
            name: name.into(),
            line: None,
            group,
            joined: true,
            lesser: false,
            marked: true,
            points,
        }
    }

    /// Returns a line without marks that belongs to no group.
    pub fn reference(name: impl Into<String>, points: Vec<Point>) -> Self {
        Self { group: None, marked: false, lesser: true, ..Self::line(name, 0, points) }
    }

    /// Returns whether colours can tell its group.
    pub(super) fn is_drawn(&self) -> bool {
        self.group.is_none_or(|group| group < MAXIMUM_SERIES)
    }

    /// Returns the classes of its marks.
    pub(super) fn class(&self) -> String {
        self.group.map_or("none".to_owned(), |group| format!("c{group}"))
    }

    /// Returns points without a line.
    pub fn points(name: impl Into<String>, group: usize, points: Vec<Point>) -> Self {
        Self { joined: false, ..Self::line(name, group, points) }
    }
}

/// A point, or the end of a bar.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Point {
    /// Place.
    pub x: f64,
    /// Value.
    pub y: f64,
    /// Interval around the value.
    pub interval: Option<(f64, f64)>,
    /// Place of its case in the page's data.
    pub case: Option<usize>,
    /// Name of the point, beside it.
    pub label: Option<String>,
    /// Its full name, for its tooltip; that of its series if there is none.
    pub name: Option<String>,
    /// Whether it is chosen, and gets a ring.
    pub chosen: bool,
}

impl Point {
    /// Returns a point.
    #[must_use]
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }

    /// Returns a point with an interval, of a case.
    #[must_use]
    pub fn of_case(x: f64, y: f64, interval: Option<(f64, f64)>, case: usize) -> Self {
        Self { interval, case: Some(case), ..Self::new(x, y) }
    }
}

/// A named place on the horizontal axis.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Place.
    pub x: f64,
    /// Name.
    pub name: String,
    /// Whether it stands out, such as a change beside differences of the environment.
    pub strong: bool,
}

impl Chart {
    /// Returns points that can be drawn, each with its series.
    pub(super) fn drawable(&self) -> impl Iterator<Item = (&Series, &Point)> {
        let all =
            self.series.iter().flat_map(|series| series.points.iter().map(move |it| (series, it)));
        all.filter(|(_, point)| self.can_draw(point))
    }

    pub(super) fn can_draw(&self, point: &Point) -> bool {
        let positive = |axis: &Axis| matches!(axis.kind, AxisKind::Logarithmic | AxisKind::Sizes);
        point.x.is_finite()
            && point.y.is_finite()
            && (point.x > 0.0 || !positive(&self.x))
            && (point.y > 0.0 || !positive(&self.y))
    }

    /// Returns the interval of a point, as far as it can be drawn.
    pub(super) fn interval(&self, point: &Point) -> Option<(f64, f64)> {
        let (low, high) =
            point.interval.filter(|(low, high)| low.is_finite() && high.is_finite())?;
        (low > 0.0 || self.is_linear()).then_some((low, high))
    }

    fn is_linear(&self) -> bool {
        !matches!(self.y_kind(), AxisKind::Logarithmic)
    }

    /// Returns the kind of the axis of values, resolved.
    pub(super) fn y_kind(&self) -> AxisKind {
        match self.y.kind {
            AxisKind::Fitting => {
                let values =
                    || self.series.iter().flat_map(|series| &series.points).map(|point| point.y);
                let (low, high) = values()
                    .filter(|value| value.is_finite())
                    .fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
                        (low.min(value), high.max(value))
                    });
                if low > 0.0 && high > low * 20.0 {
                    AxisKind::Logarithmic
                } else {
                    AxisKind::FromZero
                }
            }
            ref other => other.clone(),
        }
    }

    /// Returns the unit that suits the values of an axis.
    pub(super) fn scale<'a>(&self, axis: &'a Axis, of: fn(&Point) -> f64) -> Scale<'a> {
        Scale::for_values(&axis.unit, self.drawable().map(|(_, point)| of(point).abs()))
    }

    /// Returns the title of an axis with its unit and its kind.
    pub(super) fn title(axis: &Axis, kind: &AxisKind, scale: &Scale<'_>) -> String {
        let mut title = axis.title.clone();
        match scale.symbol() {
            "" | "/s" => {}
            symbol => {
                let _ = write!(title, " in {symbol}");
            }
        }
        match kind {
            AxisKind::Logarithmic => title.push_str(", logarithmic"),
            AxisKind::FromZero => title.push_str(", from zero"),
            _ => {}
        }
        title
    }

    pub(super) fn json(&self) -> Value {
        let axis = |axis: &Axis, kind: &AxisKind, of: fn(&Point) -> f64| {
            let scale = self.scale(axis, of);
            let mut value = json!({
                "title": Self::title(axis, kind, &scale),
                "name": axis.title,
                "unit": axis.unit,
                "kind": match kind {
                    AxisKind::Around | AxisKind::Fitting => "around",
                    AxisKind::FromZero => "zero",
                    AxisKind::Logarithmic => "log",
                    AxisKind::Sizes => "sizes",
                    AxisKind::Nines => "nines",
                    AxisKind::Names(_) => "names",
                },
                "scale": scale.apply(1.0),
            });
            if let AxisKind::Names(names) = kind {
                value["names"] = json!(names);
            }
            value
        };
        let kind = match self.kind {
            Kind::Points => "points",
            Kind::Bars => "bars",
            Kind::Stacks => "stacks",
        };
        json!({
            "title": self.title,
            "kind": kind,
            "x": axis(&self.x, &self.x.kind, |point| point.x),
            "y": axis(&self.y, &self.y_kind(), |point| point.y),
            "series": self.series.iter().map(|series| self.json_of(series)).collect::<Vec<_>>(),
            "marks": self.marks.iter().map(|mark| json!([short(mark.x), mark.name, u8::from(mark.strong)])).collect::<Vec<_>>(),
        })
    }

    /// Returns a series for the script. A point is a list: place, value, bounds of the interval, case, label, name and
    /// whether it is chosen; what is missing at the end is left out. If all points are of one case, the series has it.
    fn json_of(&self, series: &Series) -> Value {
        let first = series.points.first().and_then(|point| point.case);
        let shared = first.filter(|_| series.points.iter().all(|point| point.case == first));
        let points = series.points.iter().filter(|point| self.can_draw(point)).map(|point| {
            let (low, high) = self.interval(point).unzip();
            let mut values = vec![
                short(point.x),
                short(point.y),
                low.map_or(Value::Null, short),
                high.map_or(Value::Null, short),
            ];
            if shared.is_none() {
                values.push(json!(point.case));
            }
            values.extend([
                json!(point.label),
                json!(point.name),
                if point.chosen { json!(1) } else { Value::Null },
            ]);
            while values.last().is_some_and(Value::is_null) {
                values.pop();
            }
            Value::Array(values)
        });
        let mut value = json!({
            "name": series.name, "group": series.group, "points": points.collect::<Vec<_>>(),
        });
        for (name, set) in
            [("joined", series.joined), ("lesser", series.lesser), ("bare", !series.marked)]
        {
            if set {
                value[name] = json!(1);
            }
        }
        if let Some(case) = shared {
            value["case"] = json!(case);
        }
        if let Some(line) = series.line {
            value["line"] = json!(line);
        }
        value
    }
}

/// Returns a coordinate as JSON: with four significant digits, more than a screen can show.
fn short(value: f64) -> Value {
    number_with(value, 4)
}

/// Returns a number as JSON with so many significant digits; whole numbers have no fraction.
#[must_use]
pub fn number_with(value: f64, digits: usize) -> Value {
    let rounded: f64 = format!("{value:.*e}", digits - 1).parse().unwrap_or(value);
    if rounded == rounded.trunc() && rounded.abs() < 9e15 {
        json!(rounded as i64)
    } else {
        json!(rounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let written: Vec<String> = [0.0, 123_456_789.0, 0.000_123_456_7, -12.345_678, 7.0, 0.1]
            .map(|it| short(it).to_string())
            .into();
        insta::assert_snapshot!(written.join(" "), @"0 123500000 0.0001235 -12.35 7 0.1");
    }
}
