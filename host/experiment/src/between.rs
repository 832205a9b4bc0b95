/*!
Comparison within runs: of two backends, devices, precisions, models or other values of an axis.

Both sides become runs of their own, whose cases have the same coordinates where the axis is left out, and are then compared
as two runs are. A backend brings its devices: where each side has one device, cases are matched without it, and the same for
a device and its backend. Facts about the machine that concern one backend only stand without its name, so that a difference
between the two sides is seen first, and the facts about other backends are left out.
*/

use std::collections::{BTreeMap, BTreeSet};

use host_record::{Axis, CaseKey, Order};
use host_store::RunFolder;

use crate::error::{Error, Result};
use crate::figures::{CaseFigures, RunFigures};

/// Two values of an axis that are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sides {
    /// The axis.
    pub axis: Axis,
    /// Its value in the cases that are compared with.
    pub first: String,
    /// Its value in the cases that are compared.
    pub second: String,
}

impl std::str::FromStr for Sides {
    type Err = String;

    /// Reads `backend=cpu,openvino`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = "write an axis and two of its values, such as `backend=cpu,openvino`";
        let (axis, values) = text.split_once('=').ok_or(wanted)?;
        let (first, second) = values.split_once(',').ok_or(wanted)?;
        let [axis, first, second] = [axis, first, second].map(str::trim);
        if first == second {
            return Err(format!("both values are `{first}`; {wanted}"));
        }
        let axis: Axis = axis.parse()?;
        Ok(Self { axis, first: first.to_owned(), second: second.to_owned() })
    }
}

/// Returns the cases of the first run with the first value and those of the second run with the second, as two runs that can
/// be compared. Both may be the same run.
///
/// # Errors
///
/// If a run has no case with its value; the error has those that there are.
pub fn between(first: &RunFigures, second: &RunFigures, sides: &Sides) -> Result<[RunFigures; 2]> {
    let first = cases_of(first, sides.axis, &sides.first)?;
    let second = cases_of(second, sides.axis, &sides.second)?;
    let left_out = [Some(sides.axis), companion(sides.axis, [&first.cases, &second.cases])];
    let place = |key: &CaseKey| -> Vec<Option<String>> {
        let axes = Axis::ALL.iter().filter(|axis| !left_out.contains(&Some(**axis)));
        axes.map(|axis| axis.value(key)).collect()
    };
    // Cases are matched by their ids: each case of the first side gets that of its counterpart.
    let mut counterparts: BTreeMap<Vec<Option<String>>, Vec<&CaseFigures>> = BTreeMap::new();
    second
        .cases
        .iter()
        .for_each(|case| counterparts.entry(place(&case.key)).or_default().push(case));
    let mut renamed = first.clone();
    for case in &mut renamed.cases {
        if let Some([counterpart]) = counterparts.get(&place(&case.key)).map(Vec::as_slice) {
            case.id.clone_from(&counterpart.id);
            case.key = counterpart.key.clone();
        }
    }
    Ok([renamed, second])
}

/// Returns the axis whose values follow from those of another, if they do so on both sides.
fn companion(axis: Axis, sides: [&Vec<CaseFigures>; 2]) -> Option<Axis> {
    let other = match axis {
        Axis::Backend => Axis::Device,
        Axis::Device => Axis::Backend,
        _ => return None,
    };
    let values = |cases: &Vec<CaseFigures>| -> BTreeSet<Option<String>> {
        cases.iter().map(|case| other.value(&case.key)).collect()
    };
    sides.into_iter().all(|cases| values(cases).len() == 1).then_some(other)
}

/// Returns a run with its cases that have a value on an axis.
fn cases_of(figures: &RunFigures, axis: Axis, value: &str) -> Result<RunFigures> {
    let is_it = |case: &&CaseFigures| axis.value(&case.key).as_deref() == Some(value);
    let cases: Vec<CaseFigures> = figures.cases.iter().filter(is_it).cloned().collect();
    if cases.is_empty() {
        let found: BTreeSet<String> =
            figures.cases.iter().filter_map(|case| axis.value(&case.key)).collect();
        return Err(Error::NoSuchSide {
            run: figures.run.clone(),
            axis,
            value: value.to_owned(),
            found: found.into_iter().collect(),
        });
    }
    let conditions = conditions_of(&figures.conditions, &cases);
    Ok(RunFigures { cases, conditions, ..figures.clone() })
}

