/*!
Energy per sample, and mean power, over the measured window of a case.

The counters cover the processor's packages, its memory if counted separately, and the device if the backend offers
its counter. Each counts the whole component, for this case and for all other work; on a busy machine the figures
describe the machine. Energy is counted from just before the first measured query to just after the last, including
pauses in which the harness sends samples: power is averaged over this time, and energy per sample includes it.

A counter moves in steps: about one a millisecond in processors, and one in 20 to 100 ms in NVIDIA's devices. Each
worker measures the step just after the window. A window of fewer than a hundred steps is a gap, because its energy may be
wrong by one.

Packages include their cores and graphics, so nothing is counted twice. Memory is outside the packages on
servers and inside on some other machines, so the two are not added up.

With several processes the figures are means of theirs, with intervals over the processes.
*/

use plugin_guest::{
    Case, Columns, Description, Direction, Error, Gap, Measurement, Metric, NoOptions,
};

/// The columns that are read.
const ITEMS: &str = "items";
const TIME: &str = "energy-time";
const PROCESS: &str = "process";
const PROCESSOR_STEP: &str = "processor-energy-step";
const DEVICE_STEP: &str = "device-energy-step";

/// A part of the machine whose energy is counted.
struct Domain {
    name: &'static str,
    column: &'static str,
    /// The column with the step of its counter.
    step: &'static str,
    /// The step in seconds of records from before it was measured: what the slowest counters in use take.
    usual_step: f64,
    of: &'static str,
}

const DOMAINS: [Domain; 3] = [
    Domain {
        name: "package",
        column: "package-energy",
        step: PROCESSOR_STEP,
        usual_step: 0.001,
        of: "the processors' packages, including other work on them",
    },
    Domain {
        name: "memory",
        column: "memory-energy",
        step: PROCESSOR_STEP,
        usual_step: 0.001,
        of: "the memory, as the processors count it separately",
    },
    Domain {
        name: "device",
        column: "device-energy",
        step: DEVICE_STEP,
        usual_step: 0.1,
        of: "the whole device, as the backend counts it",
    },
];

/// Steps of a counter that a window must have at least: it begins and ends within one, so that the energy is wrong by up
/// to one step, or 1 % of so many.
const LEAST_STEPS: f64 = 100.0;

/// The metric.
pub struct Energy;

impl Metric for Energy {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("energy")
    }

    fn columns() -> &'static [&'static str] {
        &[
            ITEMS,
            TIME,
            DOMAINS[0].column,
            DOMAINS[1].column,
            DOMAINS[2].column,
            PROCESSOR_STEP,
            DEVICE_STEP,
            PROCESS,
        ]
    }

    fn compute(case: &Case, columns: &Columns, _: NoOptions) -> Result<Vec<Measurement>, Error> {
        if let Some(processes) = columns.processes() {
            let of_each =
                processes.iter().map(|columns| Self::compute(case, columns, NoOptions {}));
            let of_each = of_each.collect::<Result<_, _>>()?;
            return Ok(Measurement::all_over_processes(of_each, case.confidence()));
        }
        let samples = columns.unsigned(ITEMS).and_then(|items| {
            match items.iter().map(|&count| u128::from(count)).sum::<u128>() {
                0 => Err(Gap::not_measured("no sample was measured")),
                samples => Ok(samples as f64),
            }
        });
        let mut measurements = Vec::new();
        for Domain { name, column, step, usual_step, of } in DOMAINS {
            let joules = one(columns, column)?;
            let step = one(columns, step)?.unwrap_or(usual_step);
            let least = LEAST_STEPS * step;
            // An energy has a time.
            let counted = joules.and_then(|joules| match one(columns, TIME) {
                Ok(Ok(seconds)) if seconds < least => Err(Gap::not_measured(format!(
                    "energy was counted for {seconds:.3} s; the counter moves every {:.1} ms, so \
                     that less than {least:.2} s says little",
                    1e3 * step
                ))),
                Ok(seconds) => Ok((joules, seconds?)),
                Err(error) => Err(Gap::unsupported(error.to_string())),
            });
            let for_each = counted.clone().and_then(|(joules, _)| Ok(joules / samples.clone()?));
            let power = counted.map(|(joules, seconds)| joules / seconds);
            let measurement = |what: &str, value, unit, direction| {
                let name = format!("energy.{name}-{what}");
                Measurement::new(name, value, unit, direction).with_attribute("of", of)
            };
            measurements.push(measurement("per-sample", for_each, "J", Direction::Lower));
            measurements.push(measurement("power", power, "W", Direction::Neutral));
        }
        Ok(measurements)
    }
}

plugin_guest::export_metric!(Energy);

/// Returns the single value of a column, which cannot be negative.
fn one(columns: &Columns, name: &str) -> Result<Result<f64, Gap>, Error> {
    Ok(match columns.double(name) {
        Ok([value]) if value.is_finite() && *value >= 0.0 => Ok(*value),
        Ok([value]) => {
            return Err(Error::Other(format!("column `{name}` is {value}, which is impossible")));
        }
        Ok(values) => Err(Gap::unsupported(format!(
            "column `{name}` has {} rows instead of one",
            values.len()
        ))),
        Err(gap) => Err(gap),
    })
}

#[cfg(test)]
mod tests {
    use plugin_guest::{Column, ColumnData};

