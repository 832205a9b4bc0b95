/*!
The charts of a run, as values: what they show and in which order.

Each chart has all cases. Those that matter most come first, since only some can be told apart without scripts: cases that
a recommender chose, then those with the lowest median.
*/

use std::collections::{BTreeMap, BTreeSet};

use host_page::{
    Axis, AxisKind, Chart, Figure, Kind, Mark, Point, Series, anchor, humanise, significant,
};
use host_record::{Axis as CaseAxis, AxisRole, Gap, Learning, Peaks, Scenario};
use maud::html;

use crate::training::learning;
use crate::{Case, Configuration, Labels, Run, Span, configurations};

/// Limit on the figures of a section that are drawn without scripts.
const MAXIMUM_FIGURES: usize = 3;

/// Points of a latency's distribution that are drawn.
const MOST_QUANTILES: usize = 36;

/// Cases of a model whose time is drawn: those that are chosen, then those with warnings.
const MOST_TIMELINES: usize = 24;

/// Percentiles that have a mark, with the metrics that state them.
const MARKED: [(f64, &str); 4] =
    [(0.5, "latency.p50"), (0.9, "latency.p90"), (0.99, "latency.p99"), (0.999, "latency.p99.9")];

/// Steps of training that are drawn; of more, each point is the mean of several.
const MOST_STEPS: usize = 600;

/// Metrics of the mean time of a phase of training.
const PHASE: &str = "training.phase.";

/// A run, prepared for drawing.
pub struct Drawing<'a> {
    run: &'a Run,
    labels: Labels,
    models: Vec<&'a str>,
    /// Places of cases that a recommender chose, without those that it compared them with.
    chosen: BTreeSet<usize>,
    /// Places of cases in the run, by their ids.
    places: BTreeMap<&'a str, usize>,
}

/// A case with its place in the run.
type Placed<'a> = (usize, &'a Case);

impl<'a> Drawing<'a> {
    /// Prepares a run for drawing.
    #[must_use]
    pub fn new(run: &'a Run) -> Self {
        let places: BTreeMap<&str, usize> =
            run.cases.iter().enumerate().map(|(place, case)| (&*case.id, place)).collect();
        let texts =
            run.advice.iter().filter_map(|advice| advice.recommendation.attributes.get("chosen"));
        let chosen = texts.flat_map(|ids| ids.split(' ')).filter_map(|id| places.get(id).copied());
        let mut models: Vec<&str> = Vec::new();
        for case in &run.cases {
            if !models.contains(&&*case.key.model) {
                models.push(&case.key.model);
            }
        }
        Self { run, labels: Labels::new(&run.cases), models, chosen: chosen.collect(), places }
    }

    /// Returns the names of its cases.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns the place of a case.
    #[must_use]
    pub fn place(&self, id: &str) -> Option<usize> {
        self.places.get(id).copied()
    }

    /// Returns the figures of all kinds.
    #[must_use]
    pub fn all(&self) -> Vec<Figure> {
        let kinds = [
            self.distributions(),
            self.batches(),
            self.trades(),
            self.hardware(),
            self.architectures(),
            self.rooflines(),
            self.training(),
            self.timelines(),
            self.histories(),
        ];
        kinds.into_iter().flatten().collect()
    }

    fn cases(&self) -> impl Iterator<Item = Placed<'a>> + use<'a> {
        self.run.cases.iter().enumerate()
    }

