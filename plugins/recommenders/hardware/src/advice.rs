//! From verdicts to sentences.

use std::collections::{BTreeMap, BTreeSet};

use plugin_guest::{Error, Recommendation};
use report_common::{
    Axis, AxisRole, Case, Configuration, Direction, Doubt, Labels, Order, Outcome, Run, Scenario,
    Warning, WarningKind, configurations, humanise_metric,
};

use crate::judge::{CLEARLY, Candidate, Reading, Verdict, differ, differ_at, front, rated_in};
use crate::options::{Limit, Objective, Options, is_of_device, limits, metric_name, objectives};
use crate::ranks::ranks;
use crate::speed_up::{SpeedUp, speed_ups};

/// Configurations that a title names before it only counts them.
const MAXIMUM_NAMED: usize = 4;

/// Ranks that are named for each objective.
const MAXIMUM_RANKED: usize = 10;

/// Comparison of accuracies. The views have no outputs, so a paired test of answers is not possible.
const UNPAIRED: &str = "Accuracies are compared by their intervals, as if of different examples, \
                        though all answered the same ones: a difference that shows in this way is \
                        real, and smaller ones may be.";

/// Returns the advice about a run.
pub(crate) fn advise(run: &Run, options: &Options) -> Result<Vec<Recommendation>, Error> {
    let configurations = configurations(run);
    let defaults = Options::default();
    let any_metric = !run.metrics().is_empty();
    let (limits, objectives, considered) = if any_metric {
        (
            limits(options, run)?,
            objectives(
                &options.objectives,
                options.objectives == defaults.objectives,
                "objectives",
                run,
            )?,
            objectives(
                &options.considered,
                options.considered == defaults.considered,
                "considered",
                run,
            )?,
        )
    } else {
        // Nothing was measured, so there is nothing to check the options against.
        (Vec::new(), Vec::new(), Vec::new())
    };

    let mut advice = Vec::new();
    for workload in workloads(run) {
        let of_workload =
            configurations.iter().filter(|it| workload.contains(it.first())).cloned().collect();
        let group =
            Group::new(run, workload, of_workload, &limits, objectives.clone(), &considered);
        group.advise(&mut advice);
    }
    advice.extend(faster_than_processors(run));
    for one in &mut advice {
        let check = check(run, one);
        one.attributes.insert("check".to_owned(), check);
        let confidence = match one.attributes.get("certain").map(String::as_str) {
            Some("yes") => "95 %",
            Some(_) => "not certain",
            None => "as measured",
        };
        one.attributes.entry("confidence".to_owned()).or_insert(confidence.to_owned());
    }
    Ok(advice)
}

/// Returns the speed-up of other devices over processors.
fn faster_than_processors(run: &Run) -> Option<Recommendation> {
    let mut found = speed_ups(run);
    found.sort_by(|one, other| other.factor.total_cmp(&one.factor));
    let most = found.first()?;
    let title = format!(
        "Speed-up over processors: {} at most, of {} on {}",
        match most.interval {
            Some((low, high)) => format!("{:.1} times ({low:.1} to {high:.1})", most.factor),
            None => format!("{:.1} times", most.factor),
        },
        most.case.key.model,
        most.case.key.device,
    );
    let lines: Vec<String> = found.iter().map(SpeedUp::text).collect();
    let mut rests_on = Cases::default();
    for one in &found {
        rests_on.add(one.case);
        rests_on.add(one.processor);
    }
    Some(recommendation("speed-up", title, &lines, rests_on, &[("confidence", "95 %")]))
}

/// Returns the command that checks a piece of advice: a comparison of what it chose with the next best if they differ on one
/// axis, and else the cases.
fn check(run: &Run, advice: &Recommendation) -> String {
    let case = |attribute: &str, place: usize| {
        let ids = advice.attributes.get(attribute)?;
        run.case(ids.split(' ').nth(place)?)
    };
    let compared = || {
        let chosen = case("chosen", 0)?;
        let ids = advice.attributes.get("compared")?.split(' ');
        let others = ids.filter_map(|id| run.case(id));
        let differs = |axis: &&Axis, other: &Case| axis.of(&chosen.key) != axis.of(&other.key);
        others.into_iter().find_map(|other| {
            let axes: Vec<&Axis> = Axis::ALL.iter().filter(|axis| differs(axis, other)).collect();
            // A backend brings its device.
            let axis = match axes.as_slice() {
                [axis] => axis,
                [axis, Axis::Device] if **axis == Axis::Backend => axis,
                _ => return None,
            };
            let [one, two] =
                [&other.key, &chosen.key].map(|key| axis.value(key).unwrap_or_default());
            Some(format!("`host compare {} --between {axis}={one},{two}`", run.id))
        })
    };
    let speed_up = || {
        (advice.attributes.get("kind").map(String::as_str) == Some("speed-up")).then_some(())?;
        let [other, processor] =
            [run.case(advice.cases.first()?)?, run.case(advice.cases.get(1)?)?];
        let (first, second) = (&processor.key.backend, &other.key.backend);
        Some(format!("`host compare {} --between backend={first},{second}`", run.id))
    };
    compared().or_else(speed_up).unwrap_or_else(|| format!("`host results show {}`", run.id))
}

/// Coordinates on axes of the task, such as model and mode: they are given, not chosen.
#[derive(Debug, Clone, PartialEq)]
struct Workload<'a>(&'a Case);