/// Returns the conditions of some cases: those of other backends and devices are left out, and names of the only backend and
/// device stand in none.
fn conditions_of(
    all: &BTreeMap<String, String>,
    cases: &[CaseFigures],
) -> BTreeMap<String, String> {
    let places: BTreeSet<(&str, &str)> =
        cases.iter().map(|case| (&*case.key.backend, &*case.key.device)).collect();
    let is_single = places.len() == 1;
    let shortened = |name: &str| -> Option<String> {
        for (kind, is_of_device) in [("device.", true), ("plugin.", false), ("runtime.", false)] {
            let Some(rest) = name.strip_prefix(kind) else { continue };
            for (backend, device) in &places {
                let whole = match is_of_device {
                    true => format!("{backend}.{device}"),
                    false => (*backend).to_owned(),
                };
                match rest.strip_prefix(&whole) {
                    Some("") if is_single => return Some(kind.trim_end_matches('.').to_owned()),
                    Some(fact) if fact.starts_with('.') && is_single => {
                        return Some(format!("{}{fact}", kind.trim_end_matches('.')));
                    }
                    Some(fact) if fact.is_empty() || fact.starts_with('.') => {
                        return Some(name.to_owned());
                    }
                    _ => {}
                }
            }
            return None;
        }
        Some(name.to_owned())
    };
    all.iter().filter_map(|(name, value)| Some((shortened(name)?, value.clone()))).collect()
}

impl RunFigures {
    /// Returns whether the processes of the run's cases took turns, so that a drift of the machine is not a difference between
    /// cases; `None` if that is not known.
    #[must_use]
    pub fn took_turns(&self) -> Option<bool> {
        let folder = RunFolder::open(self.folder.as_ref()?).ok()?;
        let experiment = host_manifest::parse(&folder.manifest_text().ok()?).ok()?;
        Some(experiment.measure.order != Order::Planned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::figures::{Figure, LATENCY, Trust};
    use host_record::Direction;

    fn case(id: &str, backend: &str, device: &str, batch: u32, level: f64) -> CaseFigures {
        let levels = vec![level, level * 1.01, level * 1.02];
        CaseFigures {
            id: id.into(),
            key: CaseKey { batch, ..CaseKey::new("m", backend, device) },
            trust: Trust::Sound,
            is_disturbed: false,
            processes: 3,
            main: Figure::of_values(LATENCY, "ns", Direction::Lower, levels),
            metrics: Vec::new(),
            gaps: BTreeMap::new(),
            price_per_hour: None,
        }
    }

    fn run(cases: Vec<CaseFigures>, conditions: &[(&str, &str)]) -> RunFigures {
        RunFigures {
            run: "run".into(),
            experiment: "it".into(),
            started_at: String::new(),
            git_commit: None,
            conditions: conditions
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            cases,
            unmeasured: BTreeMap::new(),
            folder: None,
        }
    }

    fn sides(text: &str) -> Sides {
        text.parse().expect("two values")
    }

    #[test]
    fn sides_are_an_axis_and_two_of_its_values() {
        let read = sides("precision = fp32, fp16");
        assert_eq!((read.axis, &*read.first, &*read.second), (Axis::Precision, "fp32", "fp16"));
        for text in ["", "backend", "backend=cpu", "backend=cpu,cpu", "colour=red,blue"] {
            assert!(text.parse::<Sides>().is_err(), "{text}");
        }
    }

    #[test]
    fn backends_of_one_run_are_compared_case_by_case() {
        let run = run(
            vec![
                case("1", "a", "cpu:0", 1, 1e3),
                case("2", "a", "cpu:0", 8, 4e3),
                case("3", "b", "gpu:0", 1, 2e3),
                case("4", "b", "gpu:0", 8, 1e3),
                case("5", "b", "gpu:0", 64, 9e3),
                case("6", "c", "npu:0", 8, 9e3),
            ],
            &[
                ("processor.name", "P"),
                ("device.a.cpu:0.name", "P"),
                ("device.b.gpu:0.name", "G"),
                ("device.c.npu:0.name", "N"),
                ("plugin.a", "1.0.0"),
                ("plugin.b", "2.0.0"),
                ("runtime.b", "R 3"),
            ],
        );
        let [first, second] = between(&run, &run, &sides("backend=a,b")).expect("two sides");
        let found = compare(&first, &second, 0.05);
        let cases: Vec<_> = found
            .cases
            .iter()
            .map(|case| (case.key.batch, case.main.verdict(), case.is_redefined))
            .collect();
        assert_eq!(cases, [(8, "faster", false), (1, "slower", false)]);
        assert_eq!(found.alone, 1);
        let conditions: Vec<_> = found.conditions.iter().map(|one| &*one.name).collect();
        assert_eq!(conditions, ["device.name", "plugin", "runtime"]);
        // Exchanging the sides inverts it.
        let [first, second] = between(&run, &run, &sides("backend=b,a")).expect("two sides");
        let back = compare(&first, &second, 0.05);
        let (speed_up, _) = found.speed_up.expect("a ratio");
        let (other, _) = back.speed_up.expect("a ratio");
        assert!((speed_up.value * other.value - 1.0).abs() < 1e-9);
        let batches = between(&run, &run, &sides("batch=1,8")).expect("two sides");
        assert_eq!(compare(&batches[0], &batches[1], 0.05).cases.len(), 2);
    }

    #[test]
    fn a_value_that_is_not_there_is_named_with_those_that_are() {
        let run = run(vec![case("1", "a", "cpu:0", 1, 1e3)], &[]);
        let error = between(&run, &run, &sides("backend=a,cuda")).expect_err("no such backend");
        assert_eq!(
            error.to_string(),
            "the run `run` has measured no case with backend `cuda`; it has: a"
        );
    }
}
