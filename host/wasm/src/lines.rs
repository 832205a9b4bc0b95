/*!
The protocol of classic modules: JSON, an object a line, in on standard input and out on standard output.

A module is a command that runs once for each call: the first line says which call it is, the data follows in lines of at
most [`PAGE`] values, and then standard input ends. So a language needs nothing but its own standard library to be used.
What a command states becomes the same types as what a component returns, and is checked by the same code.
*/

use std::collections::BTreeMap;
use std::io::Write as _;

use host_record::{CaseColumns, Cell, Column, ColumnData, Table};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::bindings::metric::tare::plugin::types::{AttributeResult, Gap, Measure, Measurement};
use crate::description::Description;
use crate::error::shortened;
use crate::plugin::Kind;

/// Name and version of the protocol, in the first line of each call.
const PROTOCOL: &str = "tare-lines/1";

/// Values or rows of a line.
const PAGE: usize = 4096;

/// A command's answer to `describe`.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Described {
    pub(crate) kind: Kind,
    id: String,
    version: String,
    summary: String,
    license: String,
    #[serde(default)]
    options: BTreeMap<String, String>,
    /// Columns that a metric reads.
    #[serde(default)]
    pub(crate) columns: Vec<String>,
    /// Views that a report reads.
    #[serde(default)]
    pub(crate) views: Vec<String>,
}

impl Described {
    pub(crate) fn description(&self) -> Description {
        let Self { id, version, summary, license, options, .. } = self;
        Description {
            id: id.clone(),
            version: version.clone(),
            summary: summary.clone(),
            license: license.clone(),
            options: options.clone().into_iter().collect(),
        }
    }
}

/// The first line of a call. Keys keep their order, so that a simple program can compare beginnings.
#[derive(Serialize)]
struct Call<'a> {
    protocol: &'static str,
    call: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    case: Option<Case<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    columns: Option<Vec<Header<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rehearsal: Option<bool>,
}

impl Call<'_> {
    fn new(call: &'static str) -> Self {
        let protocol = PROTOCOL;
        Self { protocol, call, case: None, options: None, columns: None, rehearsal: None }
    }
}

#[derive(Serialize)]
struct Case<'a> {
    id: &'a str,
    attributes: &'a BTreeMap<String, String>,
}

/// A column without its values.
#[derive(Serialize)]
struct Header<'a> {
    name: &'a str,
    unit: &'a str,
    width: u64,
    r#type: &'static str,
    rows: u64,
}

/// The first line of a view.
#[derive(Serialize)]
struct View<'a> {
    view: &'a str,
    columns: &'a [String],
}

/// Rows of a view.
#[derive(Serialize)]
struct Rows<'a> {
    view: &'a str,
    rows: Vec<Vec<Value>>,
}

/// The input of `describe`.
pub(crate) fn describe() -> Vec<u8> {
    let mut input = Vec::new();
    line(&mut input, &Call::new("describe"));
    input
}

/// The input of `compute`, with those columns of the case.
pub(crate) fn compute<'a>(
    case: &CaseColumns,
    columns: impl Iterator<Item = &'a Column> + Clone,
    options: &Value,
) -> Vec<u8> {
    let header = |column: &'a Column| {
        let (kind, values) = match &column.data {
            ColumnData::U64(values) => ("unsigned", values.len()),
            ColumnData::S64(values) => ("signed", values.len()),
            ColumnData::F32(values) => ("single", values.len()),
            ColumnData::F64(values) => ("double", values.len()),
            ColumnData::Boolean(values) => ("boolean", values.len()),
            ColumnData::Text(values) => ("text", values.len()),
        };
        let Column { name, unit, width, .. } = column;
        let rows = values as u64 / (*width).max(1);
        Header { name, unit, width: *width, r#type: kind, rows }
    };
    let call = Call {
        case: Some(Case { id: &case.case_id, attributes: &case.attributes }),
        options: Some(object(options)),
        columns: Some(columns.clone().map(header).collect()),
        ..Call::new("compute")
    };
    let mut input = Vec::new();
    line(&mut input, &call);
    for column in columns {
        match &column.data {
            ColumnData::U64(values) => pages(&mut input, &column.name, values),
            ColumnData::S64(values) => pages(&mut input, &column.name, values),
            ColumnData::F32(values) => pages(&mut input, &column.name, values),
            ColumnData::F64(values) => pages(&mut input, &column.name, values),
            ColumnData::Boolean(values) => pages(&mut input, &column.name, values),
            ColumnData::Text(values) => pages(&mut input, &column.name, values),
        }
    }
    input
}

