//! Correctness of the statistics: proofs 2 and 3, from fixed seeds.

use super::machine::{Machine, load};
use super::write;
use crate::shell::{Failed, cargo, say};

pub(super) fn prove() -> Result<(), Failed> {
    say("bench: series of which the truth is known; this takes some minutes");
    let machine = Machine::here();
    let before = load();
    let line =
        ["run", "--quiet", "--release", "--package", "tare-statistics", "--example", "proof"];
    let tables = cargo().args(line).read()?;
    let machine = machine.sentence(before, load());
    write(
        "statistics",
        &format!(
            "# How often the statistics are right\n\n\
             `cargo xtask bench statistics` writes this page. All figures but the times follow from \
             fixed seeds and come out the same on every machine; smaller counts of them are tests \
             (`host/statistics/tests/suite/simulated`). Why the methods are what they are is told in \
             [the design](../design/statistics.md).\n\n\
             The targets: precision and recall of change points of at least 0.95, false alarms on at \
             most 1 % of flat series; intervals that are said to hold the truth in 95 % and 99 % of \
             experiments hold it in at least 94 % and 98.5 %.\n\n\
             {machine}\n\n{}\n",
            tables.trim()
        ),
    )
}
