/*!
Noise of this machine, measured once and kept: the smallest change that it can show.

Several worker processes, one after the other, repeat the same arithmetic and the same reads of memory. How far they differ
from each other is what two runs of one model would differ by if nothing had changed. The figures are kept in the user's
cache folder, in a file for each machine, with the time at which they were measured: they belong to the machine and not to
an experiment, are made again at no cost but time, and grow old.
*/

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use host_machine::Machine;
use host_record::NoiseProbe;
use host_statistics::{Ratio, always_valid_count, interquartile_mean, moments, student_quantile};
use serde::{Deserialize, Serialize};

use crate::backends::executor;
use crate::compare::POWER;
use crate::error::{Error, Result};
use crate::outlook::{NoiseOfRun, Outlook};
use crate::platform;
use crate::settings::Settings;

/// Time of one process's probe at most, and at least.
const PROBE: Duration = Duration::from_millis(800);
const SHORTEST_PROBE: Duration = Duration::from_millis(50);

/// Fewest processes: a deviation of fewer says little.
const LEAST_PROCESSES: u32 = 8;

/// Confidence of the interval that a change is told by, in a comparison of two runs and in a pair.
const LEVEL: f64 = 0.95;
const LEVEL_OF_PAIR: f64 = 0.995;

/// Time after which the figures of a machine are no longer used.
const OLD: Duration = Duration::from_secs(30 * 24 * 3600);

/// One kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct WorkNoise {
    /// Median time of a round in seconds.
    pub round_seconds: f64,
    /// Standard deviation of the logarithm of a round's time within a process.
    pub within: f64,
    /// Standard deviation of the logarithm of the median from process to process.
    pub between: f64,
    /// Standard deviation of the logarithm of the ratio of two equal sides whose rounds alternate, from process to
    /// process.
    pub in_turns: f64,
}

/// The noise of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Noise {
    /// When it was measured, RFC 3339 in UTC.
    pub measured_at: String,
    /// The machine's name.
    pub machine: String,
    /// Processes that measured.
    pub processes: u32,
    /// Seconds that it took.
    pub seconds: f64,
    /// Threads of each.
    pub threads: u32,
    /// Arithmetic.
    pub compute: Option<WorkNoise>,
    /// Reads of memory.
    pub memory: Option<WorkNoise>,
    /// Part of the time for which a thread had to wait for a processor, 0 to 1.
    pub waiting_share: f64,
    /// The longest wait in nanoseconds.
    pub longest_wait_ns: u64,
    /// Part of all processors' time that a hypervisor gave to others, if the system counts it.
    pub stolen_share: Option<f64>,
    /// Smallest step of the clock in nanoseconds.
    pub clock_step_ns: u64,
    /// Cost of a reading of the clock in nanoseconds.
    pub clock_read_ns: f64,
}

impl Noise {
    fn work(&self) -> impl Iterator<Item = &WorkNoise> {
        self.compute.iter().chain(&self.memory)
    }

    /// Returns the deviation from process to process, of the noisier kind of work.
    #[must_use]
    pub fn between(&self) -> f64 {
        self.work().map(|work| work.between).fold(0.0, f64::max)
    }

    /// Returns the deviation of a pair from process to process, of the noisier kind of work.
    #[must_use]
    pub fn in_turns(&self) -> f64 {
        self.work().map(|work| work.in_turns).fold(0.0, f64::max)
    }

    /// Returns the smallest change that two runs of so many processes, at least two, show in four of five comparisons: 0.05
    /// is 5 %. See [`Ratio::detectable`].
    #[must_use]
    pub fn detectable(&self, processes: u32) -> f64 {
        self.ratio(processes).detectable(POWER, 1) - 1.0
    }

    /// Returns the number of processes from which two runs show a change in four of five comparisons.
    #[must_use]
    pub fn processes_for(&self, change: f64) -> Option<usize> {
        let enough = |processes: u32| self.detectable(processes) <= change;
        (2..=1000).find(|processes| enough(*processes)).map(|processes| processes as usize)
    }

    /// Returns the number of processes from which a pair shows a change, or no change.
    #[must_use]
    pub fn processes_of_pair(&self, change: f64, level: f64) -> Option<usize> {
        always_valid_count(self.in_turns(), change.ln_1p(), level)
    }

    /// Returns the number of processes from which a pair shows a change of 1 % at the usual confidence.
    #[must_use]
    pub fn processes_of_usual_pair(&self) -> Option<usize> {
        self.processes_of_pair(0.01, LEVEL_OF_PAIR)
    }

    /// The ratio of two unchanged runs of so many processes.
    fn ratio(&self, processes: u32) -> Ratio {
        let error = self.between() * (2.0 / f64::from(processes)).sqrt();
        let degrees = f64::from(2 * processes.max(2) - 2);
        let half = student_quantile(0.5 + LEVEL / 2.0, degrees) * error;
        Ratio {
            value: 1.0,
            low: (-half).exp(),
            high: half.exp(),
            probability: 1.0,
            confidence: LEVEL,
            error,
            degrees,
        }
    }

