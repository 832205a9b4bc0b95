/*!
Efficiency: what a case does for each joule, gigabyte and unit of price.

These figures are made of the metrics of a case, process by process, when two cases are compared. They are not metrics: a
metric that divides two others would say nothing new, and a table of them would hide the measured ones. A figure is left out
if one of its parts was not measured.
*/

use host_record::Direction;

use crate::figures::{CaseFigures, Figure};

/// Energy for each sample, the more exact first: that of the device, or of the processors.
const ENERGY: [&str; 2] = ["energy.device-per-sample", "energy.package-per-sample"];

/// Memory, in the same order: that of the device, or of the process.
const MEMORY: [&str; 2] = ["memory.device-peak", "memory.peak"];

const THROUGHPUT: &str = "throughput.samples";

const GIGABYTE: f64 = 1e9;
const SECONDS_OF_HOUR: f64 = 3600.0;

/// Returns the figures of the efficiency of a case in two runs.
pub(crate) fn efficiency(before: &CaseFigures, after: &CaseFigures) -> Vec<(Figure, Figure)> {
    let measured = |name: &&str| before.figure(name).and(after.figure(name)).is_some();
    let energy = ENERGY.into_iter().find(measured).map(|name| {
        let of = |case: &CaseFigures| {
            derived(
                "efficiency.per-energy",
                "1/J",
                [Some(case.figure(name)?), None],
                |[energy, _]| 1.0 / energy,
            )
        };
        (of(before), of(after))
    });
    let memory = MEMORY.into_iter().find(measured).map(|name| {
        let of = |case: &CaseFigures| {
            let parts = [Some(case.figure(THROUGHPUT)?), Some(case.figure(name)?)];
            derived("efficiency.per-memory", "1/s/GB", parts, |[throughput, memory]| {
                throughput / (memory / GIGABYTE)
            })
        };
        (of(before), of(after))
    });
    let price = before.price_per_hour.zip(after.price_per_hour).map(|_| {
        let of = |case: &CaseFigures| {
            let price = case.price_per_hour?;
            let parts = [Some(case.figure(THROUGHPUT)?), None];
            derived("efficiency.per-price", "1/price", parts, |[throughput, _]| {
                throughput * SECONDS_OF_HOUR / price
            })
        };
        (of(before), of(after))
    });
    let all = [energy, memory, price].into_iter().flatten();
    all.filter_map(|(before, after)| before.zip(after)).collect()
}

/// Makes a figure of one or two others: of each process, if both state a value for each, and else of their values.
fn derived(
    name: &str,
    unit: &str,
    parts: [Option<&Figure>; 2],
    make: impl Fn([f64; 2]) -> f64,
) -> Option<Figure> {
    let [first, second] = parts;
    let first = first?;
    let values: Vec<f64> = match second {
        None => first.processes.iter().map(|value| make([*value, 1.0])).collect(),
        Some(second) if second.processes.len() == first.processes.len() => {
            let pairs = first.processes.iter().zip(&second.processes);
            pairs.map(|(one, other)| make([*one, *other])).collect()
        }
        // A peak over all processes is one value.
        Some(second) if second.processes.len() == 1 => {
            first.processes.iter().map(|value| make([*value, second.value])).collect()
        }
        Some(second) => vec![make([first.value, second.value])],
    };
    let are_numbers = values.iter().all(|value| value.is_finite());
    are_numbers.then(|| Figure::of_values(name, unit, Direction::Higher, values)).flatten()
}