/// The input of `render`. A rehearsal has no views.
pub(crate) fn render(views: Option<&BTreeMap<String, Table>>, options: &Value) -> Vec<u8> {
    let (options, rehearsal) = (Some(object(options)), Some(views.is_none()));
    let mut input = Vec::new();
    line(&mut input, &Call { options, rehearsal, ..Call::new("render") });
    for (view, table) in views.into_iter().flatten() {
        line(&mut input, &View { view, columns: &table.columns });
        for rows in table.rows.chunks(PAGE) {
            let rows = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
            line(&mut input, &Rows { view, rows });
        }
    }
    input
}

fn object(options: &Value) -> Value {
    if options.is_null() { json!({}) } else { options.clone() }
}

fn cell(cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Boolean(value) => json!(value),
        Cell::Integer(value) => json!(value),
        Cell::Real(value) => json!(value),
        Cell::Text(value) => json!(value),
    }
}

/// Values that are not finite are `null`: JSON has no others.
fn pages<T: Serialize>(input: &mut Vec<u8>, name: &str, values: &[T]) {
    #[derive(Serialize)]
    struct Page<'a, T> {
        column: &'a str,
        values: &'a [T],
    }
    for values in values.chunks(PAGE) {
        line(input, &Page { column: name, values });
    }
}

fn line(input: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(&mut *input, value).expect("it has text as keys");
    input.write_all(b"\n").expect("memory takes it");
}

/// Returns the objects of a command's output, a line each.
fn objects<T: for<'de> Deserialize<'de>>(output: &[u8]) -> Result<Vec<T>, String> {
    let text = std::str::from_utf8(output)
        .map_err(|error| format!("its standard output is not UTF-8: {error}"))?;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let parsed = lines.map(|(number, line)| {
        serde_json::from_str(line).map_err(|error| {
            format!(
                "line {number} of its standard output, {:?}, is not as the protocol {PROTOCOL} asks: {error}",
                shortened(line)
            )
        })
    });
    parsed.collect()
}

