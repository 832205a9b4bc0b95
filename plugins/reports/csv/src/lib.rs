/*!
Every value of the run as CSV, a row each: `results.csv`, after RFC 4180, in UTF-8.

The file has the long form: a row holds the coordinates of a case, the name of one metric and its value, or the reason
why there is none. A case that failed or was a gap has one row without a metric, so that it is not overlooked. For an
open loop, the rates and the lateness of its generator follow after the value, repeated in every row of the case.
Numbers are written in full, in the metric's own unit; an empty field is a missing value and never a zero.
*/

use plugin_guest::{Description, Error, NoOptions, Output, Report, Views};
use report_common::{Axis, Case, Group, MetricValue, QUANTITIES, Quantity, Run, visible};

/// The report.
pub struct Csv;

const FILE: &str = "results.csv";

/// Returns the quantities that show how well the load of an open loop was kept up.
fn load_quantities() -> impl Iterator<Item = &'static Quantity> {
    QUANTITIES.iter().filter(|quantity| quantity.group == Group::Load)
}

/// Returns the columns; axes and quantities have the same names as in the host's tables.
fn header() -> Vec<String> {
    let mut header = vec!["run_id", "case_id"];
    header.extend(Axis::ALL.iter().map(|axis| axis.column()));
    header.extend([
        "outcome",
        "valid",
        "metric",
        "value",
        "unit",
        "direction",
        "interval_low",
        "interval_high",
        "gap_kind",
        "gap_reason",
    ]);
    let mut header: Vec<_> = header.into_iter().map(str::to_owned).collect();
    header.extend(load_quantities().map(Quantity::column));
    header.extend(["search_end", "search_accepted", "search_rejected"].map(str::to_owned));
    header
}

impl Report for Csv {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("csv")
    }

    fn render(
        views: &dyn Views,
        output: &mut dyn Output,
        _: NoOptions,
    ) -> Result<Vec<String>, Error> {
        let run = Run::read(views)?;
        let contents = table(&run).map_err(|error| error.to_string())?;
        output.write(FILE, &contents)?;
        Ok(vec![FILE.to_owned()])
    }
}

fn table(run: &Run) -> Result<Vec<u8>, csv::Error> {
    let mut writer =
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(header())?;
    for case in &run.cases {
        let (coordinates, load) = (coordinates(run, case), load(case));
        let mut row =
            |value: [String; 8]| writer.write_record(coordinates.iter().chain(&value).chain(&load));
        let reason = case.reason();
        if reason.is_some() || case.results.is_empty() {
            let (kind, reason) = reason.unzip();
            row(value(None, kind, reason.as_deref()))?;
        }
        for result in &case.results {
            row(value(Some(result), None, None))?;
        }
    }
    writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))
}

/// Returns a cell of text that spreadsheets do not take for a formula.
fn text(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    format!("{guard}{}", visible(text))
}

fn coordinates(run: &Run, case: &Case) -> Vec<String> {
    let mut cells = vec![text(&run.id), text(&case.id)];
    cells.extend(Axis::ALL.iter().map(|axis| {
        let value = axis.value(&case.key).unwrap_or_default();
        if axis.is_number() { value } else { text(&value) }
    }));
    let valid = case.valid().map(|valid| valid.to_string());
    cells.extend([case.record.outcome.name().to_owned(), valid.unwrap_or_default()]);
    cells
}

/// Returns the pace of an open loop, and the result of the search for its rate; empty for others.
fn load(case: &Case) -> Vec<String> {
    let number = |number: Option<f64>| number.map(|it| it.to_string()).unwrap_or_default();
    let value = |quantity: &Quantity| quantity.of(&case.record).and_then(Result::ok);
    let mut cells: Vec<_> = load_quantities().map(|quantity| number(value(quantity))).collect();
    let search = case.search();
    cells.extend([
        search.map(|search| search.end.name().to_owned()).unwrap_or_default(),
        number(search.and_then(|search| search.accepted).map(|rate| rate.get())),
        number(search.and_then(|search| search.rejected).map(|rate| rate.get())),
    ]);
    cells
}

/// Returns a metric's value, or why there is none.
fn value(result: Option<&MetricValue>, kind: Option<&str>, reason: Option<&str>) -> [String; 8] {
    let gap = result.and_then(|result| result.value.as_ref().err());
    let kind = kind.or_else(|| gap.map(|gap| gap.kind().name()));
    let reason = reason.map(str::to_owned).or_else(|| gap.map(ToString::to_string));
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let interval = result.and_then(|result| result.interval);
    [
        result.map(|result| text(&result.metric)).unwrap_or_default(),
        number(result.and_then(|result| result.value.as_ref().ok().copied())),
        result.map(|result| text(&result.unit)).unwrap_or_default(),
        result.map(|result| result.direction.name().to_owned()).unwrap_or_default(),
        number(interval.map(|(low, _)| low)),
        number(interval.map(|(_, high)| high)),
        kind.map(text).unwrap_or_default(),
        reason.map(|reason| text(&reason)).unwrap_or_default(),
    ]
}

