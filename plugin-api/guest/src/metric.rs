//! Metrics: values for one case from its columns.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use crate::{Description, Error};

/// Computes values for one case from its columns.
pub trait Metric {
    /// Type of the plugin's options. [`NoOptions`](crate::NoOptions) if it has none.
    type Options: DeserializeOwned;

    /// Returns the plugin's description.
    fn describe() -> Description;

    /// Returns the names of the columns that it reads. It gets those that the case has. `paged:` before a name, such as
    /// `paged:latency`, asks for a column that [`Columns::pages`] reads in pages.
    fn columns() -> &'static [&'static str];

    /// Returns the values for one case. If a needed column is absent, the value is a [`Gap`].
    ///
    /// The set of values, with their units and directions, depends only on the options: before anything is measured,
    /// the host calls this without columns, to check the options and to learn the names on which limits can be set.
    ///
    /// # Errors
    ///
    /// If the options are invalid.
    fn compute(
        case: &Case,
        columns: &Columns,
        options: Self::Options,
    ) -> Result<Vec<Measurement>, Error>;
}

/// A case, by its id and its coordinates on the axes of the matrix, such as `model` and `batch`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Case {
    /// The case's id.
    pub id: String,
    /// Its coordinates; under `confidence` the manifest's level, if set; and under
    /// `missing.COLUMN` why it has no such column, if the host knows.
    pub attributes: BTreeMap<String, String>,
}

impl Case {
    /// Returns the confidence of intervals, strictly between 0 and 1: the manifest's, or 0.95.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        const USUAL: f64 = 0.95;

        let asked = self.attributes.get("confidence").and_then(|text| text.parse().ok());
        asked.filter(|level| *level > 0.0 && *level < 1.0).unwrap_or(USUAL)
    }

    /// Returns the host's reasons for columns that the case lacks, by their names.
    pub(crate) fn missing(&self) -> BTreeMap<String, String> {
        let reason = |(name, reason): (&String, &String)| {
            Some((name.strip_prefix("missing.")?.to_owned(), reason.clone()))
        };
        self.attributes.iter().filter_map(reason).collect()
    }
}

/// Values of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnData {
    /// Unsigned 64-bit integers.
    Unsigned(Vec<u64>),
    /// Signed 64-bit integers.
    Signed(Vec<i64>),
    /// 32-bit floats.
    Single(Vec<f32>),
    /// 64-bit floats.
    Double(Vec<f64>),
    /// Booleans.
    Boolean(Vec<bool>),
    /// Texts.
    Text(Vec<String>),
}

impl ColumnData {
    fn len(&self) -> usize {
        match self {
            Self::Unsigned(values) => values.len(),
            Self::Signed(values) => values.len(),
            Self::Single(values) => values.len(),
            Self::Double(values) => values.len(),
            Self::Boolean(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    fn part(&self, range: std::ops::Range<usize>) -> Self {
        match self {
            Self::Unsigned(values) => Self::Unsigned(values[range].to_vec()),
            Self::Signed(values) => Self::Signed(values[range].to_vec()),
            Self::Single(values) => Self::Single(values[range].to_vec()),
            Self::Double(values) => Self::Double(values[range].to_vec()),
            Self::Boolean(values) => Self::Boolean(values[range].to_vec()),
            Self::Text(values) => Self::Text(values[range].to_vec()),
        }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::Unsigned(_) => "unsigned integers",
            Self::Signed(_) => "signed integers",
            Self::Single(_) => "32-bit floats",
            Self::Double(_) => "64-bit floats",
            Self::Boolean(_) => "booleans",
            Self::Text(_) => "texts",
        }
    }
}

/// A column of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its name, such as `latency`.
    pub name: String,
    /// Symbol of its unit, such as `ns`.
    pub unit: String,
    /// Values per row; the data holds rows × width values.
    pub width: usize,
    /// The values.
    pub data: ColumnData,
}

/// The columns of a case: those that the plugin asked for and the case has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Columns {
    pub(crate) columns: Vec<Column>,
    /// Why the case lacks a column, by its name, if the host knows.
    pub(crate) missing: BTreeMap<String, String>,
}

impl From<Vec<Column>> for Columns {
    fn from(columns: Vec<Column>) -> Self {
        Self { columns, missing: BTreeMap::new() }
    }
}

