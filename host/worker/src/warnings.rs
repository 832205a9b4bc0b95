//! Warnings about a measurement, with their figures.
//!
//! A warning without reason is soon ignored, so each threshold requires an effect
//! that is large as well as certain. They are all here, in one place, each with its justification.

use std::collections::BTreeMap;

use host_machine::Activity;
use host_measure::{Calibration, StopRule, Summary};
use host_record::{CaseSpec, Confidence, Doubt, WarmUpFacts, Warning, WarningKind};
use host_statistics::{Quantile, estimates, median, median_absolute_deviation};

use crate::percentile::limited_percentile;
use crate::shape::Shape;
use crate::stalls::Row;

/// Evidence for warnings.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) case: &'a CaseSpec,
    pub(crate) calibration: Calibration,
    pub(crate) rule: StopRule,
    pub(crate) summary: Summary,
    pub(crate) latencies: &'a [u64],
    /// Number of queries that each of the latencies stands for.
    pub(crate) stride: u64,
    pub(crate) in_a_row: Row<'a>,
    pub(crate) warm_up: Option<WarmUpFacts>,
    pub(crate) before: Activity,
    pub(crate) after: Activity,
    pub(crate) used: &'a BTreeMap<String, String>,
}

impl Evidence<'_> {
    /// Returns all warnings.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let mut doubts = Vec::new();
        doubts.extend(self.simulated());
        doubts.extend(self.few_samples());
        doubts.extend(self.limit_undecided());
        if let Some(typical) = median(self.latencies) {
            doubts.extend(self.overhead_visible(typical));
            doubts.extend(self.clock_too_coarse(typical));
        }
        doubts.extend(self.no_steady_state());
        let shape = Shape {
            latencies: self.latencies,
            stride: self.stride,
            in_a_row: self.in_a_row,
            resolution_ns: self.calibration.resolution_ns,
        };
        let of_shape = shape.doubts();
        // A change that has a name of its own is not said twice.
        let named = |kind| of_shape.iter().any(|doubt| doubt.kind() == kind);
        let slowed_down = named(WarningKind::SlowedDown);
        let drift = if slowed_down || named(WarningKind::WarmingUp) { None } else { self.drift() };
        let slower = matches!(drift, Some(Doubt::Drift { from_ns, to_ns, .. }) if to_ns > from_ns);
        doubts.extend(drift);
        doubts.extend(of_shape);
        if !slowed_down && !slower {
            doubts.extend(shape.slow_down());
        }
        doubts.extend(self.machine_busy());
        doubts.extend(self.not_as_asked());
        doubts.into_iter().map(Warning::from).collect()
    }

    /// Warns if the session reports that no hardware computes.
    fn simulated(&self) -> Option<Doubt> {
        let backend_message = self.used.get("simulated")?.clone();
        Some(Doubt::Simulated { backend_message })
    }

    fn few_samples(&self) -> Option<Doubt> {
        let Summary { queries, timed_ns, .. } = self.summary;
        let StopRule { minimum_queries, minimum_ns, maximum_ns } = self.rule;
        if self.summary.enough {
            return None;
        }
        if let Some(confidence) = self.case.measure.confidence
            && queries >= minimum_queries
            && timed_ns >= minimum_ns
        {
            let Confidence { level, half_width, percentile } = confidence;
            return Some(Doubt::WideInterval {
                percentile: percentile.get(),
                half_width: half_width.get(),
                level: level.get(),
                maximum_ns,
            });
        }
        Some(Doubt::FewSamples { queries, minimum_queries, timed_ns, minimum_ns, maximum_ns })
    }

    /// The number of queries is too small for the percentile of a limit. Rules count for
    /// themselves.
    fn limit_undecided(&self) -> Option<Doubt> {
        let measure = &self.case.measure;
        if measure.latency_limit.is_none() || measure.rules.is_some() {
            return None;
        }
        let percentile = limited_percentile(measure, None);
        let level = measure.confidence.map_or(0.95, |confidence| confidence.level.get());
        let needed_queries = percentile.minimum_count(level) as u64;
        let queries = self.summary.queries;
        let percentile = percentile.probability();
        (queries < needed_queries).then_some(Doubt::LimitUndecided {
            percentile,
            queries,
            needed_queries,
        })
    }

    /// Warns if a query takes less than 20 times the loop's own cost, which is then 5 % of the reported
    /// latency.
    fn overhead_visible(&self, query_ns: f64) -> Option<Doubt> {
        let loop_ns = self.calibration.loop_ns;
        (query_ns < 20.0 * loop_ns).then_some(Doubt::OverheadVisible { query_ns, loop_ns })
    }

    /// Warns if a query takes less than ten clock steps: its latency is then known to a tenth at best.
    fn clock_too_coarse(&self, query_ns: f64) -> Option<Doubt> {
        let resolution_ns = self.calibration.resolution_ns;
        (query_ns < 10.0 * resolution_ns as f64)
            .then_some(Doubt::ClockTooCoarse { query_ns, resolution_ns })
    }

    /// Warns if the warm-up did not end in a steady state.
    fn no_steady_state(&self) -> Option<Doubt> {
        let WarmUpFacts { class, queries, elapsed_ns, steady } = self.warm_up?;
        (!steady).then_some(Doubt::NoSteadyState { class, queries, elapsed_ns })
    }

    /// Compares the first third of the queries with the last. Three things must hold at once:
    /// the difference matters (5 %, and twice what lies between readings of the clock), it exceeds
    /// the usual scatter of single queries (one median absolute deviation), and the intervals around
    /// the two medians are apart. Those are made of order statistics and assume nothing of the
    /// shape, so that two modes of equal weight, whose median jumps between them, are no drift. They
    /// do assume independent queries, so that a slow wander can be called a drift. Counting queries
    /// for what they are worth would see no drift at all: nothing is as correlated as a ramp.
    fn drift(&self) -> Option<Doubt> {
        const LEAST: usize = 30;
        /// Of each interval; that chance sets two of them apart is rarer still.
        const CONFIDENCE: f64 = 0.999;
        let part = self.latencies.len() / 3;
        if part < LEAST {
            return None;
        }
        let first = &self.latencies[..part];
        let last = &self.latencies[self.latencies.len() - part..];
        let medians = |part| {
            let estimates = estimates(part, &[Quantile::P50], CONFIDENCE);
            estimates.into_iter().next().and_then(Result::ok)
        };
        let (before, after) = (medians(first)?, medians(last)?);
        let (early, late) = (before.value as f64, after.value as f64);
        let scatter = median_absolute_deviation(first)?.max(median_absolute_deviation(last)?);
        let change = (late - early).abs();
        let apart = before.high < after.low || after.high < before.low;
        let matters = change > 0.05 * early && change > 2.0 * self.calibration.resolution_ns as f64;
        (matters && change > scatter && apart).then_some(Doubt::Drift {
            from_ns: early,
            to_ns: late,
            scatter_ns: scatter,
        })
    }

    /// Warns about other work: the machine's activity beyond this process and the host, which takes and
    /// stores the samples; one worker runs at a time. Preemptions of this process are not used, although they
    /// seem to fit: the threads of a backend take processors from each other, thousands of times a second and
    /// on a quiet machine. Time is counted in hundredths of a second, so short measurements say nothing.
    fn machine_busy(&self) -> Option<Doubt> {
        const LEAST_NS: u64 = 200_000_000;
        /// A tenth of the machine at work for others leaves its mark on caches, memory and clocks,
        /// and so does half a processor on a machine of any size.
        const OTHERS: f64 = 0.10;
        const OTHER_PROCESSORS: f64 = 0.5;
        /// Stolen time hits the worker itself.
        const STOLEN: f64 = 0.01;

        let elapsed = self.summary.elapsed_ns;
        if elapsed < LEAST_NS {
            return None;
        }
        let (before, after) = self.before.machine.zip(self.after.machine)?;
        let processors = f64::from(after.processors.max(1));
        let whole = elapsed as f64 * processors;
        let own = self.after.own_ns.saturating_sub(self.before.own_ns);
        let host = self.before.host_ns.zip(self.after.host_ns);
        let host = host.map_or(0, |(before, after)| after.saturating_sub(before));
        let busy = after.busy_ns.saturating_sub(before.busy_ns);
        let others = busy.saturating_sub(own).saturating_sub(host) as f64;
        let is_busy = others > (OTHERS * processors).min(OTHER_PROCESSORS) * elapsed as f64;
        let stolen = before.stolen_ns.zip(after.stolen_ns);
        let stolen = stolen.map_or(0, |(before, after)| after.saturating_sub(before)) as f64;
        let is_stolen = stolen > STOLEN * whole;
        (is_busy || is_stolen).then(|| Doubt::MachineBusy {
            processors: after.processors,
            other_processors: is_busy.then_some(others / elapsed as f64),
            stolen_ratio: is_stolen.then_some(stolen / whole),
        })
    }

    fn not_as_asked(&self) -> Vec<Doubt> {
        let precision = Some(self.case.key.precision.name().to_owned());
        let threads = self.case.threads.map(|threads| threads.to_string());
        let plugin = &self.case.plugin;
        [
            ("precision", precision),
            ("threads", threads),
            ("plugin", Some(plugin.id.clone())),
            ("plugin-version", Some(plugin.version.clone())),
        ]
        .into_iter()
        .filter_map(|(what, asked)| {
            let asked = asked?;
            let used = self.used.get(what).cloned();
            // The ABI asks every backend for the precision.
            let is_other = match &used {
                Some(used) => asked != *used,
                None => what == "precision",
            };
            is_other.then(|| Doubt::NotAsAsked { setting: what.into(), asked, used })
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use host_machine::MachineActivity;
    use host_record::{LatencyLimit, RuleSet, Share};
    use host_statistics::{STEADY_STATE_TOLERANCE, SteadyClass, steady_state};
    use proptest::prelude::*;

    use super::*;
    use crate::synthetic::generator;
    use crate::tests::case;

    static CASE: LazyLock<CaseSpec> = LazyLock::new(case);
    static USED: LazyLock<BTreeMap<String, String>> =
        LazyLock::new(|| BTreeMap::from([("precision".into(), "fp32".into())]));
    static STEADY: LazyLock<Vec<u64>> =
        LazyLock::new(|| (0..1000).map(|index| 1_000_000 + index % 7 * 10_000).collect());

    /// Returns a second of steady work, without warnings.
    fn warnings<'a>(change: impl FnOnce(&mut Evidence<'a>)) -> Vec<String> {
        let machine = MachineActivity { processors: 4, busy_ns: 0, stolen_ns: Some(0) };
        let before = Activity { machine: Some(machine), ..Activity::default() };
        let busy = MachineActivity { busy_ns: 1_100_000_000, ..machine };
        let after = Activity { own_ns: 1_000_000_000, machine: Some(busy), ..Activity::default() };
        let mut evidence = Evidence {
            case: &CASE,
            calibration: Calibration {
                resolution_ns: 20,
                read_ns: 30.0,
                loop_ns: 33.0,
                checked_readings: 1,
            },
            rule: StopRule {
                minimum_ns: 1_000_000_000,
                minimum_queries: 100,
                maximum_ns: 5_000_000_000,
            },
            summary: Summary {
                queries: 1000,
                timed_ns: 1_000_000_000,
                elapsed_ns: 1_000_000_000,
                enough: true,
                pace: None,
            },
            latencies: &STEADY,
            stride: 1,
            in_a_row: Row::of(&STEADY),
            warm_up: None,
            before,
            after,
            used: &USED,
        };
        change(&mut evidence);
        let shown = |warning: &Warning| format!("{}: {warning}", warning.kind());
        evidence.warnings().iter().map(shown).collect()
    }

    /// The host stores the samples, which does not count as other work.
    #[test]
    fn the_host_is_not_other_work() {
        let busy_with = |host_ns: Option<u64>| {
            warnings(|evidence| {
                let busy_ns = 2_500_000_000;
                let machine = MachineActivity { processors: 4, busy_ns, ..Default::default() };
                evidence.before.host_ns = host_ns.map(|_| 7_000_000_000);
                evidence.after.host_ns = host_ns.map(|host_ns| 7_000_000_000 + host_ns);
                evidence.after.machine = Some(machine);
            })
        };
        let other =
            |used: &str| vec![format!("machine-busy: other work used {used} of 4 processors")];
        assert_eq!(busy_with(None), other("1.50"));
        assert_eq!(busy_with(Some(500_000_000)), other("1.00"));
        assert_eq!(busy_with(Some(1_400_000_000)), Vec::<String>::new());
    }

    #[test]
    fn a_backend_that_does_not_say_its_precision_is_doubted() {
        static NOTHING: BTreeMap<String, String> = BTreeMap::new();
        assert_eq!(
            warnings(|evidence| evidence.used = &NOTHING),
            [
                "not-as-asked: precision fp32 was requested; the backend does not report what it used"
            ]
        );
    }

    #[test]
    fn steady_work_raises_no_warning() {
        assert_eq!(warnings(|_| {}), Vec::<String>::new());
    }

    #[test]
    fn each_doubt_names_its_figures() {
        insta::assert_debug_snapshot!(warnings(|evidence| {
            evidence.summary.queries = 12;
            evidence.summary.enough = false;
            evidence.latencies = &[];
        }), @r#"
        [
            "few-samples: 12 queries in 1 s, instead of at least 100 in at least 1 s; raise `maximum-duration` (5 s)",
        ]
        "#);
        insta::assert_debug_snapshot!(warnings(|evidence| evidence.latencies = &[150; 100]), @r#"
        [
            "overhead-visible: the measuring loop adds 33 ns to a query of 150 ns (22 %)",
            "clock-too-coarse: a query takes 150 ns, but the clock's resolution is only 20 ns",
        ]
        "#);
        insta::assert_debug_snapshot!(warnings(|evidence| {
            evidence.after.machine = Some(MachineActivity {
                processors: 4,
                busy_ns: 3_000_000_000,
                stolen_ns: Some(100_000_000),
            });
        }), @r#"
    [
        "machine-busy: other work used 2.00 of 4 processors; the hypervisor withheld 2.5 % of the processors' time",
    ]
    "#);
        let used = [
            ("precision", "fp16"),
            ("threads", "1"),
            ("plugin", "cpu"),
            ("plugin-version", "0.2.0"),
        ];
        let used = used.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        insta::assert_debug_snapshot!(warnings(|evidence| evidence.used = &used), @r#"
        [
            "not-as-asked: precision fp32 was requested, but fp16 was used",
            "not-as-asked: threads 2 was requested, but 1 was used",
            "not-as-asked: plugin-version 0.1.0 was requested, but 0.2.0 was used",
        ]
        "#);
        let simulated = [("precision", "fp32"), ("simulated", "it is made of software")];
        let simulated = simulated.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        insta::assert_debug_snapshot!(warnings(|evidence| evidence.used = &simulated), @r#"
        [
            "simulated: the times are not those of real hardware: it is made of software",
        ]
        "#);
        let drifting: Vec<u64> = (0..999).map(|index| 1_000_000 + index * 300).collect();
        insta::assert_debug_snapshot!(warnings(|evidence| evidence.latencies = &drifting), @r#"
        [
            "drift: p50 rose 19 % (1.05 → 1.25 ms) from the first to the last third of the queries; scatter within a third: 24.9 µs",
        ]
        "#);
    }

    #[test]
    fn a_short_measurement_says_nothing_about_the_machine() {
        let busy = |evidence: &mut Evidence<'_>| {
            let machine = evidence.after.machine.as_mut().expect("it was read");
            machine.busy_ns = 3_000_000_000;
            evidence.summary.elapsed_ns = 100_000_000;
        };
        assert_eq!(warnings(busy), Vec::<String>::new());
    }

    #[test]
    fn a_limit_on_a_percentile_that_cannot_be_stated_is_reported() {
        let mut limited = case();
        let limit = |percentile: Option<f64>| LatencyLimit {
            at_most_ns: 50_000_000,
            percentile: percentile.map(|share| Share::new(share).expect("a share")),
        };
        for (percentile, rules, told) in [
            (
                None,
                None,
                Some(
                    "limit-undecided: 300 queries are too few to decide whether p99 is within the limit; it takes 368",
                ),
            ),
            (Some(0.9), None, None),
            (None, Some(RuleSet::MlPerf), None),
        ] {
            limited.measure.latency_limit = Some(limit(percentile));
            limited.measure.rules = rules;
            let found = warnings(|evidence| {
                evidence.case = &limited;
                evidence.summary.queries = 300;
            });
            let found = found.iter().find(|one| one.starts_with("limit-undecided: "));
            assert_eq!(found.map(String::as_str), told);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Two modes of any weights and distance are not called a drift.
        #[test]
        fn two_modes_are_no_drift(seed: u64, weight in 0.3_f64..0.7, distance in 0.0_f64..1.0) {
            let mut random = generator(seed, "latency", 0);
            let mut unit = || random.next_u64() as f64 / u64::MAX as f64;
            let latencies: Vec<u64> = (0..900).map(|_| {
                let mode = if unit() < weight { 1.0 } else { 1.0 + distance };
                (1e6 * mode * (1.0 + 0.01 * unit())) as u64
            }).collect();
            let mut found = warnings(|evidence| evidence.latencies = &latencies);
            // Once in 1,000 series a change point is found that does not exist, and its class is reported.
            found.retain(|one| !one.starts_with("bimodal: ") && !one.starts_with("slowed-down: "));
            prop_assert_eq!(found, Vec::<String>::new());
        }

        /// Steady latencies of any scatter, from even to heavy-tailed, are not called a drift.
        #[test]
        fn scatter_alone_is_no_drift(seed: u64, scatter in 0.0_f64..1.0, power in 1_i32..12) {
            let mut random = generator(seed, "latency", 0);
            let latencies: Vec<u64> = (0..600).map(|_| {
                let unit = random.next_u64() as f64 / u64::MAX as f64;
                (1e6 * (1.0 + scatter * unit.powi(power))) as u64
            }).collect();
            let mut found = warnings(|evidence| evidence.latencies = &latencies);
            found.retain(|warning| !warning.starts_with("slowed-down: "));
            prop_assert_eq!(found, Vec::<String>::new());
        }

        /// For any levels, slopes and scatter: the class never appears without its figures.
        #[test]
        fn a_slow_down_is_always_reported(
            seed: u64,
            levels in prop::collection::vec((20_usize..400, 1.0_f64..1.2, -0.0002_f64..0.0004), 1..5),
            scatter in 0.0_f64..0.1,
        ) {
            let mut random = generator(seed, "latency", 0);
            let latencies: Vec<u64> = levels
                .into_iter()
                .flat_map(|(count, level, slope)| {
                    (0..count).map(move |index| level + slope * index as f64)
                })
                .map(|level| {
                    let unit = random.next_u64() as f64 / u64::MAX as f64;
                    (1e6 * level * (1.0 + scatter * unit)) as u64
                })
                .collect();
            let class = steady_state(&latencies, STEADY_STATE_TOLERANCE).map(|found| found.class);
            let found = warnings(|evidence| evidence.latencies = &latencies);
            let is_reported = found.iter().any(|one| {
                one.starts_with("slowed-down: ") || one.starts_with("drift: p50 rose ")
            });
            prop_assert!(class != Ok(SteadyClass::SlowDown) || is_reported, "{:?}", found);
        }
    }
}