/// Reads the answer to `describe`.
pub(crate) fn described(output: &[u8]) -> Result<Described, String> {
    let mut objects: Vec<Described> = objects(output)?;
    let lines = objects.len();
    match objects.pop() {
        Some(described) if lines == 1 => Ok(described),
        _ => Err(format!("it describes itself in {lines} lines instead of one")),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct StatedGap {
    kind: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Stated<T> {
    Error(Refusal),
    Answer(T),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    error: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct StatedMeasurement {
    metric: String,
    value: Option<f64>,
    gap: Option<StatedGap>,
    interval: Option<(f64, f64)>,
    unit: String,
    direction: String,
    #[serde(default)]
    attributes: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct StatedFile {
    file: String,
    text: String,
}

/// The answers of a call: what was stated, or the command's own error.
type Answers<T> = Result<Result<T, String>, String>;

/// Separates an error from answers.
fn answers<T: for<'de> Deserialize<'de>>(output: &[u8]) -> Answers<Vec<T>> {
    // Each line is tried as an error first, so that the message about another line is about an answer.
    if let Ok(found) = objects::<Stated<Value>>(output) {
        for one in found {
            if let Stated::Error(Refusal { error }) = one {
                return Ok(Err(error));
            }
        }
    }
    objects::<T>(output).map(Ok)
}

/// Reads the answer to `compute`.
pub(crate) fn measurements(output: &[u8]) -> Answers<Vec<Measurement>> {
    let stated: Vec<StatedMeasurement> = match answers(output)? {
        Ok(stated) => stated,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let measurement = |stated: StatedMeasurement| {
        let measure = match (stated.value, stated.gap) {
            (Some(value), None) => Measure::Value(value),
            (None, Some(StatedGap { kind, reason })) => Measure::Gap(Gap { kind, reason }),
            _ => {
                return Err(format!(
                    "`{}` needs either `value` or `gap`",
                    shortened(&stated.metric)
                ));
            }
        };
        let attributes = stated.attributes.into_iter();
        Ok(Measurement {
            metric: stated.metric,
            measure,
            interval: stated.interval,
            unit: stated.unit,
            direction: stated.direction,
            attributes: attributes.map(|(name, value)| AttributeResult { name, value }).collect(),
        })
    };
    stated.into_iter().map(measurement).collect::<Result<_, _>>().map(Ok)
}

/// Reads the answer to `render`: names and texts of files, the main one first.
pub(crate) fn files(output: &[u8]) -> Answers<Vec<(String, String)>> {
    let stated = answers::<StatedFile>(output)?;
    Ok(stated.map(|files| files.into_iter().map(|file| (file.file, file.text)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_become_lines() {
        let column =
            |name: &str, data| Column { name: name.into(), unit: "1".into(), width: 1, data };
        let case = CaseColumns {
            case_id: "aa".into(),
            attributes: [("batch".to_owned(), "8".to_owned())].into(),
            columns: vec![
                column("tokens", ColumnData::U64((0..4098).collect())),
                column("step-loss", ColumnData::F64(vec![0.5, f64::NAN])),
            ],
        };
        let input = compute(&case, case.columns.iter(), &Value::Null);
        let lines: Vec<Value> = input
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).expect("JSON"))
            .collect();
        assert_eq!(lines.len(), 4);
        insta::assert_snapshot!(String::from_utf8_lossy(&input).lines().next().expect("a line"), @r#"{"protocol":"tare-lines/1","call":"compute","case":{"id":"aa","attributes":{"batch":"8"}},"options":{},"columns":[{"name":"tokens","unit":"1","width":1,"type":"unsigned","rows":4098},{"name":"step-loss","unit":"1","width":1,"type":"double","rows":2}]}"#);
        assert_eq!(lines[2], json!({ "column": "tokens", "values": [4096, 4097] }));
        assert_eq!(lines[3], json!({ "column": "step-loss", "values": [0.5, null] }));
    }

    #[test]
    fn what_is_not_of_the_protocol_is_named() {
        let good = r#"{"metric":"a.b","value":1,"unit":"1","direction":"lower"}"#;
        let one = measurements(format!("{good}\n\n").as_bytes()).expect("lines").expect("values");
        assert_eq!(one.len(), 1);
        let wrong = |text: &str| measurements(text.as_bytes()).expect_err("a fault");
        insta::assert_snapshot!(wrong(&format!("{good}\nhello")), @r#"line 2 of its standard output, "hello", is not as the protocol tare-lines/1 asks: expected value at line 1 column 1"#);
        insta::assert_snapshot!(wrong(r#"{"metric":"a.b","unit":"1","direction":"lower"}"#), @"`a.b` needs either `value` or `gap`");
        insta::assert_snapshot!(wrong(r#"{"metric":"a.b","value":1,"unit":"1","way":"up"}"#), @r#"line 1 of its standard output, "{\"metric\":\"a.b\",\"value\":1,\"unit\":\"1\",\"way\":\"up\"}", is not as the protocol tare-lines/1 asks: unknown field `way`, expected one of `metric`, `value`, `gap`, `interval`, `unit`, `direction`, `attributes` at line 1 column 42"#);
        let refused = measurements(br#"{"error":"not on a Sunday"}"#).expect("lines");
        assert_eq!(refused.expect_err("an error"), "not on a Sunday");
        insta::assert_snapshot!(described(b"").expect_err("nothing"), @"it describes itself in 0 lines instead of one");
    }
}
