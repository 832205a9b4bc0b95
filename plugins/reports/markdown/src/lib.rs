/*!
A summary in Markdown that fits into a pull request comment: `report.md`.

It uses GitHub's dialect: tables, and a details block for parts that only some readers need. Every name and reason
comes from a manifest or a plugin, so all of them are escaped and cannot add markup.
*/

use std::fmt::Write as _;

use plugin_guest::{Description, Error, NoOptions, Output, Report, Views};
use report_common::{
    Advice, Case, INPUT_HEADINGS, Labels, Outcome, PAIR_HEADINGS, PAIRS_EXPLAINED, PARITY_HEADINGS,
    REASON, Run, Scenario, SummaryCell, case_label, excerpt, humanise, inputs, pairs,
    parity_figures, summary_columns, visible,
};

/// The report.
pub struct Markdown;

const FILE: &str = "report.md";

/// Limit on the rows of the table of results, and on the lines of a list. GitHub accepts 65,536 characters in a
/// comment.
const MAXIMUM_ROWS: usize = 200;

/// Limit on the cases that are named beside advice. Only a Pareto front has more, and it names its configurations
/// itself.
const MAXIMUM_NAMED: usize = 8;

/// Limits on the failed cases whose standard error is shown, on its lines and on the characters of a line, so that a
/// comment can hold all.
const MAXIMUM_LAST_WORDS: usize = 5;
const LAST_LINES: usize = 10;
const LONGEST_LINE: usize = 200;

/// Limit on the rows of the tables below the fold.
const MAXIMUM_DETAILS: usize = 50;

impl Report for Markdown {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("markdown")
    }

    fn render(
        views: &dyn Views,
        output: &mut dyn Output,
        _: NoOptions,
    ) -> Result<Vec<String>, Error> {
        let run = Run::read(views)?;
        output.write(FILE, page(&run).as_bytes())?;
        Ok(vec![FILE.to_owned()])
    }
}

fn page(run: &Run) -> String {
    let mut page = Page(String::new());
    let labels = Labels::new(&run.cases);
    page.line(&format!("## {}", escape(&run.experiment)));
    if !run.description.is_empty() {
        page.line(&escape(&run.description));
    }
    let parts = [
        escape(&run.started()),
        escape(&run.machine()),
        format!("Tare {}", escape(&run.host_version)),
    ];
    page.line(&parts.join(" · "));
    advice(&mut page, run, &labels);
    results(&mut page, run, &labels);
    compared_in_turns(&mut page, run, &labels);
    missing(&mut page, run, &labels);
    warnings(&mut page, run, &labels);
    parity(&mut page, run, &labels);
    used_inputs(&mut page, run);
    details(&mut page, run);
    page.0
}

struct Page(String);

impl Page {
    /// Adds a separate block.
    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push_str("\n\n");
    }

    fn table(&mut self, headings: &[&str], numeric: &[bool], rows: &[Vec<String>], limit: usize) {
        let rule = numeric.iter().map(|numeric| if *numeric { "---:" } else { "---" });
        self.row(headings.iter().copied());
        self.row(rule);
        for row in rows.iter().take(limit) {
            self.row(row.iter().map(String::as_str));
        }
        self.0.push('\n');
        if rows.len() > limit {
            let left_out = rows.len() - limit;
            self.line(&format!(
                "{left_out} more rows are left out here; the report `csv` has them all."
            ));
        }
    }

    fn row<'a>(&mut self, cells: impl IntoIterator<Item = &'a str>) {
        for cell in cells {
            let _ = write!(self.0, "| {cell} ");
        }
        self.0.push_str("|\n");
    }
}

fn advice(page: &mut Page, run: &Run, labels: &Labels) {
    for Advice { plugin, recommendation: advice } in &run.advice {
        page.line(&format!("**{}**", escape(&advice.title)));
        let named: Vec<_> = advice.cases.iter().filter_map(|id| run.case(id)).collect();
        for line in advice.explanation.lines() {
            let _ = writeln!(page.0, "- {}", escape(line));
        }
        if !named.is_empty() && named.len() <= MAXIMUM_NAMED {
            let names: Vec<_> = named.iter().map(|case| escape(&labels.label(case))).collect();
            let _ = writeln!(page.0, "- *Rests on {}.*", names.join("; "));
        }
        let _ = writeln!(page.0, "- *From the recommender {}.*", escape(plugin));
        page.0.push('\n');
    }
}