    fn finished(&self, model: &str) -> Vec<Placed<'a>> {
        self.cases().filter(|(_, case)| case.key.model == model && case.is_finished()).collect()
    }

    /// Returns a figure for each model that has something to draw.
    fn for_each_model(&self, section: &str, charts: impl Fn(&str) -> Vec<Chart>) -> Vec<Figure> {
        let several = self.models.len() > 1;
        let figures = self.models.iter().enumerate().map(|(place, model)| Figure {
            id: format!("{section}-{place}"),
            heading: several.then(|| (*model).to_owned()),
            caption: None,
            charts: charts(model),
            is_static: true,
        });
        settled(figures)
    }

    /// Returns cases, the most important first: those that are chosen, then those with the lowest median.
    fn ranked(&self, mut cases: Vec<Placed<'a>>) -> Vec<Placed<'a>> {
        let median = |case: &Case| {
            let above = case.quantiles.iter().find(|(quantile, _)| *quantile >= 0.5);
            above.map_or(i64::MAX, |(_, latency)| *latency)
        };
        cases.sort_by_key(|(place, case)| (!self.chosen.contains(place), median(case), *place));
        cases
    }

    /// Returns latency by the share of queries that took at most this long.
    #[must_use]
    pub fn distributions(&self) -> Vec<Figure> {
        self.for_each_model("distribution", |model| {
            let drawable = |case: &Case| case.quantiles.iter().any(|(_, latency)| *latency > 0);
            let all: Vec<_> =
                self.finished(model).into_iter().filter(|(_, case)| drawable(case)).collect();
            // An offline query is many batches at once.
            let is_batch = |(_, case): &Placed<'_>| case.key.scenario != Scenario::Offline;
            let any = all.iter().any(is_batch);
            let cases: Vec<_> = all.into_iter().filter(|it| !any || is_batch(it)).collect();
            let labels = Labels::new(cases.iter().map(|(_, case)| *case));
            let mut series = Vec::new();
            for (group, (place, case)) in self.ranked(cases).into_iter().enumerate() {
                let name = labels.label(case);
                let curve = curve(case).into_iter().map(|(depth, latency)| Point {
                    case: Some(place),
                    ..Point::new(depth, latency)
                });
                series
                    .push(Series { marked: false, ..Series::line(&name, group, curve.collect()) });
                let stated = MARKED.iter().filter_map(|(quantile, metric)| {
                    let (value, interval) = stated(case, metric, "ns")?;
                    Some(Point::of_case(depth(*quantile), value, interval, place))
                });
                series.push(Series::points(&name, group, stated.collect()));
            }
            series.retain(|series| !series.points.is_empty());
            vec![Chart {
                title: format!("Latency distribution of {model}"),
                kind: Kind::Points,
                x: Axis::new("share of queries that took at most this long", "1", AxisKind::Nines),
                y: Axis::new("latency", "ns", AxisKind::Logarithmic),
                series,
                marks: Vec::new(),
            }]
        })
    }

    /// Returns a model's finished cases in series, and the names of these: cases of a series differ only in batch size and
    /// load.
    fn series(&self, model: &str) -> Vec<(String, Vec<Placed<'a>>)> {
        let mut groups: Vec<Vec<Placed<'_>>> = Vec::new();
        for (place, case) in self.finished(model) {
            match groups.iter_mut().find(|group| is_same_series(group[0].1, case)) {
                Some(group) => group.push((place, case)),
                None => groups.push(vec![(place, case)]),
            }
        }
        let labels = Labels::new(groups.iter().map(|group| group[0].1))
            .without(CaseAxis::Batch)
            .without(CaseAxis::Scenario);
        groups.into_iter().map(|cases| (labels.label(cases[0].1), cases)).collect()
    }

    /// Returns latency, throughput and memory against batch size.
    #[must_use]
    pub fn batches(&self) -> Vec<Figure> {
        type Line = (&'static str, Scenario, &'static str, bool);
        const LATENCY: &[Line] = &[
            ("latency.p99", Scenario::SingleStream, "p99", false),
            ("latency.p50", Scenario::SingleStream, "p50", true),
        ];
        const THROUGHPUT: &[Line] = &[
            ("throughput.samples", Scenario::Offline, "offline", false),
            ("throughput.samples", Scenario::SingleStream, "single-stream", true),
        ];
        const MEMORY: &[Line] = &[
            ("memory.device-peak", Scenario::SingleStream, "device", false),
            ("memory.peak", Scenario::SingleStream, "process", true),
        ];
        self.for_each_model("batch", |model| {
            let groups = self.series(model);
            let chart = |title: &str, lines: &[Line], y: Axis| {
                let mut series = Vec::new();
                for (group, (name, cases)) in groups.iter().enumerate() {
                    for (metric, scenario, line, lesser) in lines {
                        let mut points: Vec<_> = cases
                            .iter()
                            .filter(|(_, case)| {
                                case.key.scenario == *scenario && case.key.batch > 0
                            })
                            .filter_map(|(place, case)| {
                                let (value, interval) = stated(case, metric, &y.unit)?;
                                let batch = f64::from(case.key.batch);
                                let mut point = Point::of_case(batch, value, interval, *place);
                                point.name = Some(format!("{name}, batch {batch}"));
                                Some(point)
                            })
                            .collect();
                        points.sort_by(|one, other| one.x.total_cmp(&other.x));
                        let line = Some(*line);
                        series.push(Series {
                            line,
                            lesser: *lesser,
                            ..Series::line(name, group, points)
                        });
                    }
                }
                series.retain(|series| !series.points.is_empty());
                let batches: BTreeSet<u64> = series
                    .iter()
                    .flat_map(|series| &series.points)
                    .map(|point| point.x as u64)
                    .collect();
                (batches.len() > 1).then(|| Chart {
                    title: format!("{title} against batch size of {model}"),
                    kind: Kind::Points,
                    x: Axis::new("batch size", "1", AxisKind::Sizes),
                    y,
                    series,
                    marks: Vec::new(),
                })
            };
            let charts = [
                chart("Latency", LATENCY, Axis::new("latency", "ns", AxisKind::Logarithmic)),
                chart(
                    "Throughput",
                    THROUGHPUT,
                    Axis::new("samples per second", "1/s", AxisKind::Fitting),
                ),
                chart("Memory", MEMORY, Axis::new("peak memory", "B", AxisKind::Fitting)),
            ];
            charts.into_iter().flatten().collect()
        })
    }

    /// Returns throughput over p99 latency, a point for each configuration, with the line of those that no other one beats
    /// in both.
    #[must_use]
    pub fn trades(&self) -> Vec<Figure> {
        let configurations = configurations(self.run);
        self.for_each_model("trade", |model| {
            let groups = self.series(model);
            let points: Vec<(usize, Point)> = configurations
                .iter()
                .filter(|configuration| configuration.first().key.model == model)
                .filter_map(|configuration| self.trade(configuration, &groups))
                .collect();
            if points.len() < 3 {
                return Vec::new();
            }
            let all: Vec<&Point> = points.iter().map(|(_, point)| point).collect();
            let front = front(&all).into_iter().map(|index| Point::new(all[index].x, all[index].y));
            let mut series = vec![Series::reference("not beaten in both", front.collect())];
            series.extend(groups.iter().enumerate().map(|(group, (name, _))| {
                let own =
                    points.iter().filter(|(of, _)| *of == group).map(|(_, point)| point.clone());
                Series::points(name, group, own.collect())
            }));
            series.retain(|series| !series.points.is_empty());
            vec![Chart {
                title: format!("Throughput against p99 latency of {model}"),
                kind: Kind::Points,
                x: Axis::new("p99 latency", "ns", AxisKind::Logarithmic),
                y: Axis::new("samples per second", "1/s", AxisKind::Fitting),
                series,
                marks: Vec::new(),
            }]
        })
    }

    fn trade(
        &self,
        configuration: &Configuration<'_>,
        groups: &[(String, Vec<Placed<'_>>)],
    ) -> Option<(usize, Point)> {
        let first = configuration.first();
        let group = groups.iter().position(|(_, cases)| is_same_series(cases[0].1, first))?;
        let value = |metric: &str, unit: &str| {
            let (case, result) = configuration.result_in(Scenario::SingleStream, metric)?;
            let value = result.value.as_ref().ok().copied()?;
            (result.unit == unit && value > 0.0).then_some((case, value))
        };
        let ((case, latency), (_, throughput)) =
            (value("latency.p99", "ns")?, value("throughput.samples", "1/s")?);
        let is_chosen =
            |case: &&Case| self.place(&case.id).is_some_and(|place| self.chosen.contains(&place));
        Some((
            group,
            Point {
                case: self.place(&case.id),
                label: Some(first.key.batch.to_string()),
                name: Some(name_of(configuration)),
                chosen: configuration.cases.iter().any(is_chosen),
                ..Point::new(latency, throughput)
            },
        ))
    }

    /// Returns the best that each place reaches: a place is a backend with a device.
    #[must_use]
    pub fn hardware(&self) -> Vec<Figure> {
        let places = self.hardware_places();
        if places.len() < 2 {
            return Vec::new();
        }
        self.for_each_model("hardware", |model| {
            let cases = self.finished(model);
            let precisions: Vec<String> =
                distinct(cases.iter().map(|(_, case)| case.key.precision.to_string()));
            let charts = BEST.iter().map(|best| {
                let series = precisions.iter().enumerate().map(|(group, precision)| {
                    let points = places.iter().enumerate().filter_map(|(row, place)| {
                        let of = |(_, case): &&Placed<'a>| {
                            self.hardware_place(case) == *place
                                && case.key.precision.to_string() == *precision
                        };
                        self.best(best, cases.iter().filter(of).copied(), row)
                    });
                    Series::points(precision, group, points.collect())
                });
                best.chart(
                    &format!("by hardware: {model}"),
                    "hardware",
                    places.clone(),
                    series.collect(),
                )
            });
            charts.filter(|chart| rows(chart) > 1).collect()
        })
    }

    /// Returns the best that each model reaches on each place.
    #[must_use]
    pub fn architectures(&self) -> Vec<Figure> {
        if self.models.len() < 2 {
            return Vec::new();
        }
        let names: Vec<String> = self.models.iter().map(|model| (*model).to_owned()).collect();
        let kind = |case: &Case| format!("{} {}", self.hardware_place(case), case.key.precision);
        let all: Vec<Placed<'_>> = self.cases().filter(|(_, case)| case.is_finished()).collect();
        let kinds = distinct(all.iter().map(|(_, case)| kind(case)));
        let charts = BEST.iter().map(|best| {
            let series = kinds.iter().enumerate().map(|(group, name)| {
                let points = self.models.iter().enumerate().filter_map(|(row, model)| {
                    let of =
                        |(_, case): &&Placed<'a>| case.key.model == *model && kind(case) == *name;
                    self.best(best, all.iter().filter(of).copied(), row)
                });
                Series::points(name, group, points.collect())
            });
            let mut series: Vec<Series> = series.collect();
            series.retain(|series| !series.points.is_empty());
            best.chart("by architecture", "architecture", names.clone(), series)
        });
        let figure = Figure {
            id: "architectures".into(),
            heading: None,
            caption: None,
            charts: charts.filter(|chart| rows(chart) > 1).collect(),
            is_static: true,
        };
        settled([figure].into_iter())
    }

    fn hardware_places(&self) -> Vec<String> {
        distinct(
            self.cases()
                .filter(|(_, case)| case.is_finished())
                .map(|(_, case)| self.hardware_place(case)),
        )
    }

    /// Returns the name of a backend, with its device if it has several.
    fn hardware_place(&self, case: &Case) -> String {
        let key = &case.key;
        let is_other =
            |other: &Case| other.key.backend == key.backend && other.key.device != key.device;
        match self.run.cases.iter().any(is_other) {
            true => format!("{} {}", key.backend, key.device),
            false => key.backend.clone(),
        }
    }

    fn best(
        &self,
        best: &Best,
        cases: impl Iterator<Item = Placed<'a>>,
        row: usize,
    ) -> Option<Point> {
        let values =
            cases.filter(|(_, case)| best.scenario.is_none_or(|it| case.key.scenario == it));
        let values =
            values.filter_map(|(place, case)| Some((place, stated(case, best.metric, best.unit)?)));
        let ((place, (value, interval)), _) = values
            .map(|found| (found, if best.is_highest { -found.1.0 } else { found.1.0 }))
            .min_by(|one, other| one.1.total_cmp(&other.1))?;
        let mut point = Point::of_case(row as f64, value, interval, place);
        point.name = Some(self.labels.label(&self.run.cases[place]));
        Some(point)
    }

    /// Returns cases under the roofs of their devices, a figure for each device and format of numbers.
    #[must_use]
    pub fn rooflines(&self) -> Vec<Figure> {
        let mut roofs: Vec<(&Peaks, &str, Vec<Placed<'_>>)> = Vec::new();
        for (place, case) in self.cases() {
            let peaks =
                case.report().and_then(|report| report.conditions.peaks.as_ref()?.as_ref().ok());
            let device = case.spec().map_or("", |spec| spec.device.name.as_str());
            let Some(peaks) = peaks else { continue };
            match roofs.iter_mut().find(|(known, name, _)| *known == peaks && *name == device) {
                Some((.., cases)) => cases.push((place, case)),
                None => roofs.push((peaks, device, vec![(place, case)])),
            }
        }
        let figures = roofs.into_iter().enumerate().map(|(index, (peaks, device, cases))| {
            let title = format!("Roofline of {device} in {}", peaks.format);
            Figure {
                id: format!("roofline-{index}"),
                heading: Some(title.clone()),
                caption: Some(html! { "Peaks are " (peaks.source.to_string()) ". Numbers beside points are batch sizes." }),
                charts: self.roofline(title, peaks, &cases).into_iter().collect(),
                is_static: true,
            }
        });
        settled(figures)
    }

    fn roofline(&self, title: String, peaks: &Peaks, cases: &[Placed<'_>]) -> Option<Chart> {
        let names = self.labels.clone().without(CaseAxis::Batch);
        let known = |peak: &Result<f64, Gap>| peak.as_ref().ok().copied();
        let roof = Roof {
            compute: known(&peaks.flops_per_second),
            bandwidth: known(&peaks.bytes_per_second),
        };
        let mut groups: Vec<(String, Vec<Point>)> = Vec::new();
        for (place, case) in cases {
            let values = (case.value("model.intensity"), case.value("model.compute"));
            let (Some(intensity), Some(compute)) = values else { continue };
            if intensity <= 0.0 || compute <= 0.0 {
                continue;
            }
            let part = significant(100.0 * compute / roof.at(intensity), 2);
            let point = Point {
                label: Some(case.key.batch.to_string()),
                name: Some(format!("{}, {part} % of the roof", self.labels.label(case))),
                ..Point::of_case(intensity, compute, None, *place)
            };
            let name = names.label(case);
            match groups.iter_mut().find(|(known, _)| *known == name) {
                Some((_, points)) => points.push(point),
                None => groups.push((name, vec![point])),
            }
        }
        let loads: Vec<&Point> = groups.iter().flat_map(|(_, points)| points).collect();
        let line = roof.line(&loads)?;
        let mut series = vec![Series::reference("peak of the device", line)];
        let groups = groups.into_iter().enumerate();
        series.extend(groups.map(|(group, (name, points))| Series::points(name, group, points)));
        Some(Chart {
            title,
            kind: Kind::Points,
            x: Axis::new("arithmetic intensity (FLOP/B)", "1", AxisKind::Logarithmic),
            y: Axis::new("operations per second", "FLOP/s", AxisKind::Logarithmic),
            series,
            marks: Vec::new(),
        })
    }

    /// Returns latency over time with the warm-up, and clocks over the same time.
    #[must_use]
    pub fn timelines(&self) -> Vec<Figure> {
        self.for_each_model("timeline", |model| {
            let cases: Vec<_> = self
                .finished(model)
                .into_iter()
                .filter(|(_, case)| !case.timeline.is_empty())
                .collect();
            let labels = Labels::new(cases.iter().map(|(_, case)| *case));
            let (mut latency, mut clocks) = (Vec::new(), Vec::new());
            let mut ranked = self.ranked(cases);
            // Those with warnings are looked at most.
            ranked.sort_by_key(|(place, case)| {
                (!self.chosen.contains(place), case.warnings.is_empty())
            });
            for (group, (place, case)) in ranked.into_iter().take(MOST_TIMELINES).enumerate() {
                let name = labels.label(case);
                let line = |of: &dyn Fn(&Span) -> Option<f64>| -> Vec<Point> {
                    let points = case.timeline.iter().filter_map(|span| {
                        Some(Point {
                            case: Some(place),
                            ..Point::new(span.middle_ns / 1e9, of(span)?)
                        })
                    });
                    points.collect()
                };
                let bare = |line, lesser, points| Series {
                    line: Some(line),
                    lesser,
                    marked: false,
                    ..Series::line(&name, group, points)
                };
                latency.push(bare("median", false, line(&|span| Some(span.median_ns as f64))));
                latency.push(bare("slowest", true, line(&|span| Some(span.most_ns as f64))));
                clocks.push(bare("device", false, line(&|span| span.device_clock_hertz)));
                clocks.push(bare("processor", true, processor_clock(case, place)));
            }
            let marks = vec![Mark { x: 0.0, name: "measuring begins".into(), strong: false }];
            let chart = |title: &str, y: Axis, mut series: Vec<Series>| {
                series.retain(|series| !series.points.is_empty());
                Chart {
                    title: format!("{title} of {model}"),
                    kind: Kind::Points,
                    x: Axis::new("time since measuring began", "s", AxisKind::Around),
                    y,
                    series,
                    marks: marks.clone(),
                }
            };
            vec![
                chart(
                    "Latency over time",
                    Axis::new("latency", "ns", AxisKind::Logarithmic),
                    latency,
                ),
                chart("Clocks over time", Axis::new("clock", "Hz", AxisKind::Fitting), clocks),
            ]
        })
    }

    /// Returns the values of cases in this run and in earlier ones.
    #[must_use]
    pub fn histories(&self) -> Vec<Figure> {
        self.for_each_model("history", |model| {
            let cases: Vec<_> = self
                .finished(model)
                .into_iter()
                .filter(|(_, case)| case.history.len() > 1)
                .collect();
            let metrics = distinct(cases.iter().map(|(_, case)| case.history[0].metric.clone()));
            let charts = metrics.iter().map(|metric| {
                let own: Vec<_> = cases
                    .iter()
                    .copied()
                    .filter(|(_, case)| case.history[0].metric == *metric)
                    .collect();
                let unit = own.first().map_or("1", |(_, case)| &case.history[0].unit);
                let mut runs: Vec<(&str, String)> = Vec::new();
                for past in own.iter().flat_map(|(_, case)| &case.history) {
                    let date = past.started_at.get(..10).unwrap_or(&past.started_at);
                    let commit = past
                        .git_commit
                        .as_deref()
                        .map_or("", |commit| commit.get(..8).unwrap_or(commit));
                    runs.push((&past.started_at, format!("{date} {commit}").trim_end().to_owned()));
                }
                runs.sort();
                runs.dedup_by(|one, other| one.0 == other.0);
                let labels = Labels::new(own.iter().map(|(_, case)| *case));
                let series =
                    self.ranked(own).into_iter().enumerate().map(|(group, (place, case))| {
                        let points = case.history.iter().filter_map(|past| {
                            let at = runs.iter().position(|(run, _)| *run == past.started_at)?;
                            let change = past.change.map(|ratio| {
                                format!(
                                    "{}: {:+.1} % from here on",
                                    labels.label(case),
                                    100.0 * (ratio - 1.0)
                                )
                            });
                            Some(Point {
                                chosen: change.is_some(),
                                name: change,
                                ..Point::of_case(at as f64, past.value, past.interval, place)
                            })
                        });
                        Series::line(labels.label(case), group, points.collect())
                    });
                Chart {
                    title: format!("{metric} of {model} over runs"),
                    kind: Kind::Points,
                    x: Axis::names("run", runs.iter().map(|(_, name)| name.clone()).collect()),
                    y: Axis::new(metric, unit, AxisKind::Fitting),
                    series: series.collect(),
                    marks: Vec::new(),
                }
            });
            charts.collect()
        })
    }

    /// Returns a figure of the steps of training over those of inference, and one for each trained case.
    #[must_use]
    pub fn training(&self) -> Vec<Figure> {
        let trained: Vec<_> = self.cases().filter(|(_, case)| is_trained(case)).collect();
        let ratios: Vec<_> = trained
            .iter()
            .filter_map(|(place, case)| {
                Some((*place, *case, stated(case, "scaling.training-to-inference", "1")?))
            })
            .collect();
        let names = ratios.iter().map(|(_, case, _)| self.labels.label(case)).collect();
        let points = ratios.iter().enumerate().map(|(row, (place, _, (value, interval)))| {
            Point::of_case(row as f64, *value, *interval, *place)
        });
        let against = Figure {
            id: "training-against-inference".into(),
            heading: None,
            caption: None,
            charts: vec![Chart {
                title: "A step of training over a pass of inference".into(),
                kind: Kind::Bars,
                x: Axis::names("case", names),
                y: Axis::new("times as long", "1", AxisKind::FromZero),
                series: vec![Series::points("training over inference", 0, points.collect())],
                marks: Vec::new(),
            }],
            is_static: true,
        };
        let of_cases = trained.iter().map(|(place, case)| self.trained(*place, case));
        settled([against].into_iter().chain(of_cases))
    }

    fn trained(&self, place: usize, case: &Case) -> Figure {
        let name = self.labels.label(case);
        let ratio = case.result("scaling.training-to-inference");
        let pass = ratio
            .and_then(|ratio| self.run.case(ratio.attributes.get("baseline")?))
            .and_then(|inference| per_batch(inference, "throughput.samples"));
        let mut charts = vec![steps(&format!("Phases of a step: {name}"), place, case, pass)];
        if let Some(learning) = learning(case) {
            charts.extend([loss(&name, learning), accuracy(&name, learning)]);
        }
        Figure {
            id: anchor("training", &case.id),
            heading: Some(name),
            caption: Some(crate::training::caption(case)),
            charts,
            is_static: true,
        }
    }
}

/// Keeps figures that have something to draw, and draws the first ones without scripts.
fn settled(figures: impl Iterator<Item = Figure>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = figures.filter(|figure| !figure.is_empty()).collect();
    for figure in figures.iter_mut().skip(MAXIMUM_FIGURES) {
        figure.is_static = false;
    }
    figures
}

fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// Returns the number of rows that have a bar.
fn rows(chart: &Chart) -> usize {
    let rows = chart.series.iter().flat_map(|series| &series.points).map(|point| point.x as usize);
    rows.collect::<BTreeSet<_>>().len()
}

/// A figure by which places are compared: the best of all batch sizes and loads.
struct Best {
    title: &'static str,
    metric: &'static str,
    unit: &'static str,
    axis: &'static str,
    /// The scenario in which it means something; all if `None`.
    scenario: Option<Scenario>,
    is_highest: bool,
}

const BEST: &[Best] = &[
    Best {
        title: "Highest throughput",
        metric: "throughput.samples",
        unit: "1/s",
        axis: "samples per second",
        scenario: None,
        is_highest: true,
    },
    Best {
        title: "Lowest median latency",
        metric: "latency.p50",
        unit: "ns",
        axis: "median latency",
        scenario: Some(Scenario::SingleStream),
        is_highest: false,
    },
    Best {
        title: "Least energy of the device per sample",
        metric: "energy.device-per-sample",
        unit: "J",
        axis: "energy per sample",
        scenario: None,
        is_highest: false,
    },
];

impl Best {
    fn chart(&self, title: &str, rows: &str, names: Vec<String>, series: Vec<Series>) -> Chart {
        Chart {
            title: format!("{} {title}", self.title),
            kind: Kind::Bars,
            x: Axis::names(rows, names),
            y: Axis::new(self.axis, self.unit, AxisKind::FromZero),
            series,
            marks: Vec::new(),
        }
    }
}

/// Returns a value that a metric states, with its interval.
fn stated(case: &Case, metric: &str, unit: &str) -> Option<(f64, Option<(f64, f64)>)> {
    let result = case.result(metric).filter(|result| result.unit == unit)?;
    let value = result.value.as_ref().ok().copied().filter(|value| *value > 0.0)?;
    Some((value, result.interval))
}

/// Returns the depth in the tail: 0 for the fastest, 1 for 90 %, 2 for 99 %.
fn depth(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

/// Returns points of a case's distribution: depth and latency in nanoseconds. The largest latency is that of every
/// quantile above 1 − 1/n, so it is drawn there.
fn curve(case: &Case) -> Vec<(f64, f64)> {
    let queries = case.queries.unwrap_or(0).max(1) as f64;
    let deepest = depth(1.0 - 1.0 / queries);
    let points = case.quantiles.iter().filter(|(_, latency)| *latency > 0);
    let all: Vec<(f64, f64)> = points
        .map(|(quantile, latency)| {
            let at = if *quantile >= 1.0 { deepest } else { depth(*quantile).min(deepest) };
            (at, *latency as f64)
        })
        .collect();
    let Some((end, _)) = all.last().copied() else { return all };
    // As many as a line needs, evenly along the axis.
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for (index, point) in all.iter().enumerate() {
        let is_far = kept.last().is_none_or(|last| point.0 - last.0 >= end / MOST_QUANTILES as f64);
        if is_far || index + 1 == all.len() {
            kept.push(*point);
        }
    }
    kept
}

/// Returns whether two cases belong to one series of a chart: they are equal except for batch size and load.
fn is_same_series(one: &Case, other: &Case) -> bool {
    let axes = CaseAxis::ALL.iter().filter(|axis| axis.role() != AxisRole::Load);
    axes.filter(|axis| **axis != CaseAxis::Batch)
        .all(|axis| axis.of(&one.key) == axis.of(&other.key))
}

/// Returns the name of a configuration, which has no load.
fn name_of(configuration: &Configuration<'_>) -> String {
    let key = &configuration.first().key;
    let axes = CaseAxis::shown()
        .filter(|axis| *axis != CaseAxis::Scenario && !axis.goes_without_saying(key));
    let words: Vec<_> = axes.filter_map(|axis| axis.labelled(key)).collect();
    words.join(" · ")
}

/// Returns the positions of the points that no other one beats in both, by rising latency.
fn front(points: &[&Point]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|one, other| {
        let (one, other) = (points[*one], points[*other]);
        one.x.total_cmp(&other.x).then(other.y.total_cmp(&one.y))
    });
    let mut best = f64::NEG_INFINITY;
    order.retain(|index| {
        let better = points[*index].y > best;
        best = best.max(points[*index].y);
        better
    });
    order
}

/// Peaks of a device, each if it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Roof {
    /// Operations for each second.
    compute: Option<f64>,
    /// Bytes for each second.
    bandwidth: Option<f64>,
}

impl Roof {
    /// Returns the most operations for each second at an intensity.
    fn at(&self, intensity: f64) -> f64 {
        let of_memory = self.bandwidth.map_or(f64::INFINITY, |bandwidth| bandwidth * intensity);
        self.compute.map_or(of_memory, |compute| of_memory.min(compute))
    }

    /// Returns the intensity from which arithmetic is the limit.
    fn ridge(&self) -> Option<f64> {
        Some(self.compute? / self.bandwidth?)
    }

    /// Returns the corners of the roof over these cases, with the peaks' names; `None` without a roof or a case. The slope
    /// begins below the lowest case.
    fn line(&self, loads: &[&Point]) -> Option<Vec<Point>> {
        if loads.is_empty() || (self.compute.is_none() && self.bandwidth.is_none()) {
            return None;
        }
        let ends = |of: fn(&Point) -> f64| {
            let values = loads.iter().map(|load| of(load));
            values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
                (low.min(value), high.max(value))
            })
        };
        let ((left, right), (bottom, _)) = (ends(|load| load.x), ends(|load| load.y));
        let begin = self.bandwidth.map_or(left, |bandwidth| left.max(bottom / bandwidth));
        let end = self.ridge().map_or(right, |ridge| right.max(ridge * 1.5));
        let ridge = self.ridge().filter(|ridge| *ridge > begin);
        let middle = self.bandwidth.map(|_| (begin * ridge.unwrap_or(end)).sqrt());
        let corner = |intensity: f64, label: Option<String>| Point {
            label,
            ..Point::new(intensity, self.at(intensity))
        };
        let slope = self.bandwidth.map(|bandwidth| humanise(bandwidth, "B/s"));
        let level = self.compute.map(|compute| format!("peak {}", humanise(compute, "FLOP/s")));
        let corners = [
            Some(corner(begin, None)),
            middle.filter(|middle| *middle > begin).map(|middle| corner(middle, slope)),
            ridge.map(|ridge| corner(ridge, None)),
            Some(corner(end, level)),
        ];
        Some(corners.into_iter().flatten().collect())
    }
}