    /// Returns the time since it was measured.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        let measured: jiff::Timestamp = self.measured_at.parse().ok()?;
        Duration::try_from(jiff::Timestamp::now().duration_since(measured)).ok()
    }

    /// Returns the figures of this machine that were kept, unless they are older than a month.
    #[must_use]
    pub fn kept() -> Option<Self> {
        let file = host_files::open(&file()?).ok()?;
        let noise: Self = serde_json::from_reader(std::io::Read::take(file, 1 << 20)).ok()?;
        (noise.age()? <= OLD).then_some(noise)
    }

    /// Keeps the figures. Returns the file; `None` if there is no cache folder.
    fn keep(&self) -> std::io::Result<Option<PathBuf>> {
        let Some(path) = file() else { return Ok(None) };
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        // Another host may read it meanwhile.
        let beside = path.with_extension(format!("{}.partial", std::process::id()));
        fs::write(&beside, serde_json::to_vec_pretty(self)?)?;
        fs::rename(&beside, &path)?;
        Ok(Some(path))
    }
}

/// Returns the file of this machine's figures. Two machines that share a home folder have different ones.
fn file() -> Option<PathBuf> {
    let machine = Machine::this();
    let processor = machine.processor();
    let identity = format!(
        "{}\n{}\n{}\n{}",
        host_machine::name(),
        processor.name.unwrap_or_default(),
        processor.architecture,
        processor.logical.unwrap_or_default()
    );
    let name = host_hash::sha256(identity.as_bytes());
    let name = name.get(..16).unwrap_or(&name);
    Some(platform::cache_folder()?.join("noise").join(format!("{name}.json")))
}

/// Measures the noise of this machine for this long, and keeps the figures. `on_probe` is called after each process with
/// the part that is done, 0 to 1. Returns the file that has them, if there is a cache folder.
///
/// # Errors
///
/// If there is no worker, one fails, or a stop is requested.
pub fn measure_noise(
    time: Duration,
    settings: &Settings,
    on_probe: &mut dyn FnMut(f64),
) -> Result<(Noise, Option<PathBuf>)> {
    let executor = executor(settings)?;
    let probe_time = (time / LEAST_PROCESSES).clamp(SHORTEST_PROBE, PROBE);
    let start = Instant::now();
    let before = Machine::this().activity(&[]).machine;
    let mut probes = Vec::new();
    while probes.len() < LEAST_PROCESSES as usize || start.elapsed() + probe_time / 2 < time {
        if settings.interrupt.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let probe = executor.probe_noise(probe_time, &settings.interrupt);
        probes.push(probe.map_err(|error| Error::NoNoise { reason: error.to_string() })?);
        on_probe((start.elapsed().as_secs_f64() / time.as_secs_f64()).min(1.0));
    }
    let elapsed = start.elapsed();
    let after = Machine::this().activity(&[]).machine;
    let stolen = before.zip(after).and_then(|(before, after)| {
        let stolen_ns = after.stolen_ns?.checked_sub(before.stolen_ns?)?;
        Some(stolen_ns as f64 / (elapsed.as_nanos() as f64 * f64::from(after.processors.max(1))))
    });
    let noise = summarise(&probes, elapsed, stolen);
    let kept = noise.keep().unwrap_or_else(|error| {
        tracing::warn!(%error, "the noise of this machine cannot be kept");
        None
    });
    Ok((noise, kept))
}

fn summarise(probes: &[NoiseProbe], elapsed: Duration, stolen_share: Option<f64>) -> Noise {
    let mean = |of: fn(&NoiseProbe) -> f64| {
        probes.iter().map(of).sum::<f64>() / probes.len().max(1) as f64
    };
    Noise {
        measured_at: jiff::Timestamp::now().to_string(),
        machine: host_machine::name(),
        processes: u32::try_from(probes.len()).unwrap_or(u32::MAX),
        seconds: elapsed.as_secs_f64(),
        threads: probes.iter().map(|probe| probe.threads).max().unwrap_or(0),
        compute: work(probes, |probe| &probe.compute_seconds),
        memory: work(probes, |probe| &probe.memory_seconds),
        waiting_share: mean(|probe| probe.waiting_share),
        longest_wait_ns: probes.iter().map(|probe| probe.longest_wait_ns).max().unwrap_or(0),
        stolen_share,
        clock_step_ns: probes.iter().map(|probe| probe.clock_step_ns).min().unwrap_or(0),
        clock_read_ns: mean(|probe| probe.clock_read_ns),
    }
}