/// Writes the table of pairs, if cases were measured in pairs.
fn compared_in_turns(page: &mut Page, run: &Run, labels: &Labels) {
    let rows: Vec<Vec<String>> = pairs(run)
        .iter()
        .map(|pair| pair.cells(labels).iter().map(|cell| escape(cell)).collect())
        .collect();
    if rows.is_empty() {
        return;
    }
    page.line("### Pairs");
    page.table(&PAIR_HEADINGS, &[false, false, true, true, false], &rows, MAXIMUM_ROWS);
    page.line(PAIRS_EXPLAINED);
}

fn results(page: &mut Page, run: &Run, labels: &Labels) {
    let columns = summary_columns(run);
    let mut headings = vec!["case"];
    headings.extend(columns.iter().map(|column| column.heading));
    headings.push("warnings");
    let mut numeric = vec![true; headings.len()];
    numeric[0] = false;
    numeric[headings.len() - 1] = false;
    let mut offline = false;
    let rows: Vec<_> = run
        .cases
        .iter()
        .map(|case| {
            offline |= case.key.scenario == Scenario::Offline;
            let mut row = vec![escape(&labels.label(case))];
            row.extend(columns.iter().map(|column| match column.cell(case) {
                // Its unit is the metric plugin's.
                SummaryCell::Value { value, .. } => escape(&value),
                SummaryCell::Gap(_) => "gap".to_owned(),
                SummaryCell::Nothing => "—".to_owned(),
            }));
            row.push(match case.reason() {
                None => kinds(case),
                Some((kind, _)) => format!("**{}**: {}", case.record.outcome.name(), escape(kind)),
            });
            row
        })
        .collect();
    page.table(&headings, &numeric, &rows, MAXIMUM_ROWS);
    if offline {
        page.line("An offline query is many batches at once; its latency is not that of a batch.");
    }
}

fn kinds(case: &Case) -> String {
    let mut kinds: Vec<_> = case.warnings.iter().map(|warning| warning.kind().name()).collect();
    kinds.dedup();
    kinds.join(", ")
}

/// Lists the reasons for missing values, for whole cases and for the cells of the table above. Cases with
/// the same reason share a line.
fn missing(page: &mut Page, run: &Run, labels: &Labels) {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    let mut add = |reason: String, case: &Case| {
        let label = escape(&labels.label(case));
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, cases)) => cases.push(label),
            None => reasons.push((reason, vec![label])),
        }
    };
    let columns = summary_columns(run);
    for case in &run.cases {
        let word = match &case.record.outcome {
            Outcome::Finished(_) => {
                let gaps: Vec<_> = columns
                    .iter()
                    .filter_map(|column| match column.cell(case) {
                        SummaryCell::Gap(reason) => Some(format!(
                            "{}: {}",
                            column.heading,
                            escape(&excerpt(&reason, REASON))
                        )),
                        _ => None,
                    })
                    .collect();
                if !gaps.is_empty() {
                    add(gaps.join("; "), case);
                }
                continue;
            }
            Outcome::Failed { .. } => "Failed",
            Outcome::Gap { .. } => "Gap",
        };
        let reason = case.reason().map(|(_, reason)| reason).unwrap_or_default();
        add(format!("{word}: {}", escape(&excerpt(&reason, REASON))), case);
    }
    list(page, "Not measured", &reasons);
    last_words(page, run, labels);
}