/// Returns the processor's clock at the start of the measurement and at its end.
fn processor_clock(case: &Case, place: usize) -> Vec<Point> {
    let disturbance = case.conditions().and_then(|conditions| conditions.disturbance.as_ref());
    let Some(disturbance) = disturbance else { return Vec::new() };
    let ends = [
        (0.0, disturbance.frequency_start_hertz),
        (disturbance.elapsed_ns as f64 / 1e9, disturbance.frequency_end_hertz),
    ];
    let points = ends.into_iter().filter_map(|(at, clock)| {
        Some(Point { case: Some(place), ..Point::new(at, clock? as f64) })
    });
    points.collect()
}

pub(crate) fn is_trained(case: &Case) -> bool {
    case.results.iter().any(|result| result.metric.starts_with(PHASE) && result.value.is_ok())
        || learning(case).is_some()
}

/// Returns the mean time of a batch in nanoseconds, by a throughput in samples per second.
fn per_batch(case: &Case, metric: &str) -> Option<f64> {
    let rate = case.value(metric).filter(|rate| *rate > 0.0)?;
    Some(f64::from(case.key.batch) / rate * 1e9)
}

/// Returns the parts of a step of training, with the step without marks and the pass of inference below.
fn steps(title: &str, place: usize, case: &Case, pass: Option<f64>) -> Chart {
    let phases = case.results.iter().filter_map(|result| {
        let name = result.metric.strip_prefix(PHASE)?;
        Some((name.to_owned(), *result.value.as_ref().ok()?))
    });
    let mut parts: Vec<(String, f64, bool)> =
        phases.map(|(name, time)| (name, time, false)).collect();
    let sum: f64 = parts.iter().map(|part| part.1).sum();
    if let Some(explained) = case.value("training.explained").filter(|share| *share > 0.0) {
        parts.push(("between".into(), (sum / explained * 100.0 - sum).max(0.0), true));
    }
    let mut rows = Vec::new();
    let mut series = Vec::new();
    let at = |row: usize, time: f64| Point { case: Some(place), ..Point::new(row as f64, time) };
    if sum > 0.0 {
        rows.push("measured step".to_owned());
        for (group, (name, time, lesser)) in parts.into_iter().enumerate() {
            series.push(Series { lesser, ..Series::points(name, group, vec![at(0, time)]) });
        }
    }
    for (name, time) in [
        ("step without marks", per_batch(case, "training.throughput")),
        ("pass of inference", pass),
    ] {
        if let Some(time) = time {
            series.push(Series::points(name, series.len(), vec![at(rows.len(), time)]));
            rows.push(name.to_owned());
        }
    }
    Chart {
        title: title.to_owned(),
        kind: Kind::Stacks,
        x: Axis::names("step", rows),
        y: Axis::new("mean time", "ns", AxisKind::FromZero),
        series,
        marks: Vec::new(),
    }
}

