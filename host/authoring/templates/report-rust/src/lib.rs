//! The cases of a run with their median latency, as a table in Markdown: `{{name}}.md`.

use std::collections::BTreeMap;

use plugin_guest::{Description, Error, Output, Report, View, Views};
use serde::Deserialize;

/// The report.
pub struct {{pascal}};

/// Options in the manifest: the heading.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    title: String,
}

impl Default for Options {
    fn default() -> Self {
        Self { title: "Median latency".into() }
    }
}

impl Report for {{pascal}} {
    type Options = Options;

    fn describe() -> Description {
        // Version, summary and licence are those of Cargo.toml.
        plugin_guest::describe!("{{name}}", {
            "title" => "Heading of the page; `Median latency` by default.",
        })
    }

    fn render(
        views: &dyn Views,
        output: &mut dyn Output,
        options: Options,
    ) -> Result<Vec<String>, Error> {
        // Options are checked before the first view is read.
        if options.title.is_empty() {
            return Err(Error::Options("title must not be empty".into()));
        }
        let results = View::read(views, "results")?;
        let mut medians = BTreeMap::new();
        for row in results.rows() {
            if row.text("metric")? == "latency.p50"
                && let Some(value) = row.optional_real("value")?
            {
                medians.insert(row.text("case_id")?, format!("{value} {}", row.text("unit")?));
            }
        }
        let cases = View::read(views, "cases")?;
        let mut text = format!("# {}\n\n| case | model | batch | median |\n|---|---|---|---|\n", options.title);
        for row in cases.rows() {
            let case = row.text("case_id")?;
            // A case without a value is shown as a gap, never as a zero.
            let median = medians.get(case).map_or("gap", String::as_str);
            let (model, batch) = (row.text("model")?, row.integer("batch")?);
            text += &format!("| {case} | {model} | {batch} | {median} |\n");
        }
        output.write("{{name}}.md", text.as_bytes())?;
        Ok(vec!["{{name}}.md".into()])
    }
}

plugin_guest::export_report!({{pascal}});

#[cfg(test)]
mod tests {
    use super::*;
    use plugin_guest::{Cell, Table};

    fn table(columns: &[&str], rows: Vec<Vec<Cell>>) -> Table {
        Table { columns: columns.iter().map(|name| (*name).to_owned()).collect(), rows }
    }

    #[test]
    fn a_case_without_a_value_is_a_gap() {
        let cases = table(
            &["case_id", "model", "batch"],
            vec![vec!["a".into(), "digits".into(), 1.into()], vec!["b".into(), "digits".into(), 8.into()]],
        );
        let results = table(
            &["case_id", "metric", "value", "unit"],
            vec![vec!["a".into(), "latency.p50".into(), 250.0.into(), "ns".into()]],
        );
        let views = BTreeMap::from([("cases".to_owned(), cases), ("results".to_owned(), results)]);
        let mut files = BTreeMap::new();
        let named = {{pascal}}::render(&views, &mut files, Options::default()).unwrap();
        assert_eq!(named, ["{{name}}.md"]);
        let text = String::from_utf8(files["{{name}}.md"].clone()).unwrap();
        assert!(text.starts_with("# Median latency\n"), "{text}");
        assert!(text.contains("| a | digits | 1 | 250 ns |"), "{text}");
        assert!(text.contains("| b | digits | 8 | gap |"), "{text}");
    }

    #[test]
    fn options_are_checked_before_anything_is_read() {
        let options = Options { title: String::new() };
        let error = {{pascal}}::render(&BTreeMap::new(), &mut BTreeMap::new(), options).unwrap_err();
        assert!(error.to_string().contains("title must not be empty"));
    }
}
