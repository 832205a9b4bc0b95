/*!
The cases of the run as JUnit's XML, `junit.xml`: CI services show them as tests.

A suite is a model, a test is a case. A case that failed, or whose result is invalid by its rules, is a failure; one that is
not possible on this machine is skipped. Whether a value is good enough is not judged here: `host check --output junit.xml`
does that, by a baseline and by limits.
*/

use plugin_guest::{Description, Error, NoOptions, Output, Report, Views};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use report_common::{
    Case, Labels, Outcome, REASON, Run, SummaryCell, excerpt, summary_columns, visible,
};

/// The report.
pub struct JUnit;

const FILE: &str = "junit.xml";

impl Report for JUnit {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("junit")
    }

    fn render(
        views: &dyn Views,
        output: &mut dyn Output,
        _: NoOptions,
    ) -> Result<Vec<String>, Error> {
        let run = Run::read(views)?;
        let xml = xml(&run).map_err(|error| error.to_string())?;
        output.write(FILE, visible(&xml).as_bytes())?;
        Ok(vec![FILE.to_owned()])
    }
}

plugin_guest::export_report!(JUnit);

/// Outcome of a case.
enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

fn verdict(case: &Case) -> Verdict {
    let reason = || case.reason().map(|(_, reason)| excerpt(&reason, REASON).into_owned());
    match &case.record.outcome {
        Outcome::Failed { .. } => Verdict::Failed(reason().unwrap_or_default()),
        Outcome::Gap { .. } => Verdict::Skipped(reason().unwrap_or_default()),
        Outcome::Finished(report) => match &report.verdict {
            Some(verdict) if !verdict.is_valid() => {
                let reasons: Vec<String> =
                    verdict.reasons.iter().map(ToString::to_string).collect();
                Verdict::Failed(format!("the result is invalid: {}", reasons.join("; ")))
            }
            _ => Verdict::Passed,
        },
    }
}

/// Returns the time that a case took, in seconds.
fn seconds(case: &Case) -> f64 {
    case.record.elapsed_ns as f64 / 1e9
}

/// Counts of a suite: tests, failures and skipped ones, and their time.
fn counts(cases: &[&Case]) -> [(&'static str, String); 4] {
    let count =
        |wanted: fn(&Verdict) -> bool| cases.iter().filter(|case| wanted(&verdict(case))).count();
    let time: f64 = cases.iter().map(|case| seconds(case)).sum();
    [
        ("tests", cases.len().to_string()),
        ("failures", count(|it| matches!(it, Verdict::Failed(_))).to_string()),
        ("skipped", count(|it| matches!(it, Verdict::Skipped(_))).to_string()),
        ("time", format!("{time:.3}")),
    ]
}

fn xml(run: &Run) -> std::io::Result<String> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let labels = Labels::new(&run.cases);
    let mut models: Vec<&str> = Vec::new();
    for case in &run.cases {
        if !models.contains(&&*case.key.model) {
            models.push(&case.key.model);
        }
    }
    let all: Vec<&Case> = run.cases.iter().collect();
    let mut suites = writer.create_element("testsuites").with_attribute(("name", &*run.experiment));
    let of_run = counts(&all);
    for (name, value) in &of_run {
        suites = suites.with_attribute((*name, &**value));
    }
    suites.write_inner_content(|writer| {
        for model in models {
            let cases: Vec<&Case> =
                all.iter().copied().filter(|case| case.key.model == model).collect();
            let mut suite = writer.create_element("testsuite").with_attribute(("name", model));
            let of_suite = counts(&cases);
            for (name, value) in &of_suite {
                suite = suite.with_attribute((*name, &**value));
            }
            suite = suite.with_attribute(("timestamp", run.started_at.trim_end_matches('Z')));
            suite.write_inner_content(|writer| {
                for case in cases {
                    test(writer, run, case, &labels)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    })?;
    String::from_utf8(writer.into_inner()).map_err(std::io::Error::other)
}

fn test(
    writer: &mut Writer<Vec<u8>>,
    run: &Run,
    case: &Case,
    labels: &Labels,
) -> std::io::Result<()> {
    let place = format!("{}.{}", case.key.model, case.key.backend);
    let (name, time) = (labels.label(case), format!("{:.3}", seconds(case)));
    let element = writer.create_element("testcase").with_attributes([
        ("name", &*name),
        ("classname", &*place),
        ("time", &*time),
    ]);
    element.write_inner_content(|writer| {
        let told = |writer: &mut Writer<Vec<u8>>, element: &str, message: &str| {
            let element = writer.create_element(element).with_attribute(("message", message));
            element.write_empty().map(drop)
        };
        match verdict(case) {
            Verdict::Passed => {}
            Verdict::Failed(reason) => told(writer, "failure", &reason)?,
            Verdict::Skipped(reason) => told(writer, "skipped", &reason)?,
        }
        let values =
            summary_columns(run).into_iter().filter_map(|column| match column.cell(case) {
                SummaryCell::Value { value, .. } => Some(format!("{}: {value}", column.heading)),
                SummaryCell::Gap(_) | SummaryCell::Nothing => None,
            });
        let warnings = case
            .warnings
            .iter()
            .map(|warning| format!("warning {}: {warning}", warning.kind().name()));
        let lines: Vec<String> = values.chain(warnings).collect();
        if !lines.is_empty() {
            let text = lines.join("\n");
            writer.create_element("system-out").write_text_content(BytesText::new(&text))?;
        }
        Ok(())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use report_common::made_up::{self, COMPARISON, Shape};

    use super::*;

    fn of(shape: &Shape<'_>) -> String {
        xml(&Run::read(&made_up::tables(shape)).expect("readable tables")).expect("XML")
    }

    #[test]
    fn cases_are_tests_and_models_are_suites() {
        let xml = of(&COMPARISON);
        let run = Run::read(&made_up::tables(&COMPARISON)).expect("readable tables");
        let suite = xml.lines().find(|line| line.contains("<testsuite ")).expect("a suite");
        assert!(suite.contains("tests=\"32\" failures=\"2\" skipped=\"2\""), "{suite}");
        assert_eq!(xml.matches("<testcase ").count(), run.cases.len());
        assert_eq!(xml.matches("<failure ").count(), 2);
        assert!(xml.contains("<failure message=\"out of memory in phase prepare"), "{xml}");
        assert!(xml.contains("warning drift: "), "{xml}");
    }

    #[test]
    fn no_name_becomes_markup() {
        let shape = Shape { models: &["</testsuite><script xmlns=\"x\">&"], ..COMPARISON };
        let xml = of(&shape);
        assert!(!xml.contains("<script") && xml.contains("&lt;script"));
        let mut reader = quick_xml::Reader::from_str(&xml);
        let mut depth = 0;
        loop {
            match reader.read_event().expect("well-formed") {
                Event::Start(_) => depth += 1,
                Event::End(_) => depth -= 1,
                Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(depth, 0);
    }
}