impl Workload<'_> {
    fn contains(&self, case: &Case) -> bool {
        is_alike(self.0, case, AxisRole::Task)
    }

    /// The model, and whatever else of the task is a number: `bert at sequence length 128`.
    fn name(&self) -> String {
        let key = &self.0.key;
        let numbers = Axis::ALL
            .iter()
            .filter(|axis| axis.role() == AxisRole::Task && axis.is_number())
            .filter_map(|axis| Some((axis.name().replace('-', " "), axis.value(key)?)));
        numbers.fold(key.model.clone(), |name, (axis, value)| format!("{name} at {axis} {value}"))
    }
}

fn workloads(run: &Run) -> Vec<Workload<'_>> {
    let mut workloads: Vec<Workload<'_>> = Vec::new();
    for case in &run.cases {
        if !workloads.iter().any(|workload| workload.contains(case)) {
            workloads.push(Workload(case));
        }
    }
    workloads
}

/// Returns whether two cases have the same coordinates on the axes of a role.
fn is_alike(one: &Case, other: &Case, role: AxisRole) -> bool {
    let mut axes = Axis::ALL.iter().filter(|axis| axis.role() == role);
    axes.all(|axis| axis.of(&one.key) == axis.of(&other.key))
}

/// The configurations that a choice is made among.
struct Field<'f, 'a> {
    /// All that have figures.
    comparable: &'f [&'f Candidate<'a>],
    /// Those that meet the limits, surely or perhaps.
    feasible: &'f [&'f Candidate<'a>],
    /// If those are sure: others that meet the limits perhaps.
    perhaps: &'f [&'f Candidate<'a>],
    /// All that do not surely break a limit.
    rivals: &'f [&'f Candidate<'a>],
    /// Whether it is sure that the feasible ones meet the limits.
    sure: bool,
}

/// Outputs of a configuration that are empty or all of one value.
struct Trivial<'a> {
    /// Each with its name.
    outputs: Vec<(&'a str, &'a Doubt)>,
    /// Whether its outputs were compared with a reference's.
    is_checked: bool,
}

impl<'a> Trivial<'a> {
    fn of(configuration: &Configuration<'a>) -> Self {
        let warnings = configuration.cases.iter().flat_map(|case| &case.warnings);
        let outputs = warnings.filter_map(|warning| match &warning.doubt {
            doubt @ Doubt::TrivialOutput { output, values, constant, .. }
                if *values == 0 || constant.is_some() =>
            {
                Some((output.as_str(), doubt))
            }
            _ => None,
        });
        let mut reports = configuration.cases.iter().filter_map(|case| case.report());
        let is_checked = reports.any(|report| report.conditions.parity.is_some());
        Self { outputs: outputs.collect(), is_checked }
    }

    /// Returns why the configuration must not be compared, if others of the same workload have other outputs, or if
    /// nothing shows that zeros are the model's answer.
    fn ruled_out(&self, all: &[Self]) -> Option<String> {
        let has = |other: &Self, name: &str| other.outputs.iter().any(|(known, _)| *known == name);
        let (_, doubt) = self.outputs.iter().find(|(name, doubt)| {
            let is_zero = matches!(doubt, Doubt::TrivialOutput { constant: Some(0.0), .. });
            all.iter().any(|other| !has(other, name)) || (is_zero && !self.is_checked)
        })?;
        let is_alone = all.iter().all(|other| other.outputs.len() >= self.outputs.len());
        Some(match is_alone {
            true => format!(
                "{doubt}; nothing has checked that this is the model's answer: add `[check]`"
            ),
            false => format!("{doubt}, and others answer otherwise"),
        })
    }
}

/// One workload, and the results of its configurations.
struct Group<'a, 'o> {
    name: String,
    candidates: Vec<Candidate<'a>>,
    /// Cases that did not finish, with their names.
    unfinished: Vec<(String, &'a Case)>,
    limits: &'o [Limit],
    objectives: Vec<Objective>,
    considered: &'o [Objective],
    /// Objectives that no configuration has a value for.
    dropped: Vec<Objective>,
}

impl<'a, 'o> Group<'a, 'o> {
    fn new(
        run: &'a Run,
        workload: Workload<'_>,
        configurations: Vec<Configuration<'a>>,
        limits: &'o [Limit],
        objectives: Vec<Objective>,
        considered: &'o [Objective],
    ) -> Self {
        let cases = || run.cases.iter().filter(|case| workload.contains(case));
        let labels = Labels::new(cases());
        let unfinished = cases()
            .filter(|case| !case.is_finished())
            .map(|case| (labels.label(case), case))
            .collect();
        let labels = labels.without(Axis::Scenario);
        let rated_in = rated_in(&configurations, limits);
        let has_value = |objective: &Objective| {
            let read = |it| Reading::new(it, &objective.metric, rated_in).is_ok();
            configurations.iter().any(read)
        };
        let (objectives, dropped): (Vec<_>, Vec<_>) = objectives.into_iter().partition(has_value);
        let trivial: Vec<_> = configurations.iter().map(Trivial::of).collect();
        let candidates = configurations
            .into_iter()
            .enumerate()
            .map(|(place, mut configuration)| {
                let first = configuration.first();
                let label = name(first, &labels);
                let failed = cases().find_map(|case| match &case.record.outcome {
                    Outcome::Failed { failure } if is_alike(case, first, AxisRole::Choice) => {
                        Some(format!("it failed in {}: {failure}", case.key.scenario))
                    }
                    _ => None,
                });
                let simulated = first.report().and_then(|report| report.used.get("simulated"));
                let simulated = simulated.map(|how| format!("its figures are simulated: {how}"));
                // A rate that was too much says nothing against what was measured at others; but
                // the two scenarios that advice rests on have to be sound.
                let compared = |case: &&&Case| {
                    [Scenario::SingleStream, Scenario::Offline].contains(&case.key.scenario)
                };
                let cases = &mut configuration.cases;
                let invalid =
                    cases.iter().filter(compared).find(|case| case.valid() == Some(false));
                let invalid = invalid.map(|case| format!("{} is invalid", case.key.load()));
                if invalid.is_none() && cases.iter().any(|case| case.valid() != Some(false)) {
                    cases.retain(|case| case.valid() != Some(false));
                }
                let says_nothing = trivial[place].ruled_out(&trivial);
                let ruled_out = failed.or(simulated).or(invalid).or(says_nothing);
                Candidate::new(
                    label,
                    configuration,
                    limits,
                    &objectives,
                    considered,
                    rated_in,
                    ruled_out,
                )
            })
            .collect();
        let name = workload.name();
        Self { name, candidates, unfinished, limits, objectives, considered, dropped }
    }