macro_rules! typed_column {
    ($name:ident, $variant:ident, $type:ty, $expected:literal) => {
        #[doc = concat!("The values of a column of ", $expected, ".")]
        ///
        /// # Errors
        ///
        /// A gap if the case lacks the column or it holds another type.
        pub fn $name(&self, name: &str) -> Result<&[$type], Gap> {
            match &self.column(name)?.data {
                ColumnData::$variant(values) => Ok(values),
                other => Err(Gap::unsupported(format!(
                    concat!("column `{}` holds {}, where this metric reads ", $expected),
                    name,
                    other.type_name()
                ))),
            }
        }
    };
}

impl Columns {
    /// Returns the host's reason for a column that the case lacks, if it has one.
    #[must_use]
    pub fn missing(&self, name: &str) -> Option<&str> {
        self.missing.get(name).map(String::as_str)
    }

    /// Returns these columns with the host's reasons for those that the case lacks.
    #[must_use]
    pub fn of(case: &Case, columns: Vec<Column>) -> Self {
        Self { columns, missing: case.missing() }
    }

    /// Returns a column.
    ///
    /// # Errors
    ///
    /// A gap if the case lacks it, with the host's reason if it has one.
    pub fn column(&self, name: &str) -> Result<&Column, Gap> {
        let absent = || match self.missing.get(name) {
            Some(reason) => Gap::not_measured(reason),
            None => Gap::not_measured(format!("the case has no record of `{name}`")),
        };
        self.columns.iter().find(|column| column.name == name).ok_or_else(absent)
    }

    typed_column!(unsigned, Unsigned, u64, "unsigned integers");
    typed_column!(signed, Signed, i64, "signed integers");
    typed_column!(single, Single, f32, "32-bit floats");
    typed_column!(double, Double, f64, "64-bit floats");
    typed_column!(boolean, Boolean, bool, "booleans");
    typed_column!(text, Text, String, "texts");

    /// Returns the pages of a column, each with at most `rows` rows, in order. In the sandbox only one page is in the plugin's
    /// memory at a time, if `columns` asks for the column with `paged:` before its name. That needs a host of `tare:plugin` 0.1.4.
    ///
    /// # Errors
    ///
    /// A gap if the case lacks the column.
    pub fn pages(&self, name: &str, rows: usize) -> Result<Pages<'_>, Gap> {
        let rows = rows.max(1);
        let absent = match self.column(name) {
            Ok(column) => {
                let header = PagedColumn {
                    name: column.name.clone(),
                    unit: column.unit.clone(),
                    width: column.width,
                    rows: column.data.len() / column.width.max(1),
                };
                return Ok(Pages { header, rows, next: 0, whole: Some(column) });
            }
            Err(absent) => absent,
        };
        #[cfg(target_arch = "wasm32")]
        if let Some(header) =
            crate::component::paged_headers().into_iter().find(|header| header.name == name)
        {
            return Ok(Pages { header, rows, next: 0, whole: None });
        }
        Err(absent)
    }

    /// Returns the columns whose names begin with `prefix`, such as `phase.`, with the rest of their names,
    /// in the order of the case.
    pub fn beginning(&self, prefix: &str) -> impl Iterator<Item = (&str, &Column)> {
        self.columns
            .iter()
            .filter_map(move |column| Some((column.name.strip_prefix(prefix)?, column)))
    }
}

/// A column that is read in pages, without its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagedColumn {
    /// Its name, such as `latency`.
    pub name: String,
    /// Symbol of its unit, such as `ns`.
    pub unit: String,
    /// Values per row.
    pub width: usize,
    /// Number of its rows.
    pub rows: usize,
}

/// The pages of a column: an iterator over the values of some rows at a time.
#[derive(Debug)]
pub struct Pages<'a> {
    header: PagedColumn,
    /// The most rows of a page.
    rows: usize,
    /// The first row of the next page.
    next: usize,
    /// The column, if it is in memory as a whole.
    whole: Option<&'a Column>,
}

impl Pages<'_> {
    /// Returns the column without its values.
    #[must_use]
    pub fn header(&self) -> &PagedColumn {
        &self.header
    }
}

impl Iterator for Pages<'_> {
    type Item = Result<ColumnData, Gap>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.next;
        let count = self.rows.min(self.header.rows.saturating_sub(first));
        if count == 0 {
            return None;
        }
        self.next += count;
        if let Some(column) = self.whole {
            let width = column.width;
            return Some(Ok(column.data.part(first * width..(first + count) * width)));
        }
        #[cfg(target_arch = "wasm32")]
        return Some(
            crate::component::read_page(&self.header.name, first, count).map_err(Gap::unsupported),
        );
        // Outside the sandbox all columns are in memory.
        #[cfg(not(target_arch = "wasm32"))]
        None
    }
}