/// Returns the loss by step, of each epoch and of the tests.
fn loss(name: &str, learning: &Learning) -> Chart {
    let drawable = |(_, loss): &(f64, f64)| *loss > 0.0 && loss.is_finite();
    let points = |all: Vec<(f64, f64)>| -> Vec<Point> {
        all.into_iter().filter(drawable).map(|(step, loss)| Point::new(step, loss)).collect()
    };
    // The mean of an epoch is that of its steps, so it lies at its middle; the test is at its end.
    let at = |of: fn(&host_record::Epoch) -> Option<f64>, place: f64| {
        let epochs = learning.epochs.iter().enumerate();
        let all = epochs.filter_map(|(index, epoch)| {
            Some(((index as f64 + place) * learning.steps as f64, of(epoch)?))
        });
        points(all.collect())
    };
    let mut series = vec![
        Series::reference("each step", points(thinned(&learning.losses))),
        Series::line("mean of the epoch", 0, at(|epoch| epoch.loss, 0.5)),
        Series::line("test after it", 1, at(|epoch| epoch.test_loss, 1.0)),
    ];
    series.retain(|series| !series.points.is_empty());
    Chart {
        title: format!("Loss of {name}"),
        kind: Kind::Points,
        x: Axis::new("steps", "1", AxisKind::FromZero),
        y: Axis::new("loss", "1", AxisKind::Fitting),
        series,
        marks: Vec::new(),
    }
}