    use super::*;

    fn column(name: &str, data: ColumnData) -> Column {
        Column { name: name.into(), unit: String::new(), width: 1, data }
    }

    fn compute(case: &Case, doubles: &[(&str, f64)]) -> Result<Vec<Measurement>, Error> {
        let doubles =
            doubles.iter().map(|(name, value)| column(name, ColumnData::Double(vec![*value])));
        let items = column(ITEMS, ColumnData::Unsigned(vec![8, 8, 4]));
        let columns: Vec<_> = doubles.chain([items]).collect();
        Energy::compute(case, &Columns::of(case, columns), NoOptions {})
    }

    fn values(found: Vec<Measurement>) -> Vec<(String, Result<f64, String>)> {
        let value = |one: Measurement| (one.metric, one.value.map_err(|gap| gap.reason));
        found.into_iter().map(value).collect()
    }

    #[test]
    fn energy_is_shared_by_the_samples_and_power_is_over_the_time() {
        let found = compute(
            &Case::default(),
            &[
                ("package-energy", 100.0),
                ("memory-energy", 5.0),
                ("device-energy", 0.0),
                (DEVICE_STEP, 0.02),
                (TIME, 4.0),
            ],
        );
        let found = found.expect("values");
        assert_eq!(found[0].unit, "J");
        assert_eq!(found[1].unit, "W");
        let expected = [
            ("energy.package-per-sample", 5.0),
            ("energy.package-power", 25.0),
            ("energy.memory-per-sample", 0.25),
            ("energy.memory-power", 1.25),
            ("energy.device-per-sample", 0.0),
            ("energy.device-power", 0.0),
        ];
        assert_eq!(values(found), expected.map(|(name, value)| (name.to_owned(), Ok(value))));
    }

    #[test]
    fn each_processs_energy_is_shared_by_its_own_samples() {
        let columns = vec![
            column("package-energy", ColumnData::Double(vec![100.0, 104.0])),
            column(TIME, ColumnData::Double(vec![4.0, 4.0])),
            column(ITEMS, ColumnData::Unsigned(vec![8, 8, 4, 8, 8, 4])),
            column(PROCESS, ColumnData::Unsigned(vec![0, 0, 0, 1, 1, 1])),
        ];
        let found = Energy::compute(&Case::default(), &columns.into(), NoOptions {});
        let found = found.expect("values");
        assert_eq!((&found[0].value, &found[1].value), (&Ok(5.1), &Ok(25.5)));
        assert_eq!(found[0].attributes["process-values"], "5 5.2");
        // t(0.975; 1) = 12.706, times half the distance.
        let (low, high) = found[0].interval.expect("an interval");
        assert!((low - 3.829).abs() < 1e-3 && (high - 6.371).abs() < 1e-3, "{low} {high}");
    }

    #[test]
    fn what_was_not_counted_is_a_gap_with_the_hosts_reason() {
        let mut case = Case::default();
        case.attributes.insert("missing.package-energy".into(), "only root may read it".into());
        let found = values(
            compute(&case, &[("device-energy", 3.0), (DEVICE_STEP, 0.02), (TIME, 2.0)])
                .expect("values"),
        );
        assert_eq!(found[0].1, Err("only root may read it".into()));
        assert_eq!(found[1].1, Err("only root may read it".into()));
        assert_eq!(found[2].1, Err("the case has no record of `memory-energy`".into()));
        assert_eq!(found[4].1, Ok(0.15));
        assert_eq!(found[5].1, Ok(1.5));
    }

    #[test]
    fn short_times_say_nothing_and_impossible_energies_are_errors() {
        let case = Case::default();
        let found = compute(&case, &[("package-energy", 1.0), (TIME, 0.05)]).expect("values");
        assert_eq!(
            found[0].value.as_ref().unwrap_err().reason,
            "energy was counted for 0.050 s; the counter moves every 1.0 ms, so that less than \
             0.10 s says little"
        );
        // By its own step, a device's counter needs longer.
        let device = |step: f64| {
            let columns = [("device-energy", 30.0), (TIME, 4.0), (DEVICE_STEP, step)];
            compute(&case, &columns).expect("values")[5].value.clone().map_err(|gap| gap.reason)
        };
        assert_eq!(device(0.02), Ok(7.5));
        assert_eq!(
            device(0.1),
            Err("energy was counted for 4.000 s; the counter moves every 100.0 ms, so that less \
                 than 10.00 s says little"
                .into())
        );
        for energy in [-1.0, f64::NAN, f64::INFINITY] {
            let error = compute(&case, &[("package-energy", energy), (TIME, 1.0)]).unwrap_err();
            assert!(error.to_string().contains("which is impossible"), "{error}");
        }
    }

    /// The host makes this call before anything is measured.
    #[test]
    fn without_columns_the_names_are_the_same() {
        let nothing = Energy::compute(&Case::default(), &Columns::default(), NoOptions {});
        let nothing = nothing.expect("gaps");
        assert!(nothing.iter().all(|one| one.value.is_err()));
        let names: Vec<_> = nothing.into_iter().map(|one| one.metric).collect();
        let all = compute(&Case::default(), &[("package-energy", 1.0), (TIME, 1.0)]);
        assert_eq!(
            names,
            all.expect("values").into_iter().map(|one| one.metric).collect::<Vec<_>>()
        );
    }
}