/// Kinds of gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapKind {
    /// The machine, the backend or the case offers no such measurement.
    NotMeasured,
    /// The metric cannot be computed here.
    Unsupported,
}

impl GapKind {
    /// Returns `not-measured` or `unsupported`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotMeasured => "not-measured",
            Self::Unsupported => "unsupported",
        }
    }
}

/// The reason why there is no value; never a zero or a guess.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Kind of the gap.
    pub kind: GapKind,
    /// The reason, in one sentence.
    pub reason: String,
}

impl Gap {
    /// Creates a gap: the machine, the backend or the case offers no such measurement.
    pub fn not_measured(reason: impl Into<String>) -> Self {
        Self { kind: GapKind::NotMeasured, reason: reason.into() }
    }

    /// Creates a gap: the value cannot be computed here.
    pub fn unsupported(reason: impl Into<String>) -> Self {
        Self { kind: GapKind::Unsupported, reason: reason.into() }
    }
}

impl From<&str> for Gap {
    fn from(reason: &str) -> Self {
        Self::not_measured(reason)
    }
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Lower is better.
    Lower,
    /// Higher is better.
    Higher,
    /// Neither: the value only describes.
    Neutral,
}

impl Direction {
    /// Returns `lower`, `higher` or `neutral`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::Neutral => "neutral",
        }
    }
}

/// One value of a metric for one case, or the reason why there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// Dotted name, such as `latency.p99`, that begins with the plugin's id.
    pub metric: String,
    /// The value, or the reason why there is none.
    pub value: Result<f64, Gap>,
    /// Bounds of an interval around the value, in the same unit.
    pub interval: Option<(f64, f64)>,
    /// Unit by its symbol: `ns`, `1/s`, `B`, `1` for a plain ratio.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// Other facts, such as the definition of the value.
    pub attributes: BTreeMap<String, String>,
}

impl Measurement {
    /// Creates a value, or the reason why there is none, without interval and attributes.
    pub fn new(
        metric: impl Into<String>,
        value: Result<f64, Gap>,
        unit: impl Into<String>,
        direction: Direction,
    ) -> Self {
        Self {
            metric: metric.into(),
            value,
            interval: None,
            unit: unit.into(),
            direction,
            attributes: BTreeMap::new(),
        }
    }

    /// Adds an interval around the value.
    #[must_use]
    pub fn with_interval(mut self, low: f64, high: f64) -> Self {
        self.interval = Some((low, high));
        self
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with_attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_the_column_in_parts() {
        let columns = Columns::from(vec![Column {
            name: "output".into(),
            unit: "1".into(),
            width: 2,
            data: ColumnData::Single(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        }]);
        let pages = columns.pages("output", 2).expect("it is there");
        assert_eq!((pages.header().rows, pages.header().width), (3, 2));
        let pages: Vec<_> = pages.collect::<Result<_, _>>().expect("pages");
        assert_eq!(
            pages,
            [ColumnData::Single(vec![1.0, 2.0, 3.0, 4.0]), ColumnData::Single(vec![5.0, 6.0])]
        );
        let gap = columns.pages("latency", 2).expect_err("absent");
        assert_eq!(gap.reason, "the case has no record of `latency`");
    }

    #[test]
    fn a_column_that_is_absent_or_of_another_type_is_a_gap() {
        let columns = Columns::from(vec![Column {
            name: "latency".into(),
            unit: "ns".into(),
            width: 1,
            data: ColumnData::Unsigned(vec![3, 4]),
        }]);
        assert_eq!(columns.unsigned("latency"), Ok([3, 4].as_slice()));
        insta::assert_snapshot!(
            columns.unsigned("label").unwrap_err().reason,
            @"the case has no record of `label`"
        );
        let mut case = Case::default();
        case.attributes.insert("missing.label".into(), "there are no labels".into());
        let process = Column {
            name: "process".into(),
            unit: "1".into(),
            width: 1,
            data: ColumnData::Unsigned(vec![0, 1]),
        };
        let explained = Columns::of(&case, vec![process]);
        let each = explained.processes().expect("two");
        for columns in [&explained, &each[1]] {
            assert_eq!(columns.unsigned("label").unwrap_err().reason, "there are no labels");
        }
        let gap = columns.single("latency").unwrap_err();
        assert_eq!(gap.kind, GapKind::Unsupported);
        insta::assert_snapshot!(
            gap.reason,
            @"column `latency` holds unsigned integers, where this metric reads 32-bit floats"
        );
    }
}