/// Returns the accuracy of the test after each epoch.
fn accuracy(name: &str, learning: &Learning) -> Chart {
    let part = |right: u64| right as f64 / learning.test_examples.max(1) as f64 * 100.0;
    let epochs = learning.epochs.iter().enumerate();
    let points = epochs.filter_map(|(index, epoch)| {
        Some(Point::new((index + 1) as f64 * learning.steps as f64, part(epoch.right?)))
    });
    Chart {
        title: format!("Accuracy of the test of {name}"),
        kind: Kind::Points,
        x: Axis::new("steps", "1", AxisKind::FromZero),
        y: Axis::new("accuracy, not from zero", "%", AxisKind::Around),
        series: vec![Series::line("test", 1, points.collect())],
        marks: Vec::new(),
    }
}

/// Returns steps and their losses; of many, means of neighbours.
fn thinned(losses: &[Option<f32>]) -> Vec<(f64, f64)> {
    let several = losses.len().div_ceil(MOST_STEPS).max(1);
    let mean = |(index, some): (usize, &[Option<f32>])| {
        let known: Vec<f64> = some.iter().flatten().map(|loss| f64::from(*loss)).collect();
        let middle = (index * several) as f64 + some.len() as f64 / 2.0;
        (!known.is_empty()).then(|| (middle, known.iter().sum::<f64>() / known.len() as f64))
    };
    losses.chunks(several).enumerate().filter_map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_rises() {
        let points = [(3.0, 9.0), (1.0, 2.0), (2.0, 1.0), (2.5, 5.0), (3.0, 4.0)];
        let points = points.map(|(x, y)| Point::new(x, y));
        assert_eq!(front(&points.iter().collect::<Vec<_>>()), [1, 3, 0]);
    }

    #[test]
    fn many_steps_are_drawn_as_means() {
        assert_eq!(thinned(&[Some(2.0), None, Some(1.0)]), [(0.5, 2.0), (2.5, 1.0)]);
        let many: Vec<Option<f32>> = (0..1200).map(|step| Some((step % 2) as f32)).collect();
        let points = thinned(&many);
        assert_eq!((points.len(), points[1]), (600, (3.0, 0.5)));
    }

    #[test]
    fn a_roof_is_the_lower_of_its_peaks() {
        let roof = Roof { compute: Some(100.0), bandwidth: Some(10.0) };
        assert_eq!([1.0, 10.0, 50.0].map(|intensity| roof.at(intensity)), [10.0, 100.0, 100.0]);
        assert_eq!(roof.ridge(), Some(10.0));
        let slope = Roof { compute: None, ..roof };
        assert_eq!((slope.at(50.0), slope.ridge()), (500.0, None));
        let load = Point::new(1.0, 5.0);
        assert_eq!(Roof { compute: None, bandwidth: None }.line(&[&load]), None);
        assert_eq!(roof.line(&[]), None);
        let line = roof.line(&[&load]).expect("a roof");
        let corners: Vec<_> = line.iter().map(|corner| (corner.x, corner.y)).collect();
        insta::assert_debug_snapshot!(corners.len(), @"4");
        assert_eq!((corners[0], corners[2]), ((1.0, 10.0), (10.0, 100.0)));
        assert_eq!(
            line[3].label.as_deref().map(|label| label.replace('\u{202f}', " ")),
            Some("peak 100 FLOP/s".into())
        );
    }
}