plugin_guest::export_report!(Csv);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use report_common::made_up::{self, COMPARISON, SINGLE, Shape};

    fn rendered(shape: &Shape<'_>) -> String {
        let mut files = BTreeMap::new();
        let names =
            Csv::render(&made_up::tables(shape), &mut files, NoOptions {}).expect("a report");
        assert_eq!(names, [FILE]);
        String::from_utf8(files.remove(FILE).expect("the named file")).expect("UTF-8")
    }

    #[test]
    fn values_are_rows() {
        let text = rendered(&SINGLE).replace("\r\n", "\n");
        insta::assert_snapshot!(text, @r#"
    run_id,case_id,model,backend,device,precision,batch,sequence_length,mode,scenario,rate,clients,outcome,valid,metric,value,unit,direction,interval_low,interval_high,gap_kind,gap_reason,asked_rate,offered_rate,achieved_rate,queries_per_run,unserved,lateness_p50_ns,lateness_p99_ns,lateness_max_ns,search_end,search_accepted,search_rejected
    20260728T101500Z-5eed,5eed000000000000,digits,cpu,cpu:0,fp32,1,,inference,single-stream,,,finished,true,latency.p50,115996,ns,lower,113234,118712,,,,,,,,,,,,,
    20260728T101500Z-5eed,5eed000000000000,digits,cpu,cpu:0,fp32,1,,inference,single-stream,,,finished,true,latency.p90,130436,ns,lower,127471,135002,,,,,,,,,,,,,
    20260728T101500Z-5eed,5eed000000000000,digits,cpu,cpu:0,fp32,1,,inference,single-stream,,,finished,true,latency.p99,174228,ns,lower,174228,183282,,,,,,,,,,,,,
    20260728T101500Z-5eed,5eed000000000000,digits,cpu,cpu:0,fp32,1,,inference,single-stream,,,finished,true,latency.p99.9,240049,ns,lower,240049,260390,,,,,,,,,,,,,
    20260728T101500Z-5eed,5eed000000000000,digits,cpu,cpu:0,fp32,1,,inference,single-stream,,,finished,true,throughput.samples,8620.986930583815,1/s,higher,,,,,,,,,,,,,,,
    20260728T101500Z-5eed,5eed000000000000,digits,cpu,cpu:0,fp32,1,,inference,single-stream,,,finished,true,memory.peak,38210000,B,lower,,,,,,,,,,,,,,,
    20260728T101500Z-5eed,5eed000000000000,digits,cpu,cpu:0,fp32,1,,inference,single-stream,,,finished,true,accuracy.top1,0.9766,1,higher,0.9723,0.9805,,,,,,,,,,,,,
    "#);
    }

    #[test]
    fn an_open_loop_has_its_rates_in_every_row() {
        let mut tables = made_up::tables(&SINGLE);
        made_up::open_loop(&mut tables, 0);
        let mut files = BTreeMap::new();
        Csv::render(&tables, &mut files, NoOptions {}).expect("a report");
        let text = String::from_utf8(files.remove(FILE).expect("the named file")).expect("UTF-8");
        let mut lines = text.lines();
        let header = lines.next().expect("a header");
        assert!(header.ends_with(
            ",asked_rate,offered_rate,achieved_rate,queries_per_run,unserved,lateness_p50_ns,lateness_p99_ns,\
             lateness_max_ns,search_end,search_accepted,search_rejected"
        ));
        assert_eq!(lines.clone().count(), 7);
        assert!(
            lines
                .all(|line| line.ends_with(",397.5,401.5,399.25,1,0,120,5300,41000,found,400,410"))
        );
    }

    #[test]
    fn whatever_a_name_holds_comes_back() {
        let hostile = "a,\"b\"\r\nc|<script>";
        let text = rendered(&Shape { models: &[hostile], ..COMPARISON });
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<_> = reader.records().collect::<Result<_, _>>().expect("valid CSV");
        assert!(rows.iter().all(|row| row.len() == header().len() && &row[2] == hostile));
    }

    #[test]
    fn no_text_is_a_formula_and_no_number_is_changed() {
        for start in ["=", "+", "-", "@", "\t", "\r"] {
            let model = format!("{start}HYPERLINK(\"x\")");
            let text = rendered(&Shape { models: &[&model], ..COMPARISON });
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            for row in reader.records() {
                let row = row.expect("valid CSV");
                assert_eq!(row[2], format!("'{model}"));
                let number = &row[15];
                assert!(number.is_empty() || number.parse::<f64>().is_ok(), "{number}");
            }
        }
        assert_eq!(text("a\x1b[2J=\0\u{202e}"), r"a␛[2J=␀\u{202e}");
    }

    #[test]
    fn what_was_not_measured_is_there_and_empty() {
        let text = rendered(&COMPARISON);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<_> = reader.records().collect::<Result<_, _>>().expect("valid CSV");
        for outcome in ["failed", "gap"] {
            let missing: Vec<_> = rows.iter().filter(|row| &row[12] == outcome).collect();
            assert_eq!(missing.len(), 2);
            assert!(missing.iter().all(|row| row[15].is_empty() && !row[21].is_empty()));
        }
        let gaps: Vec<_> =
            rows.iter().filter(|row| &row[12] == "finished" && row[15].is_empty()).collect();
        assert!(!gaps.is_empty());
        assert!(gaps.iter().all(|row| !row[14].is_empty() && !row[21].is_empty()));
    }
}