/// Returns the noise of one kind of work; `None` if not all processes did it, or fewer than two.
fn work(probes: &[NoiseProbe], of: fn(&NoiseProbe) -> &Vec<f64>) -> Option<WorkNoise> {
    let mut medians = Vec::new();
    let mut within = Vec::new();
    let mut in_turns = Vec::new();
    for probe in probes {
        let logarithms: Vec<f64> = of(probe).iter().map(|seconds| seconds.ln()).collect();
        medians.push(median(&logarithms)?);
        within.push(moments(&logarithms)?.deviation?);
        let (rounds, _) = of(probe).as_chunks::<4>();
        let ratios: Vec<f64> = rounds
            .iter()
            .map(|[one, two, three, four]| ((two + three) / (one + four)).ln())
            .collect();
        in_turns.push(interquartile_mean(&ratios)?);
    }
    Some(WorkNoise {
        round_seconds: median(&medians)?.exp(),
        within: median(&within)?,
        between: moments(&medians)?.deviation?,
        in_turns: moments(&in_turns)?.deviation?,
    })
}

/// Returns the value in the middle, or between the two in the middle.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(f64::midpoint(sorted[last / 2], sorted[sorted.len() / 2]))
}

impl NoiseOfRun {
    /// Returns what this machine's kept noise says about a run on its processors.
    pub(crate) fn of(noise: &Noise, measure: &host_record::MeasureSettings) -> Option<Self> {
        let needed = noise.processes_for(0.05);
        let outlook = match (&measure.pair, measure.processes) {
            (Some(pair), _) => {
                let change = pair.half_width.get();
                Outlook::Pairs(change, noise.processes_of_pair(change, pair.level.get()))
            }
            (None, 0 | 1) => Outlook::OneProcess(needed),
            (None, count) => {
                let more = needed.filter(|needed| *needed > count as usize);
                Outlook::Processes(count, noise.detectable(count), more)
            }
        };
        Some(Self { age: noise.age()?, deviation: noise.between(), outlook })
    }
}

/// Returns whether all of these devices are processors, whose noise is known.
pub(crate) fn are_processors(kinds: &BTreeSet<String>) -> bool {
    !kinds.is_empty() && kinds.iter().all(|kind| kind == "cpu" || kind == "none")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probes(between: f64, drift: f64) -> Vec<NoiseProbe> {
        let probe = |process: u32| {
            let level = if process.is_multiple_of(2) { between } else { -between };
            let rounds = (0..40).map(|round| 0.004 * (level + drift * f64::from(round)).exp());
            NoiseProbe {
                threads: 2,
                compute_seconds: rounds.collect(),
                memory_seconds: vec![0.02; 12],
                waiting_share: 0.01,
                longest_wait_ns: u64::from(process) * 1000,
                clock_step_ns: 20 + u64::from(process),
                clock_read_ns: 25.0,
            }
        };
        (0..8).map(probe).collect()
    }

    #[test]
    fn the_noisiest_work_counts_and_a_drift_is_not_in_turns() {
        let noise = summarise(&probes(0.02, 0.001), Duration::from_secs(8), Some(0.05));
        let compute = noise.compute.expect("work");
        assert!((compute.between - 0.0214).abs() < 1e-3, "{compute:?}");
        assert!(compute.in_turns < 1e-6, "{compute:?}");
        assert_eq!(noise.memory.expect("work").between, 0.0);
        assert_eq!(noise.between(), compute.between);
        assert_eq!((noise.longest_wait_ns, noise.clock_step_ns, noise.processes), (7000, 20, 8));
        // More processes show smaller changes, and as many as are needed do.
        assert!(noise.detectable(5) > noise.detectable(10));
        let needed = noise.processes_for(0.03).expect("not too many");
        let needed = u32::try_from(needed).expect("few");
        assert!(noise.detectable(needed) <= 0.03 && noise.detectable(needed - 1) > 0.03);
        assert_eq!(noise.processes_of_usual_pair(), Some(11));
    }

    #[test]
    fn a_run_is_told_what_its_processes_can_show() {
        let noise = summarise(&probes(0.02, 0.0), Duration::from_secs(8), None);
        let of = |processes| {
            let measure = host_record::MeasureSettings { processes, ..Default::default() };
            NoiseOfRun::of(&noise, &measure).expect("a time").outlook
        };
        assert!(matches!(of(1), Outlook::OneProcess(Some(needed)) if needed > 2));
        assert!(matches!(of(3), Outlook::Processes(3, change, Some(_)) if change > 0.05));
        assert!(matches!(of(20), Outlook::Processes(20, change, None) if change < 0.05));
    }

    #[test]
    fn work_that_a_process_did_not_do_has_no_noise() {
        let mut probes = probes(0.01, 0.0);
        probes[3].memory_seconds.clear();
        assert_eq!(summarise(&probes, Duration::from_secs(1), None).memory, None);
    }
}