    fn advise(&self, advice: &mut Vec<Recommendation>) {
        let comparable: Vec<_> =
            self.candidates.iter().filter(|candidate| candidate.unknown().is_none()).collect();
        let judged = || {
            comparable
                .iter()
                .copied()
                .filter(|candidate| !matches!(candidate.verdict(), Verdict::Unknown(_)))
        };
        let with = |verdict: Verdict| -> Vec<_> {
            judged().filter(|candidate| candidate.verdict() == verdict).collect()
        };
        let (sure, perhaps) = (with(Verdict::Kept), with(Verdict::KeptPerhaps));
        let rivals: Vec<_> =
            judged().filter(|candidate| candidate.verdict() != Verdict::Broken).collect();
        let field = |feasible, perhaps, sure| Field {
            comparable: &comparable,
            feasible,
            perhaps,
            rivals: &rivals,
            sure,
        };
        if !sure.is_empty() {
            self.choices(&field(&sure, &perhaps, true), advice);
        } else if !perhaps.is_empty() {
            self.choices(&field(&perhaps, &[], false), advice);
        } else if judged().next().is_some() {
            advice.push(self.closest(&judged().collect::<Vec<_>>()));
        }
        if comparable.len() > 1 && self.objectives.len() > 1 {
            advice.push(self.front(&comparable));
        }
        advice.extend(self.ruled_out());
        advice.extend(self.not_judged());
        advice.extend(self.ranks(&rivals, &comparable));
    }

