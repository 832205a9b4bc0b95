//! Pairs of cases that were measured in turns.

use maud::{Markup, html};
use report_common::{Labels, PAIR_HEADINGS, PAIRS_EXPLAINED, Run, pairs};

/// Returns the section, if cases were measured in pairs.
pub(crate) fn section(run: &Run, labels: &Labels) -> Option<Markup> {
    let pairs = pairs(run);
    if pairs.is_empty() {
        return None;
    }
    Some(html! {
        div.scroll tabindex="0" role="group" aria-label="Table of pairs" {
            table.wide {
                thead { tr { @for heading in PAIR_HEADINGS { th scope="col" { (heading) } } } }
                tbody {
                    @for pair in &pairs {
                        tr {
                            @for (index, cell) in pair.cells(labels).iter().enumerate() {
                                @if index == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
        p.quiet { (PAIRS_EXPLAINED) }
    })
}