/// Shows the last standard error of failed cases in indented blocks, which no line can end.
fn last_words(page: &mut Page, run: &Run, labels: &Labels) {
    let said: Vec<_> =
        run.cases.iter().filter(|case| !case.record.standard_error.is_empty()).collect();
    if said.is_empty() {
        return;
    }
    page.line("<details><summary>Last standard error of the cases that failed</summary>");
    for case in said.iter().take(MAXIMUM_LAST_WORDS) {
        page.line(&format!("{}:", escape(&labels.label(case))));
        let text = visible(&case.record.standard_error).into_owned();
        let lines: Vec<_> = text.lines().map(|line| excerpt(line, LONGEST_LINE)).collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        page.line(&last.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n"));
    }
    if said.len() > MAXIMUM_LAST_WORDS {
        let more = said.len() - MAXIMUM_LAST_WORDS;
        page.line(&format!("{more} more cases are in the folder `stderr` of the run."));
    }
    page.line("</details>");
}

fn warnings(page: &mut Page, run: &Run, labels: &Labels) {
    let mut warnings: Vec<(String, Vec<String>)> = Vec::new();
    for case in &run.cases {
        for warning in &case.warnings {
            let text = format!(
                "**{}**: {}",
                warning.kind(),
                escape(&excerpt(&warning.to_string(), REASON))
            );
            warnings.push((text, vec![escape(&labels.label(case))]));
        }
    }
    list(page, "Warnings", &warnings);
}

fn list(page: &mut Page, heading: &str, items: &[(String, Vec<String>)]) {
    if items.is_empty() {
        return;
    }
    page.line(&format!("### {heading}"));
    for (text, cases) in items.iter().take(MAXIMUM_ROWS) {
        let _ = writeln!(page.0, "- {text} ({})", cases.join("; "));
    }
    if items.len() > MAXIMUM_ROWS {
        let _ = writeln!(page.0, "- {} more", items.len() - MAXIMUM_ROWS);
    }
    page.0.push('\n');
}

/// Shows the reference of each case's outputs, and their difference.
fn parity(page: &mut Page, run: &Run, labels: &Labels) {
    let mut headings = vec!["case", "output", "compared with"];
    headings.extend(PARITY_HEADINGS);
    headings.push("allowed");
    let numeric = [false, false, false, true, true, true, true, true, false];
    let compared =
        run.cases.iter().filter_map(|case| Some((case, case.conditions()?.parity.as_ref()?)));
    let rows: Vec<_> = compared
        .flat_map(|(case, parity)| {
            parity.outputs.iter().map(move |output| {
                let mut row =
                    vec![labels.label(case), output.name.clone(), parity.reference.clone()];
                row.extend(parity_figures(output));
                row.push(parity.tolerance.to_string());
                row.iter().map(|cell| escape(cell)).collect::<Vec<_>>()
            })
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    page.line("<details><summary>Outputs compared with the reference's</summary>");
    page.table(&headings, &numeric, &rows, MAXIMUM_DETAILS);
    page.line("</details>");
}

/// Shows shape and origin of the inputs.
fn used_inputs(page: &mut Page, run: &Run) {
    let rows: Vec<_> =
        inputs(run).iter().map(|row| row.iter().map(|cell| escape(cell)).collect()).collect();
    if rows.is_empty() {
        return;
    }
    page.line("<details><summary>Inputs</summary>");
    page.table(&INPUT_HEADINGS, &[false; 5], &rows, MAXIMUM_DETAILS);
    page.line("</details>");
}

fn details(page: &mut Page, run: &Run) {
    page.line("<details><summary>Machine, plugins, how it was measured</summary>");
    let mut facts = vec![
        vec!["run".to_owned(), escape(&run.id)],
        vec!["finished".to_owned(), run.finished_at.as_deref().map_or("not known".into(), escape)],
        vec!["git commit".to_owned(), run.git_commit.as_deref().map_or("not known".into(), escape)],
    ];
    facts.extend(run.hardware.iter().map(|fact| {
        vec![escape(&fact.name), fact.value.as_deref().map_or("not known".into(), escape)]
    }));
    page.table(&["machine", ""], &[false, false], &facts, MAXIMUM_DETAILS);
    let plugins: Vec<_> = run
        .plugins
        .iter()
        .map(|plugin| {
            let hash =
                plugin.sha256.as_deref().map_or("—".into(), |hash| format!("`{}`", escape(hash)));
            vec![escape(&plugin.role), escape(&plugin.id), escape(&plugin.version), hash]
        })
        .collect();
    page.table(&["plugin", "id", "version", "SHA-256"], &[false; 4], &plugins, MAXIMUM_DETAILS);
    let (shared, differing) = run.method();
    if !shared.is_empty() {
        let settings =
            shared.iter().map(|(name, value)| format!("{} {}", escape(name), escape(value)));
        page.line(&format!("In every case: {}.", settings.collect::<Vec<_>>().join(", ")));
    }
    let time = |value| humanise(value, "ns");
    let rows: Vec<_> = run
        .cases
        .iter()
        .filter_map(|case| Some((case, &case.report()?.clock)))
        .map(|(case, clock)| {
            let method = case.method();
            let mut row = vec![
                escape(&case_label(case)),
                case.queries.map_or("—".into(), |queries| queries.to_string()),
                time(clock.read_ns),
                time(clock.loop_ns),
            ];
            row.extend(
                differing.iter().map(|name| escape(method.get(name).map_or("—", String::as_str))),
            );
            row
        })
        .collect();
    let mut headings: Vec<_> =
        ["case", "queries", "clock reading", "empty loop"].map(str::to_owned).to_vec();
    headings.extend(differing.iter().map(|name| escape(name)));
    let headings: Vec<_> = headings.iter().map(String::as_str).collect();
    let numeric: Vec<_> = (0..headings.len()).map(|column| column > 0).collect();
    page.table(&headings, &numeric, &rows, MAXIMUM_DETAILS);
    page.line("</details>");
}

/// Returns text without markup, on one line.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in visible(text).chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' | '@' => {
                escaped.push('\\');
                escaped.push(character);
            }
            '\t' | '\n' | '\r' => escaped.push(' '),
            plain => escaped.push(plain),
        }
    }
    escaped
}