    /// Returns the ranks of those that do not surely break a limit, in each objective that all of them have values of several
    /// processes of.
    fn ranks(
        &self,
        rivals: &[&Candidate<'a>],
        comparable: &[&Candidate<'a>],
    ) -> Option<Recommendation> {
        let mut rests_on = Cases::default();
        let (mut lines, mut firsts) = (Vec::new(), Vec::new());
        for (place, objective) in self.objectives.iter().enumerate() {
            let readings: Option<Vec<&Reading<'a>>> =
                rivals.iter().map(|one| one.objectives[place].as_ref().ok()).collect();
            let Some(readings) = readings.filter(|readings| readings.len() > 1) else { continue };
            let processes: Option<Vec<&[f64]>> =
                readings.iter().map(|reading| reading.processes.as_deref()).collect();
            let is_lower_better = objective.direction == Direction::Lower;
            let Some(ranked) = processes.and_then(|it| ranks(&it, is_lower_better)) else {
                continue;
            };
            let shown = ranked.iter().take(MAXIMUM_RANKED).enumerate();
            let shown = shown.map(|(rank, (which, right))| {
                format!("{}. {} ({:.0} %)", rank + 1, rivals[*which].label, 100.0 * right)
            });
            let shown: Vec<String> = shown.collect();
            let rest = match ranked.len().saturating_sub(MAXIMUM_RANKED) {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            lines.push(format!("By {}: {}{rest}.", objective.best(), shown.join(", ")));
            let (first, right) = ranked[0];
            firsts.push(format!(
                "{} first by {} ({:.0} %)",
                rivals[first].label,
                objective.best(),
                100.0 * right
            ));
            ranked.iter().for_each(|(which, _)| rests_on.add(readings[*which].case));
        }
        if lines.is_empty() {
            return None;
        }
        lines.push(
            "The part of draws of all means, from Student's t around the measured ones, in which a rank is right.".to_owned(),
        );
        // The probabilities do not know of those that are left out, nor of disturbances.
        let disturbed = comparable.iter().filter(|one| one.disturbances().next().is_some()).count();
        let doubt = self.compared_in_short(comparable.len(), disturbed);
        let doubt = doubt.map_or_else(String::new, |doubt| format!(" ({doubt})"));
        let title = format!("{}: ranks: {}{doubt}", self.name, firsts.join("; "));
        let attributes = [("model", self.name.as_str()), ("confidence", "that of each rank")];
        Some(recommendation("ranks", title, &lines, rests_on, &attributes))
    }

    /// Returns advice about configurations that break a limit by a lower percentile than the
    /// limit's, whose own value is unknown.
    fn ruled_out(&self) -> Option<Recommendation> {
        let mut rests_on = Cases::default();
        let (mut lines, mut labels) = (Vec::new(), Vec::new());
        let mut limits: Vec<String> = Vec::new();
        for candidate in &self.candidates {
            let Some((limit, reading)) = candidate.broken_below(self.limits) else { continue };
            if !limits.contains(&limit.text()) {
                limits.push(limit.text());
            }
            let limited = metric_name(&limit.metric);
            lines.push(format!(
                "{}: {}, and no {limited} is below that. The {limited} itself is not known.",
                capital(&candidate.label),
                reading.text(),
            ));
            labels.push(candidate.label.clone());
            rests_on.candidate(candidate);
        }
        let which = match labels.len() {
            0 => return None,
            1..=MAXIMUM_NAMED => join(&labels),
            many => format!("{many} configurations"),
        };
        let verb = if labels.len() == 1 { "misses" } else { "miss" };
        let title = format!(
            "{}: {which} {verb} {}: a lower percentile is above it already",
            self.name,
            join(&limits)
        );
        Some(recommendation("ruled-out", title, &lines, rests_on, &[("model", &self.name)]))
    }

    /// Returns the open objectives: those that no limit settles, or all if there is none.
    fn open(&self) -> Vec<usize> {
        let settled = |objective: &Objective| {
            self.limits.iter().any(|limit| limit.metric == objective.metric)
        };
        let all = 0..self.objectives.len();
        let open: Vec<_> = all.clone().filter(|it| !settled(&self.objectives[*it])).collect();
        if open.is_empty() { all.collect() } else { open }
    }

    /// The limits in words.
    fn limits(&self) -> String {
        join(&self.limits.iter().map(Limit::text).collect::<Vec<_>>())
    }

    /// Returns the limits in words, with the word that joins them to the preceding text.
    fn within(&self) -> String {
        if self.limits.is_empty() { String::new() } else { format!(" with {}", self.limits()) }
    }

    /// Returns the best in each open objective. One that is best in several is named once.
    fn choices(&self, field: &Field<'_, 'a>, advice: &mut Vec<Recommendation>) {
        let eligible = front(field.feasible, &self.objectives, self.considered);
        let mut winners: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for objective in self.open() {
            let best = best(&eligible, objective, &self.objectives[objective]);
            match winners.iter_mut().find(|(_, known)| *known == best) {
                Some((objectives, _)) => objectives.push(objective),
                None => winners.push((vec![objective], best)),
            }
        }
        for (objectives, winners) in winners {
            let winners: Vec<_> = winners.iter().map(|winner| eligible[*winner]).collect();
            advice.push(self.choice(field, &objectives, &winners));
        }
    }

    fn choice(
        &self,
        field: &Field<'_, 'a>,
        objectives: &[usize],
        winners: &[&Candidate<'a>],
    ) -> Recommendation {
        let Field { comparable, feasible, perhaps, rivals, sure } = *field;
        let best: Vec<_> = objectives.iter().map(|it| self.objectives[*it].best()).collect();
        let labels: Vec<_> = winners.iter().map(|winner| winner.label.clone()).collect();
        let tie = winners.len() > 1;
        let alone = comparable.len() == 1;
        let disturbances: BTreeSet<&str> = comparable
            .iter()
            .flat_map(|candidate| candidate.disturbances())
            .map(|kind| kind.name())
            .collect();
        let is_disturbed = |candidate: &&&Candidate<'_>| candidate.disturbances().next().is_some();
        let disturbed = comparable.iter().filter(is_disturbed).count();
        let contested = self.contested(objectives, winners, rivals);
        // Alone it is not compared with another, but with limits if there are any.
        let is_compared = !alone || !self.limits.is_empty();
        let certain = sure && (disturbed == 0 || !is_compared) && contested.is_none();
        let title = match (alone, tie) {
            (true, _) => self.alone(&labels[0]),
            (_, true) => {
                let which = match labels.len() {
                    0..=MAXIMUM_NAMED => join_with(&labels, "or"),
                    many => format!("one of {many} configurations"),
                };
                format!("{}: use {which}: they tie for {}{}", self.name, join(&best), self.within())
            }
            _ => format!("{}: use {}: {}{}", self.name, labels[0], join(&best), self.within()),
        };
        let mut remarks = Vec::new();
        if !sure {
            remarks.push(self.doubt_in_short(winners));
        }
        remarks.extend(contested);
        // Alone, the title says already that nothing else was compared.
        if !alone {
            remarks.extend(self.compared_in_short(comparable.len(), disturbed));
        }
        let title = match (remarks.is_empty(), certain) {
            (true, _) => title,
            (_, true) => format!("{title} ({})", remarks.join("; ")),
            (_, false) => format!("{title} (not certain: {})", remarks.join("; ")),
        };

        let mut sentences = Vec::new();
        let mut rests_on = Cases::default();
        for winner in winners {
            sentences.push(format!("{}: {}.", capital(&winner.label), winner.figures()));
            rests_on.candidate(winner);
        }
        if !sure {
            for winner in winners {
                sentences.extend(self.doubts(winner));
            }
        }
        if tie {
            sentences.push(self.tie_break(objectives, winners));
        }
        let others = feasible.len() - winners.len();
        if others > 0 {
            let noun = if others == 1 { "configuration" } else { "configurations" };
            let meet = if self.limits.is_empty() { "compared" } else { "within the limits" };
            sentences.push(format!("{others} other {noun} {meet} did not do better."));
        }
        let before = sentences.len();
        for winner in winners {
            sentences.extend(self.accuracy_cost(winner, &mut rests_on));
        }
        if sentences.len() > before {
            sentences.push(UNPAIRED.to_owned());
        }
        for objective in objectives {
            sentences.extend(self.perhaps_better(*objective, winners[0], perhaps, &mut rests_on));
        }
        for winner in winners {
            sentences.extend(doubtful(winner));
        }
        if disturbed > 0 && !alone {
            let kinds: Vec<_> = disturbances.into_iter().map(str::to_owned).collect();
            sentences.push(format!(
                "Of the {} that were compared, {disturbed} had warnings that can explain such differences \
                 ({}): remove the causes, and measure again.",
                comparable.len(),
                kinds.join(", ")
            ));
        }
        for objective in &self.dropped {
            let metric = metric_name(&objective.metric);
            sentences.push(format!("No configuration has a {metric}, so it was not compared."));
        }
        let kind = if tie { "tie" } else { "choice" };
        // A line for each that is named, and one for all that is to be said of them.
        let mut lines = sentences;
        let remarks = lines.split_off(winners.len()).join(" ");
        lines.extend((!remarks.is_empty()).then_some(remarks));
        let mut recommendation =
            recommendation(kind, title, &lines, rests_on, &[("model", &self.name)]);
        recommendation
            .attributes
            .insert("certain".to_owned(), if certain { "yes" } else { "no" }.to_owned());
        let chosen = winners.iter().flat_map(|it| &it.configuration.cases);
        let chosen: Vec<_> = chosen.map(|case| case.id.as_str()).collect();
        recommendation.attributes.insert("chosen".to_owned(), chosen.join(" "));
        let compared = comparable.iter().flat_map(|it| &it.configuration.cases);
        let compared: Vec<_> = compared.map(|case| case.id.as_str()).collect();
        recommendation.attributes.insert("compared".to_owned(), compared.join(" "));
        recommendation
    }

    /// Returns why it is not certain, in a few words, that the winners are the best in these objectives; `None` if it
    /// is, with the confidence of [`CLEARLY`], or if nothing is claimed. Each rival must be clearly worse than the
    /// best of the winners. The best of many is the luckiest, too: so the level is divided by the number of
    /// comparisons, over all open objectives (Bonferroni), which holds whatever depends on what.
    fn contested(
        &self,
        objectives: &[usize],
        winners: &[&Candidate<'_>],
        rivals: &[&Candidate<'_>],
    ) -> Option<String> {
        let is_winner = |rival: &Candidate<'_>| winners.iter().any(|one| std::ptr::eq(*one, rival));
        let rivals: Vec<_> = rivals.iter().filter(|rival| !is_winner(rival)).collect();
        let comparisons = (winners.len() + rivals.len() - 1) * self.open().len();
        let level = CLEARLY / comparisons.max(1) as f64;
        let limited = winners.iter().flat_map(|winner| &winner.limits).map(|(_, reading)| reading);
        let compared = objectives.iter().filter(|_| !rivals.is_empty()).flat_map(|objective| {
            let all = winners.iter().chain(rivals.iter().copied());
            all.map(move |one| &one.objectives[*objective])
        });
        if limited.chain(compared).flatten().any(Reading::is_of_one_process) {
            return Some("no figures of several processes".to_owned());
        }
        let is_asked = |candidate: &Candidate<'_>| {
            let mut specs = candidate.configuration.cases.iter().filter_map(|case| case.spec());
            specs.any(|spec| spec.asked.is_some())
        };
        // A drift of the machine looks like a difference between cases that were measured one after the other.
        let took_turns = |candidate: &&&Candidate<'_>| {
            let mut specs = candidate.configuration.cases.iter().filter_map(|case| case.spec());
            specs.all(|spec| spec.measure.order != Order::Planned && spec.asked.is_none())
        };
        if !rivals.is_empty()
            && !winners.iter().chain(rivals.iter().copied()).all(|one| took_turns(&one))
        {
            return Some(
                match winners.iter().chain(rivals.iter().copied()).any(|one| is_asked(one)) {
                    true => "some were measured after the others, as a recommender asked for them"
                        .to_owned(),
                    false => "measured one after the other, not with `order = \"interleaved\"`"
                        .to_owned(),
                },
            );
        }
        let mut as_good: Vec<String> = Vec::new();
        for objective in objectives {
            let better = |one: f64, other: f64| self.objectives[*objective].better(one, other);
            let readings =
                winners.iter().filter_map(|winner| winner.objectives[*objective].as_ref().ok());
            let best = readings
                .reduce(|best, one| if better(one.value, best.value) { one } else { best })?;
            for rival in &rivals {
                let Ok(reading) = &rival.objectives[*objective] else { continue };
                let is_worse = better(best.value, reading.value) && differ_at(best, reading, level);
                if !is_worse && !as_good.contains(&rival.label) {
                    as_good.push(rival.label.clone());
                }
            }
        }
        match as_good.len() {
            0 => None,
            1..=MAXIMUM_NAMED => Some(format!("{} may be as good", join_with(&as_good, "or"))),
            many => Some(format!("{many} others may be as good")),
        }
    }

    /// The title's beginning if there is a single configuration to speak of.
    fn alone(&self, label: &str) -> String {
        let measured = if self.total() == 1 { "measured" } else { "that could be compared" };
        let mut title = format!("{}: {label} is the only configuration {measured}", self.name);
        if !self.limits.is_empty() {
            title.push_str(&format!(", and it meets {}", self.limits()));
        }
        title
    }

    /// Why it is not certain that the chosen ones meet the limits, in a few words.
    fn doubt_in_short(&self, winners: &[&Candidate<'a>]) -> String {
        let doubtful = winners.iter().flat_map(|winner| self.limits.iter().zip(&winner.limits));
        let mut doubtful =
            doubtful.filter(|(_, (verdict, _))| matches!(verdict, Verdict::KeptPerhaps));
        match doubtful.next() {
            Some((limit, (_, Ok(reading)))) if reading.prediction.is_some() => {
                format!("another process may miss {}", limit.text())
            }
            Some((limit, (_, Ok(reading)))) if reading.interval.is_some() => {
                format!("the interval of its {} crosses the limit", limit.name())
            }
            Some((limit, _)) => format!("its {} has no interval", limit.name()),
            None => "the limit may be missed".to_owned(),
        }
    }

    /// Returns a short text with the number of compared configurations, if not all, and of disturbed ones.
    fn compared_in_short(&self, compared: usize, disturbed: usize) -> Option<String> {
        let total = self.total();
        if compared < total {
            let which = match disturbed {
                0 => String::new(),
                all if all == compared && all == 2 => ", both disturbed".to_owned(),
                all if all == compared => ", all disturbed".to_owned(),
                some => format!(", {some} disturbed"),
            };
            return Some(format!("{compared} of {total} configurations could be compared{which}"));
        }
        match disturbed {
            0 => None,
            1 => Some(format!("1 of {total} configurations was disturbed")),
            2 if total == 2 => Some("both configurations were disturbed".to_owned()),
            all if all == total => Some(format!("all {total} configurations were disturbed")),
            some => Some(format!("{some} of {total} configurations were disturbed")),
        }
    }

    /// Number of configurations in the plan: those with results, and those without a finished case.
    fn total(&self) -> usize {
        let mut without: Vec<&Case> = Vec::new();
        for (_, case) in &self.unfinished {
            let has_results =
                |it: &Candidate<'_>| is_alike(case, it.configuration.first(), AxisRole::Choice);
            let is_known = |known: &&Case| is_alike(case, known, AxisRole::Choice);
            if !self.candidates.iter().any(has_results) && !without.iter().any(is_known) {
                without.push(case);
            }
        }
        self.candidates.len() + without.len()
    }

    /// Returns the limits that a configuration may miss.
    fn doubts(&self, candidate: &Candidate<'_>) -> Vec<String> {
        let doubtful =
            |verdict: &Verdict| matches!(verdict, Verdict::KeptPerhaps | Verdict::BrokenPerhaps);
        let pairs = self.limits.iter().zip(&candidate.limits);
        pairs
            .filter_map(|(limit, (verdict, reading))| {
                let reading = reading.as_ref().ok().filter(|_| doubtful(verdict))?;
                let why = match (reading.prediction, reading.interval) {
                    (Some((low, high)), _) => {
                        let written =
                            |value| humanise_metric(&reading.metric, value, &reading.unit);
                        format!(
                            "another process probably has a {} between {} and {}",
                            metric_name(&reading.metric),
                            written(low),
                            written(high)
                        )
                    }
                    (None, Some(_)) => {
                        format!("the interval around its {} crosses the limit", reading.text())
                    }
                    (None, None) => format!(
                        "its {} has no interval, since queries were too alike to their neighbours",
                        reading.text()
                    ),
                };
                Some(format!(
                    "Whether {} meets {} is not certain: {why}.",
                    candidate.label,
                    limit.text()
                ))
            })
            .collect()
    }

    /// Returns the differences between tied configurations.
    fn tie_break(&self, objectives: &[usize], winners: &[&Candidate<'_>]) -> String {
        let same: Vec<_> =
            objectives.iter().map(|it| metric_name(&self.objectives[*it].metric)).collect();
        let how = if winners.iter().all(|winner| {
            let of_processes = |it: &usize| {
                matches!(&winner.objectives[*it], Ok(Reading { processes: Some(_), .. }))
            };
            objectives.iter().all(of_processes)
        }) {
            "processes differ by as much"
        } else if winners.iter().all(|winner| {
            objectives
                .iter()
                .all(|it| matches!(&winner.objectives[*it], Ok(Reading { interval: Some(_), .. })))
        }) {
            "their intervals overlap"
        } else {
            "they differ by no more than 5 %"
        };
        let mut text = format!("Their {} does not differ clearly: {how}.", join(&same));
        let others = (0..self.objectives.len()).filter(|it| !objectives.contains(it));
        for other in others {
            let objective = &self.objectives[other];
            if let [best] = best(winners, other, objective)[..] {
                let label = &winners[best].label;
                text.push_str(&format!(" Of these, {label} has the {}.", objective.best()));
            }
        }
        text
    }

    /// Returns a configuration's loss of accuracy, if it is more than noise.
    fn accuracy_cost(&self, candidate: &Candidate<'a>, cases: &mut Cases) -> Vec<String> {
        let mut sentences = Vec::new();
        for (position, objective) in self.considered.iter().enumerate() {
            if !objective.metric.starts_with("accuracy.") {
                continue;
            }
            let Ok(reading) = &candidate.considered[position] else {
                sentences.push(format!(
                    "Nothing is known of the {} of {}.",
                    metric_name(&objective.metric),
                    candidate.label
                ));
                continue;
            };
            let readings = || {
                self.candidates
                    .iter()
                    .filter_map(|other| Some((other, other.considered[position].as_ref().ok()?)))
            };
            let most = readings().map(|(_, reading)| reading).reduce(|best, other| {
                if objective.better(other.value, best.value) { other } else { best }
            });
            let Some(most) = most else { continue };
            if !objective.better(most.value, reading.value) || !differ(most, reading) {
                continue;
            }
            // Of those that are as accurate as any, the one that is most like this one otherwise.
            let equals =
                readings().filter(|(_, other)| !differ(other, most) && differ(other, reading));
            let alike = equals.max_by_key(|(other, reading)| {
                (candidate.alike(other), reading.case.id == most.case.id)
            });
            let Some((other, accurate)) = alike else { continue };
            let points = (accurate.value - reading.value) * 100.0;
            sentences.push(format!(
                "{} is {points:.1} points less accurate than {}, which has {}.",
                capital(&candidate.label),
                other.label,
                accurate.text(),
            ));
            cases.add(accurate.case);
        }
        sentences
    }

    /// Returns configurations that would be better if they certainly met the limits.
    fn perhaps_better(
        &self,
        objective: usize,
        winner: &Candidate<'_>,
        perhaps: &[&Candidate<'_>],
        cases: &mut Cases,
    ) -> Vec<String> {
        let Ok(winning) = &winner.objectives[objective] else { return Vec::new() };
        let better = perhaps.iter().filter_map(|candidate| {
            let reading = candidate.objectives[objective].as_ref().ok()?;
            let better = self.objectives[objective].better(reading.value, winning.value);
            (better && differ(reading, winning)).then_some((candidate, reading))
        });
        let mut sentences = Vec::new();
        for (candidate, reading) in better {
            sentences.push(format!(
                "{} would do better: {}.",
                capital(&candidate.label),
                reading.text()
            ));
            sentences.extend(self.doubts(candidate));
            cases.candidate(candidate);
        }
        sentences
    }

    fn closest(&self, judged: &[&Candidate<'_>]) -> Recommendation {
        let closest = judged
            .iter()
            .min_by(|one, other| one.excess(self.limits).total_cmp(&other.excess(self.limits)));
        let closest = closest.expect("called with at least one");
        let missed: Vec<_> = self
            .limits
            .iter()
            .zip(&closest.limits)
            .filter(|(_, (verdict, _))| *verdict != Verdict::Kept)
            .filter_map(|(_, (_, reading))| {
                let Reading { metric, value, unit, .. } = reading.as_ref().ok()?;
                let value = humanise_metric(metric, *value, unit);
                Some(format!("{} {value}", metric_name(metric)))
            })
            .collect();
        let perhaps = judged.iter().any(|it| it.verdict() == Verdict::BrokenPerhaps);
        let is_firm = |it: &&&Candidate<'_>| {
            let readings = it.limits.iter().filter_map(|(_, reading)| reading.as_ref().ok());
            it.disturbances().next().is_none()
                && readings.into_iter().all(|it| it.processes.is_some())
        };
        let is_certain = !perhaps && judged.iter().all(|it| is_firm(&it));
        let title = format!(
            "{}: nothing {} {}; closest: {} with {}",
            self.name,
            if perhaps { "certainly meets" } else { "meets" },
            self.limits(),
            closest.label,
            join(&missed),
        );
        let mut sentences = vec![format!("{}: {}.", capital(&closest.label), closest.figures())];
        sentences.extend(self.doubts(closest));
        sentences.extend(doubtful(closest));
        let mut rests_on = Cases::default();
        rests_on.candidate(closest);
        recommendation(
            "closest",
            title,
            &sentences,
            rests_on,
            &[("model", &self.name), ("certain", if is_certain { "yes" } else { "no" })],
        )
    }

    fn front(&self, comparable: &[&Candidate<'a>]) -> Recommendation {
        let front = front(comparable, &self.objectives, self.considered);
        let labels: Vec<_> = front.iter().map(|candidate| candidate.label.clone()).collect();
        let metrics: Vec<_> =
            self.objectives.iter().map(|objective| metric_name(&objective.metric)).collect();
        let which = match labels.len() {
            0..=MAXIMUM_NAMED => join(&labels),
            many => format!("{many} configurations"),
        };
        let title = format!("{}: Pareto front by {}: {which}", self.name, join(&metrics));
        let dominated = comparable.len() - front.len();
        let others = match dominated {
            0 => "no other configuration is".to_owned(),
            1 => "1 other configuration is".to_owned(),
            _ => format!("{dominated} other configurations are"),
        };
        // A quantity of devices that none of them measured was not considered.
        let is_told = |position: usize, objective: &Objective| {
            let has = |it: &&Candidate<'_>| it.considered[position].is_ok();
            !is_of_device(&objective.metric) || comparable.iter().any(has)
        };
        let considered: Vec<_> = self
            .considered
            .iter()
            .enumerate()
            .filter(|(position, objective)| is_told(*position, objective))
            .map(|(_, objective)| metric_name(&objective.metric))
            .collect();
        let considered = match considered.is_empty() {
            true => String::new(),
            false => format!(", and by {} where it differs clearly", join(&considered)),
        };
        let mut lines = vec![format!(
            "Nothing beats one of these without a loss elsewhere, by {}{considered}; {others} dominated.",
            join(&metrics),
        )];
        let mut rests_on = Cases::default();
        let mut any_cost = false;
        for candidate in &front {
            let verdict = match candidate.verdict() {
                _ if self.limits.is_empty() => "",
                Verdict::Kept => " Within the limits.",
                Verdict::KeptPerhaps => " Within the limits, which is not certain.",
                Verdict::BrokenPerhaps => " Outside the limits, which is not certain.",
                Verdict::Broken => " Outside the limits.",
                Verdict::Unknown(_) => " Not judged by the limits.",
            };
            rests_on.candidate(candidate);
            let figures = candidate.figures();
            let mut line = format!("{}: {figures}.{verdict}", capital(&candidate.label));
            for sentence in self.accuracy_cost(candidate, &mut rests_on) {
                line.push(' ');
                line.push_str(&sentence);
                any_cost = true;
            }
            lines.push(line);
        }
        lines.extend(any_cost.then(|| UNPAIRED.to_owned()));
        let confidence = match dominated {
            0 => "as measured",
            // What dominates another is clearly better in one objective.
            _ => "95 % for each that is dominated",
        };
        let attributes = [("model", self.name.as_str()), ("confidence", confidence)];
        recommendation("front", title, &lines, rests_on, &attributes)
    }

    /// Returns the configurations that could not be judged, and why. Cases with the same reason
    /// share a sentence.
    fn not_judged(&self) -> Option<Recommendation> {
        let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut rests_on = Cases::default();
        let mut configurations: Vec<&Case> = Vec::new();
        let mut count = |case: &'a Case| {
            if !configurations.iter().any(|known| is_alike(known, case, AxisRole::Choice)) {
                configurations.push(case);
            }
        };
        for candidate in &self.candidates {
            if candidate.broken_below(self.limits).is_some() {
                continue;
            }
            let reason = match (candidate.unknown(), candidate.verdict()) {
                (Some(reason), _) => reason.to_owned(),
                (None, Verdict::Unknown(reason)) => reason,
                _ => continue,
            };
            count(candidate.configuration.first());
            reasons.entry(reason).or_default().push(candidate.label.clone());
            rests_on.candidate(candidate);
        }
        for (label, case) in &self.unfinished {
            rests_on.add(case);
            // A failure has ruled out its whole configuration, which is counted above.
            let failed = matches!(case.record.outcome, Outcome::Failed { .. });
            let is_of =
                |it: &Candidate<'_>| is_alike(case, it.configuration.first(), AxisRole::Choice);
            if failed && self.candidates.iter().any(is_of) {
                continue;
            }
            count(case);
            let reason = case.reason().map(|(_, reason)| reason).unwrap_or_default();
            reasons.entry(reason).or_default().push(label.clone());
        }
        let labels: Vec<_> = reasons.values().flatten().cloned().collect();
        let which = match labels.len() {
            0 => return None,
            1..=MAXIMUM_NAMED => join(&labels),
            _ if configurations.len() == 1 => "1 configuration".to_owned(),
            _ => format!("{} configurations", configurations.len()),
        };
        let title = if self.candidates.is_empty() {
            format!("{}: nothing could be measured", self.name)
        } else {
            format!("{}: {which} could not be judged", self.name)
        };
        let sentences: Vec<_> = reasons
            .iter()
            .map(|(reason, labels)| {
                format!("{}: {}.", capital(&labels.join("; ")), reason.trim_end_matches('.'))
            })
            .collect();
        Some(recommendation("not-judged", title, &sentences, rests_on, &[("model", &self.name)]))
    }
}

/// Positions of the best candidates in an objective: the best by value, and those that do not
/// differ clearly from it.
fn best(candidates: &[&Candidate<'_>], position: usize, objective: &Objective) -> Vec<usize> {
    let readings: Vec<_> = candidates
        .iter()
        .enumerate()
        .filter_map(|(index, candidate)| {
            Some((index, candidate.objectives[position].as_ref().ok()?))
        })
        .collect();
    let best = readings.iter().copied().reduce(|best, other| {
        if objective.better(other.1.value, best.1.value) { other } else { best }
    });
    let Some((winner, best)) = best else { return Vec::new() };
    let ties =
        readings.iter().filter(|(index, reading)| *index == winner || !differ(reading, best));
    ties.map(|(index, _)| *index).collect()
}

/// Returns the name of a configuration among those of its workload; all of it if nothing differs.
fn name(case: &Case, labels: &Labels) -> String {
    let label = labels.label(case);
    if label != case.key.model {
        return label;
    }
    let axes = Axis::ALL.iter().filter(|axis| axis.role() == AxisRole::Choice);
    axes.filter_map(|axis| axis.labelled(&case.key)).collect::<Vec<_>>().join(" · ")
}

/// Returns the warnings of its cases, in one sentence.
fn doubtful(candidate: &Candidate<'_>) -> Option<String> {
    let mut seen = BTreeSet::new();
    let cases = candidate.readings().into_iter().map(|reading| reading.case);
    // Each process of a case may warn of the same: the first says what, and the others are counted.
    let mut found: Vec<(WarningKind, &str, &Warning, usize)> = Vec::new();
    for case in cases.filter(|case| seen.insert(&case.id)) {
        for warning in &case.warnings {
            let (kind, scenario) = (warning.kind(), case.key.scenario.name());
            match found.iter_mut().find(|(of, at, ..)| (*of, *at) == (kind, scenario)) {
                Some((.., further)) => *further += 1,
                None => found.push((kind, scenario, warning, 0)),
            }
        }
    }
    let warnings: Vec<_> = found
        .into_iter()
        .map(|(kind, scenario, warning, further)| match further {
            0 => format!("{kind} in {scenario} ({warning})"),
            _ => format!("{kind} in {scenario} ({warning}; and {further} more)"),
        })
        .collect();
    let text = join(&warnings);
    (!text.is_empty()).then(|| format!("Take {} with care: {text}.", candidate.label))
}

/// Ids of cases, each once, in the order in which they were named.
#[derive(Debug, Default)]
struct Cases(Vec<String>);

impl Cases {
    fn add(&mut self, case: &Case) {
        if !self.0.contains(&case.id) {
            self.0.push(case.id.clone());
        }
    }

    fn candidate(&mut self, candidate: &Candidate<'_>) {
        let readings = candidate.readings();
        readings.iter().for_each(|reading| self.add(reading.case));
        let elsewhere = readings.iter().filter_map(|reading| reading.elsewhere);
        elsewhere.for_each(|(case, _)| self.add(case));
        if readings.is_empty() {
            candidate.configuration.cases.iter().for_each(|case| self.add(case));
        }
    }
}

fn recommendation(
    kind: &str,
    title: String,
    lines: &[String],
    cases: Cases,
    attributes: &[(&str, &str)],
) -> Recommendation {
    let kind = [("kind", kind)];
    let attributes = attributes.iter().chain(&kind);
    Recommendation {
        title,
        explanation: lines.join("\n"),
        cases: cases.0,
        attributes: attributes
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
    }
}

fn join(words: &[String]) -> String {
    join_with(words, "and")
}

fn join_with(words: &[String], word: &str) -> String {
    match words {
        [] => String::new(),
        [single] => single.clone(),
        [words @ .., last] => format!("{} {word} {last}", words.join(", ")),
    }
}

/// Returns the text with an initial capital if it begins with a word of ours; names of models and
/// backends are left as their owners write them.
fn capital(text: &str) -> String {
    match text.strip_prefix("batch ") {
        Some(rest) => format!("Batch {rest}"),
        None => text.to_owned(),
    }
}
