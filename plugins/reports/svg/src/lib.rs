/*!
Each chart of the run as an SVG file of its own, for documents and slides: the charts of the report `html`, as that draws
them without scripts.

A file has its own style, for light and for dark, and nothing that runs or loads; the host refuses any other SVG. Of charts
with many series, a file has the first ones that colours can tell apart.
*/

use std::collections::BTreeSet;

use host_page::document;
use plugin_guest::{Description, Error, NoOptions, Output, Report, Views};
use report_common::{Drawing, Run, visible};

/// The report.
pub struct Svg;

/// Limit on the files, so that a run of a hundred models leaves a folder that people can look through.
const MOST: usize = 100;

impl Report for Svg {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("svg")
    }

    fn render(
        views: &dyn Views,
        output: &mut dyn Output,
        _: NoOptions,
    ) -> Result<Vec<String>, Error> {
        let run = Run::read(views)?;
        let mut names = Vec::new();
        let mut taken = BTreeSet::new();
        let figures = Drawing::new(&run).all();
        let charts = figures.iter().flat_map(|figure| &figure.charts);
        for (chart, drawing) in
            charts.filter_map(|chart| Some((chart, document(chart)?))).take(MOST)
        {
            let name = file_name(&chart.title, &mut taken);
            output.write(&name, visible(&drawing).as_bytes())?;
            names.push(name);
        }
        if names.is_empty() {
            return Err("the run has no value that a chart could show".into());
        }
        Ok(names)
    }
}

plugin_guest::export_report!(Svg);

/// Returns a name for a file: the words of the title, and a number if it is taken.
fn file_name(title: &str, taken: &mut BTreeSet<String>) -> String {
    const LONGEST: usize = 80;
    let plain = |character: char| match character {
        'a'..='z' | '0'..='9' => character,
        'A'..='Z' => character.to_ascii_lowercase(),
        _ => ' ',
    };
    let words: String = title.chars().map(plain).collect();
    let mut base = words.split_whitespace().collect::<Vec<_>>().join("-");
    base.truncate(LONGEST);
    if base.is_empty() {
        base.push_str("chart");
    }
    let numbered = (1_u32..).map(|number| match number {
        1 => format!("{base}.svg"),
        _ => format!("{base}-{number}.svg"),
    });
    let free = numbered.into_iter().find(|name| taken.insert(name.clone()));
    free.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use report_common::made_up::{self, COMPARISON, SINGLE};

    use super::*;

    #[test]
    fn each_chart_is_a_file() {
        let mut files = BTreeMap::new();
        let names =
            Svg::render(&made_up::tables(&COMPARISON), &mut files, NoOptions {}).expect("files");
        assert_eq!(files.len(), names.len());
        for wanted in [
            "latency-distribution-of-resnet-50.svg",
            "memory-against-batch-size-of-resnet-50.svg",
            "highest-throughput-by-hardware-resnet-50.svg",
            "latency-over-time-of-resnet-50.svg",
        ] {
            assert!(names.iter().any(|name| name == wanted), "{wanted}: {names:?}");
        }
        for contents in files.values() {
            let text = String::from_utf8(contents.clone()).expect("UTF-8");
            assert!(text.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" "), "{text:.100}");
            assert!(!text.contains("NaN") && !text.contains("href") && !text.contains("url("));
        }
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        let mut tables = made_up::tables(&SINGLE);
        for (name, table) in &mut tables {
            if name != "run" {
                table.rows.clear();
            }
        }
        assert!(Svg::render(&tables, &mut BTreeMap::new(), NoOptions {}).is_err());
    }

    #[test]
    fn names_of_files_are_plain_and_differ() {
        let mut taken = BTreeSet::new();
        let names: Vec<String> =
            ["A/b: ../c", "a b c", "…"].iter().map(|title| file_name(title, &mut taken)).collect();
        assert_eq!(names, ["a-b-c.svg", "a-b-c-2.svg", "chart.svg"]);
    }
}