plugin_guest::export_report!(Markdown);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use plugin_guest::Recommendation;
    use report_common::made_up::{self, COMPARISON, LARGE, QUICKSTART, Shape, Tables};

    fn rendered(tables: &Tables) -> String {
        let mut files = BTreeMap::new();
        let names = Markdown::render(tables, &mut files, NoOptions {}).expect("a report");
        assert_eq!(names, [FILE]);
        String::from_utf8(files.remove(FILE).expect("the named file")).expect("UTF-8")
    }

    #[test]
    fn a_run_is_summed_up() {
        let mut tables = made_up::tables(&QUICKSTART);
        let advice = Recommendation {
            title: "Batch 8".into(),
            explanation: "It meets the limit.\nOthers do not.".into(),
            cases: vec![made_up::case_id(3)],
            attributes: BTreeMap::new(),
        };
        made_up::advise(&mut tables, &advice);
        insta::assert_snapshot!(rendered(&tables).replace('\u{202f}', " "), @r#"
    ## quickstart

    Made-up values, to look at the layout: which batch size, and how fast?

    2026-07-28 10:15:00 UTC · Example CPU 8-Core Processor · 8 cores · 16 processors · 31.2 GiB · Debian GNU/Linux 12 (bookworm) · Tare 0.1.0

    **Batch 8**

    - It meets the limit.
    - Others do not.
    - *Rests on batch 8 · offline.*
    - *From the recommender hardware.*

    | case | p50 | p90 | p99 | throughput | peak memory | accuracy | warnings |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |
    | batch 1 · single-stream | 116 µs | 130 µs | 174 µs | 8621/s | 36.4 MiB | 97.66 % |  |
    | batch 1 · offline | 47.9 ms | gap | gap | 9403/s | 36.4 MiB | 97.66 % |  |
    | batch 8 · single-stream | 776 µs | 861 µs | 1.13 ms | 10 316/s | 37.8 MiB | 97.66 % |  |
    | batch 8 · offline | 40.6 ms | gap | gap | 11 073/s | 37.8 MiB | 97.66 % |  |
    | batch 64 · single-stream | 5.97 ms | 6.57 ms | gap | 10 714/s | 49.1 MiB | 97.66 % |  |
    | batch 64 · offline | 44.5 ms | gap | gap | 10 102/s | 49.1 MiB | 97.66 % |  |

    An offline query is many batches at once; its latency is not that of a batch.

    ### Not measured

    - p90: needs 36 queries, has 25; p99: needs 368 queries, has 25 (batch 1 · offline)
    - p90: needs 36 queries, has 29; p99: needs 368 queries, has 29 (batch 8 · offline)
    - p99: needs 368 queries, has 203 (batch 64 · single-stream)
    - p90: needs 36 queries, has 27; p99: needs 368 queries, has 27 (batch 64 · offline)

    <details><summary>Machine, plugins, how it was measured</summary>

    | machine |  |
    | --- | --- |
    | run | 20260728T101500Z-5eed |
    | finished | 2026-07-28T10:15:21.400Z |
    | git commit | 3f2c9a1d0b7e |
    | load-average | 0.31 |
    | kernel | Linux 6.1.0 |
    | memory-available-bytes | 31138512896 |
    | memory-bytes | 33553346560 |
    | operating-system | Debian GNU/Linux 12 (bookworm) |
    | processor.architecture | x86\_64 |
    | processor.frequency-hertz | 3400000000 |
    | processor.governor | performance |
    | processor.logical | 16 |
    | processor.name | Example CPU 8-Core Processor |
    | processor.physical | 8 |
    | processor.simultaneous-multithreading | true |
    | processor.turbo | not known |
    | virtualisation | not known |

    | plugin | id | version | SHA-256 |
    | --- | --- | --- | --- |
    | backend | cpu | 0.1.0 | `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa` |
    | metric | accuracy | 0.1.0 | `eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee` |
    | metric | latency | 0.1.0 | `bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb` |
    | metric | memory | 0.1.0 | `dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd` |
    | metric | throughput | 0.1.0 | `cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc` |
    | recommender | hardware | 0.1.0 | `1111111111111111111111111111111111111111111111111111111111111111` |
    | report | html | 0.1.0 | `ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff` |

    In every case: backend's engine made-up 1.0, backend's threads 1, clock CLOCK\_MONOTONIC, step 1.00 ns, maximum duration 60.0 s, minimum duration 1.00 s, minimum queries 100, processors 0-15, not pinned, timeout 60.0 s, warm up 200 ms.

    | case | queries | clock reading | empty loop |
    | --- | ---: | ---: | ---: |
    | digits · cpu · cpu:0 · fp32 · batch 1 · single-stream | 10619 | 24.0 ns | 31.5 ns |
    | digits · cpu · cpu:0 · fp32 · batch 1 · offline | 25 | 24.0 ns | 31.5 ns |
    | digits · cpu · cpu:0 · fp32 · batch 8 · single-stream | 1585 | 24.0 ns | 31.5 ns |
    | digits · cpu · cpu:0 · fp32 · batch 8 · offline | 29 | 24.0 ns | 31.5 ns |
    | digits · cpu · cpu:0 · fp32 · batch 64 · single-stream | 203 | 24.0 ns | 31.5 ns |
    | digits · cpu · cpu:0 · fp32 · batch 64 · offline | 27 | 24.0 ns | 31.5 ns |

    </details>
    "#);
    }

    #[test]
    fn pairs_have_a_table() {
        let mut tables = made_up::tables(&COMPARISON);
        assert!(!rendered(&tables).contains("### Pairs"));
        made_up::pair(&mut tables, [0, 1]);
        let text = rendered(&tables);
        let row = "| +1.80 % | +1.20 % to +2.40 % (99.5 %) | slower, 12 processes |";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn what_is_missing_and_doubtful_is_reported() {
        let text = rendered(&made_up::tables(&COMPARISON));
        assert!(text.contains("**failed**: out-of-memory"));
        assert!(text.contains("- Gap: the backend \\`gpu\\` does not support int8 on \\`gpu:0\\`; it supports fp32 and fp16 ("));
        assert!(text.contains("- p99: needs 368 queries, has "));
        assert!(text.contains("- **drift**: p50 rose 6.1 %"));
    }

    #[test]
    fn what_devices_count_has_columns_where_there_is_any() {
        let mut tables = made_up::tables(&COMPARISON);
        let heading = |tables: &Tables| {
            rendered(tables)
                .lines()
                .find(|line| line.starts_with("| case | p50"))
                .map(str::to_owned)
        };
        let without = heading(&tables).expect("a table");
        assert!(!without.contains("device") && !without.contains("energy"), "{without}");
        made_up::count_devices(&mut tables);
        let with = heading(&tables).expect("a table");
        assert!(
            with.contains(
                "| peak memory | device memory | allocator's memory | device energy per sample | \
                 processor energy per sample | accuracy |"
            ),
            "{with}"
        );
        let text = rendered(&tables).replace('\u{202f}', " ");
        let row = |start: &str| {
            text.lines().find(|line| line.starts_with(start)).map(str::to_owned).expect(start)
        };
        let gpu = row("| gpu · fp32 · batch 4 · single-stream |");
        assert!(gpu.contains("| 732 MiB | 488 MiB | 12.5 mJ | 2.00 mJ |"), "{gpu}");
        let processor = row("| cpu · fp32 · batch 4 · single-stream |");
        assert!(processor.contains("| gap | gap | gap | 31.0 mJ |"), "{processor}");
        assert!(text.contains("device memory: the backend does not count it"));
    }

    #[test]
    fn outputs_that_were_compared_are_told_with_all_figures() {
        let mut tables = made_up::tables(&COMPARISON);
        assert!(!rendered(&tables).contains("Outputs compared"));
        made_up::compare_outputs(&mut tables, 2);
        let text = rendered(&tables);
        assert!(text.contains(
            "| logits | cpu 0.1.0 on cpu:0 in fp32 | 3.4e-3 | 5.6e-3 | 0.999987 | 0.999981 | 97.5 % | 1e-2 of \
             the scale + 2e-2 of the value, cosine 0.999, top-1 95 % |"
        ), "{text}");
    }

    #[test]
    fn inputs_are_told_with_shape_and_origin() {
        let mut tables = made_up::tables(&COMPARISON);
        assert!(!rendered(&tables).contains("<summary>Inputs"));
        made_up::use_input(&mut tables, 1);
        made_up::use_input(&mut tables, 2);
        let text = rendered(&tables);
        let row = r"| ids | int64 | \[8, 128\] | drawn from 0 to 30521 (Gather) |";
        assert_eq!(text.matches(row).count(), 1, "{text}");
    }

    #[test]
    fn no_name_adds_markup() {
        let hostile = "a|b\n# c <img src=x onerror=alert(1)> [d](e) `f` *g* @h";
        let text = rendered(&made_up::tables(&Shape { models: &[hostile, "plain"], ..QUICKSTART }));
        let lines: Vec<_> = text.lines().filter(|line| line.contains("onerror")).collect();
        assert!(lines.len() >= 6);
        for line in lines {
            assert!(line.contains(
                r"a\|b \# c &lt;img src=x onerror=alert(1)&gt; \[d\](e) \`f\` \*g\* \@h"
            ));
        }
    }

    #[test]
    fn control_characters_are_seen_and_long_reasons_cut() {
        let tables = made_up::tables(&Shape { models: &["a\x1b[2J\r\nb\0"], ..QUICKSTART });
        let text = rendered(&tables);
        assert!(text.contains(r"a␛\[2J  b␀") && !text.contains('\x1b') && !text.contains('\0'));
        let tables = made_up::tables(&Shape { models: &["a\u{202e}b\u{2066}c"], ..QUICKSTART });
        let text = rendered(&tables);
        assert!(text.contains(r"a\\u{202e}b\\u{2066}c") && !text.contains('\u{202e}'), "{text}");
        let mut tables = made_up::tables(&COMPARISON);
        made_up::give_reason(&mut tables, &"x".repeat(3000));
        let text = rendered(&tables);
        assert!(text.contains("x … 1000 characters left out") && !text.contains(&"x".repeat(2001)));
    }

    #[test]
    fn the_last_words_of_failed_cases_end_no_block() {
        let mut tables = made_up::tables(&COMPARISON);
        made_up::crash(&mut tables, 0, report_common::host_record::Phase::Measure);
        made_up::say(&mut tables, 0, "loading\n```\n</details> @you\n");
        let text = rendered(&tables);
        let block = "\n\n    loading\n    ```\n    </details> @you\n\n";
        assert!(text.contains(block), "{text}");
    }

    #[test]
    fn two_hundred_cases_fit_into_a_comment() {
        let text = rendered(&made_up::tables(&LARGE));
        assert!(text.chars().count() < 65_536, "{} characters", text.chars().count());
    }
}
