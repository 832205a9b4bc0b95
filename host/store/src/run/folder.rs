//! Reading a run folder.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use host_record::{
    CaseColumns, CaseRecord, Column, ColumnData, Outcome, Pace, Processes, WorkerReport, column,
    part,
};
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::conditions;
use super::flaws::CaseFile;
use super::header::{
    NewRun, PlanLine, RecommendationRecord, ResultRecord, RunFinished, RunHeader, now, rfc3339,
    run_id,
};
use super::lines::{Lines, TornLine, check_version, declared_version};
use super::samples::{SampleColumn, SampleReader};
use super::writer::RunWriter;
use super::{Layout, is_absent, make_folder, outputs, write_whole};
use crate::error::StoreError;

/// A run folder, open for reading. Any number of readers may read while one host writes.
#[derive(Debug, Clone)]
pub struct RunFolder {
    pub(crate) layout: Layout,
    pub(super) header: RunHeader,
}

impl RunFolder {
    /// Makes the folder of a new run in `results/runs`, and opens it for writing.
    ///
    /// # Errors
    ///
    /// Where the file system refuses, or the folder's name is not UTF-8. Nothing is then left of
    /// the run.
    pub fn create(results: &Path, run: NewRun) -> Result<RunWriter, StoreError> {
        let place = std::path::absolute(results).map_err(StoreError::io("find", results))?;
        if place.to_str().is_none() {
            return Err(StoreError::NotUnicode { path: place });
        }
        let runs = results.join("runs");
        fs::create_dir_all(&runs).map_err(StoreError::io("create", &runs))?;
        let started = now();
        let (run_id, root) = claim(&runs, started, &run.experiment)?;
        let layout = Layout { root };
        let header = RunHeader {
            record_version: host_record::RECORD_VERSION,
            run_id,
            experiment: run.experiment,
            description: run.description,
            started_at: rfc3339(started),
            host_version: run.host_version,
            manifest_path: run.manifest_path,
            manifest_sha256: hexadecimal(&Sha256::digest(run.manifest_text.as_bytes())),
            plugins: run.plugins,
            programs: run.programs,
            environment: run.environment,
        };
        let root = layout.root.clone();
        let made = Self { layout, header }.fill(&runs, &run.manifest_text);
        if made.is_err() {
            // Nobody has seen it, and half a run would be in everybody's way. Where even that
            // fails, a list of runs names what is left.
            drop(fs::remove_dir_all(root));
        }
        made
    }

    /// Writes what a new run's folder holds.
    fn fill(self, runs: &Path, manifest: &str) -> Result<RunWriter, StoreError> {
        let writer = RunWriter::lock(self)?;
        let layout = &writer.folder().layout;
        write_whole(&layout.manifest(), manifest.as_bytes())?;
        // The header comes last: a folder without it is not a run.
        write_json(&layout.header(), &writer.folder().header)?;
        crate::platform::sync_folder(runs).map_err(StoreError::io("write", runs))?;
        tracing::debug!(folder = %layout.root.display(), "run folder made");
        Ok(writer)
    }

    /// Opens a run folder for reading.
    ///
    /// # Errors
    ///
    /// Where there is none, it cannot be read, or a newer host wrote it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let layout = Layout { root: path.to_owned() };
        layout.refuse_links()?;
        let Some(header) =
            read_json::<RunHeader>(&layout.header(), |header| header.record_version)?
        else {
            return Err(StoreError::NotARun { path: path.to_owned() });
        };
        Ok(Self { layout, header })
    }

    /// Opens a run folder for writing, to add results to what was measured: takes the lock.
    ///
    /// # Errors
    ///
    /// As [`RunFolder::open`]; also where another host is writing the run.
    pub fn open_to_amend(path: &Path) -> Result<RunWriter, StoreError> {
        RunWriter::lock(Self::open(path)?)
    }

    /// Opens a run folder for writing, to go on where an interrupted run left off: takes the lock,
    /// cuts torn lines off, and drops what a case that was never recorded left behind.
    /// [`RunWriter::is_recorded`] says which cases are done.
    ///
    /// # Errors
    ///
    /// As [`RunFolder::open`]; also where another host is writing the run, or its journal is
    /// damaged.
    pub fn open_to_resume(path: &Path) -> Result<RunWriter, StoreError> {
        let writer = RunWriter::lock(Self::open(path)?)?;
        writer.drop_leftovers()?;
        Ok(writer)
    }

    /// What was known when the run began.
    #[must_use]
    pub fn header(&self) -> &RunHeader {
        &self.header
    }

    /// The run's id.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.header.run_id
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.layout.root
    }

    /// The folder for reports, `reports/` in the run folder; made if need be.
    ///
    /// # Errors
    ///
    /// Where it cannot be made.
    pub fn reports_folder(&self) -> Result<PathBuf, StoreError> {
        let path = self.layout.reports();
        make_folder(&path)?;
        Ok(path)
    }

    /// The manifest's text, as the run used it.
    ///
    /// # Errors
    ///
    /// Where it cannot be read, or is not the text that the header names.
    pub fn manifest_text(&self) -> Result<String, StoreError> {
        let path = self.layout.manifest();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let detail = "the run's manifest is missing".into();
                return Err(StoreError::Malformed { path, line: 1, detail });
            }
            text => text.map_err(StoreError::io("read", &path))?,
        };
        if hexadecimal(&Sha256::digest(text.as_bytes())) != self.header.manifest_sha256 {
            let detail = "this is not the manifest that the run used: its SHA-256 differs from \
                          the one in `run.json`";
            return Err(StoreError::Malformed { path, line: 1, detail: detail.into() });
        }
        Ok(text)
    }

    /// When and how the run ended; `None` while it goes on, and where it was interrupted.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read.
    pub fn finished(&self) -> Result<Option<RunFinished>, StoreError> {
        read_json(&self.layout.finished(), |finished: &RunFinished| finished.record_version)
    }

    /// The plan, line by line, as it was made when the run began.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read; each line for itself.
    pub fn plan(
        &self,
    ) -> Result<impl Iterator<Item = Result<PlanLine, StoreError>> + use<>, StoreError> {
        Lines::open(self.layout.plan())
    }

    /// The recorded cases, in the order in which they ended.
    ///
    /// # Errors
    ///
    /// Where the journal cannot be opened.
    pub fn records(&self) -> Result<Records, StoreError> {
        Records::open(&self.layout)
    }

    /// What metrics said: for each case, plugin and options the newest line, in the order of the
    /// file.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read or is damaged.
    pub fn results(&self) -> Result<Vec<ResultRecord>, StoreError> {
        newest(self.layout.results(), |line: &ResultRecord| {
            (line.case_id.clone(), line.plugin.id.clone(), line.options.to_string())
        })
    }

    /// What recommenders said: for each plugin and options the newest line.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read or is damaged.
    pub fn recommendations(&self) -> Result<Vec<RecommendationRecord>, StoreError> {
        newest(self.layout.recommendations(), |line: &RecommendationRecord| {
            (line.plugin.id.clone(), line.options.to_string())
        })
    }

    /// A case's columns by name, as metric plugins read them: of measured queries, unless the name says
    /// that they are of the warm-up's. Names that
    /// the case has no column for are left out, and a case that did not finish has none.
    ///
    /// # Errors
    ///
    /// Where a file of the case cannot be read.
    pub fn columns<S: AsRef<str>>(
        &self,
        record: &CaseRecord,
        names: &[S],
    ) -> Result<CaseColumns, StoreError> {
        let case_id = record.case_id.clone();
        let mut columns = Vec::new();
        if let Outcome::Finished(report) = &record.outcome {
            let is_sampled =
                |name: &S| CaseFile::of_column(name.as_ref()) == Some(CaseFile::Samples);
            let samples = match names.iter().any(is_sampled) {
                true => self.samples(record)?,
                false => Vec::new(),
            };
            for name in names {
                if let Some(data) = self.column(record, report, &samples, name.as_ref())? {
                    columns.push(data);
                }
            }
        }
        let mut attributes = attributes(record);
        if let Outcome::Finished(report) = &record.outcome {
            attributes.extend(conditions::missing(&report.conditions, names));
        }
        Ok(CaseColumns { case_id, attributes, columns })
    }

    fn column(
        &self,
        record: &CaseRecord,
        report: &WorkerReport,
        samples: &[SampleReader],
        name: &str,
    ) -> Result<Option<Column>, StoreError> {
        let (case_id, further) = (record.case_id.as_str(), &record.further);
        let sampled = |column| {
            let mut all: Option<Vec<u64>> = None;
            for samples in samples {
                let values = samples.read(column)?;
                match &mut all {
                    Some(all) => all.extend(values),
                    none => *none = Some(values),
                }
            }
            Ok::<_, StoreError>(all.map(|values| (1, ColumnData::U64(values))))
        };
        let sampled_if_there = |column| {
            let there = samples.iter().all(|samples| samples.has(column));
            if there { sampled(column) } else { Ok(None) }
        };
        let process = || {
            let numbered = (0_u64..)
                .zip(samples)
                .flat_map(|(process, samples)| std::iter::repeat_n(process, samples.len()));
            (samples.len() > 1).then(|| (1, ColumnData::U64(numbered.collect())))
        };
        let paces = |rate: &dyn Fn(&Pace) -> Option<f64>| {
            let reports = std::iter::once(report).chain(further);
            let rates: Option<Vec<f64>> =
                reports.map(|report| report.pace.as_ref().and_then(rate)).collect();
            rates.map(|rates| (1, ColumnData::F64(rates)))
        };
        // Of several processes, the first one's: what comes before what is another process's.
        let warm_up = |column| {
            let first = samples.first();
            let values = first.map(|samples| samples.read_warm_up(column)).transpose()?;
            Ok::<_, StoreError>(values.map(|values| (1, ColumnData::U64(values))))
        };
        let single = |value: Option<u64>| value.map(|value| (1, ColumnData::U64(vec![value])));
        let real = |value: Option<f64>| value.map(|value| (1, ColumnData::F64(vec![value])));
        let conditions = &report.conditions;
        let memory = conditions.memory.as_ref();
        let stages = conditions.stages.as_ref().and_then(|stages| stages.as_ref().ok());
        let timings = &report.timings;
        let (unit, found) = match name {
            column::LATENCY => ("ns", sampled(SampleColumn::Latency)?),
            column::START => ("ns", sampled(SampleColumn::Start)?),
            column::ITEMS => ("1", sampled(SampleColumn::Items)?),
            column::SCHEDULED => ("ns", sampled_if_there(SampleColumn::Scheduled)?),
            column::LANE => ("1", sampled_if_there(SampleColumn::Lane)?),
            column::PROCESS => ("1", process()),
            column::ACHIEVED_RATE => ("1/s", paces(&|pace| pace.achieved_per_second)),
            column::OFFERED_RATE => ("1/s", paces(&|pace| pace.offered_per_second)),
            column::WARM_UP_LATENCY => ("ns", warm_up(SampleColumn::Latency)?),
            column::WARM_UP_START => ("ns", warm_up(SampleColumn::Start)?),
            column::OUTPUT => {
                let output = outputs::read_first_output(&self.layout.outputs(case_id))?;
                ("1", output.map(|(width, values)| (width, ColumnData::F32(values))))
            }
            column::LABEL => {
                let labels = outputs::read_labels(&self.layout.labels(case_id))?;
                ("1", labels.map(|labels| (1, ColumnData::S64(labels))))
            }
            column::PEAK_MEMORY => ("B", single(report.peak_memory_bytes)),
            column::AVERAGE_MEMORY => ("B", single(memory.and_then(|it| it.average_bytes))),
            column::PROPORTIONAL_MEMORY => {
                ("B", single(memory.and_then(|it| it.proportional_bytes)))
            }
            column::DEVICE_MEMORY => {
                let peak = memory.and_then(|it| it.device_peak_bytes.as_ref()?.as_ref().ok());
                ("B", single(peak.copied()))
            }
            column::DEVICE_ALLOCATOR => ("B", single(conditions::allocator_peak(conditions).ok())),
            column::PACKAGE_ENERGY | column::MEMORY_ENERGY | column::DEVICE_ENERGY => {
                ("J", real(conditions::energy(conditions, name).ok()))
            }
            column::ENERGY_TIME => ("s", real(conditions::energy_time(conditions))),
            column::COPY_IN_TIME => ("ns", real(stages.map(|it| it.copy_in_ns))),
            column::COMPUTE_TIME => ("ns", real(stages.map(|it| it.compute_ns))),
            column::COPY_OUT_TIME => ("ns", real(stages.map(|it| it.copy_out_ns))),
            column::BASELINE_MEMORY => ("B", single(report.baseline_memory_bytes)),
            column::OPEN_TIME => ("ns", single(timings.open_ns)),
            column::LOAD_TIME => ("ns", single(timings.load_ns)),
            column::PREPARE_TIME => ("ns", single(timings.prepare_ns)),
            column::FIRST_RUN_TIME => ("ns", single(timings.first_run_ns)),
            _ => return Ok(None),
        };
        Ok(found.map(|(width, data)| Column { name: name.into(), unit: unit.into(), width, data }))
    }

    /// The samples of a case, process by process; a process without a file of them is left out.
    pub(crate) fn samples(&self, record: &CaseRecord) -> Result<Vec<SampleReader>, StoreError> {
        let processes = 1 + record.further.len() as u32;
        let open = |process| {
            // A record of several processes is the first's; any other is its own.
            let process = if processes > 1 { process } else { record.process };
            SampleReader::open(&self.layout.samples(&part(&record.case_id, process))).transpose()
        };
        (0..processes).filter_map(open).collect()
    }
}

/// Coordinates of a case by name, and the confidence that the manifest asks for.
fn attributes(record: &CaseRecord) -> BTreeMap<String, String> {
    let key = &record.key;
    let mut attributes: BTreeMap<String, String> = [
        ("model", key.model.clone()),
        ("backend", key.backend.clone()),
        ("device", key.device.clone()),
        ("precision", key.precision.to_string()),
        ("batch", key.batch.to_string()),
        ("mode", key.mode.to_string()),
        ("scenario", key.scenario.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    if let Some(length) = key.sequence_length {
        attributes.insert("sequence-length".into(), length.to_string());
    }
    if let Some(rate) = key.rate {
        attributes.insert("rate".into(), rate.to_string());
    }
    if let Some(clients) = key.clients {
        attributes.insert("clients".into(), clients.to_string());
    }
    if let Some(confidence) = record.spec.as_ref().and_then(|spec| spec.measure.confidence) {
        attributes.insert("confidence".into(), confidence.level.get().to_string());
    }
    attributes
}

/// The cases of a run that are over, read from its journal one at a time, each with all of its
/// processes.
///
/// Labels are not among them: [`RunFolder::columns`] reads those. A case recorded twice is an
/// error. After the last record, [`Records::torn`] tells whether a crash cut the journal short.
#[derive(Debug)]
pub struct Records {
    lines: JournalRecords,
    processes: Processes,
}

impl Records {
    fn open(layout: &Layout) -> Result<Self, StoreError> {
        Ok(Self { lines: JournalRecords::open(layout)?, processes: Processes::default() })
    }

    /// The torn last line, once it has been met.
    #[must_use]
    pub fn torn(&self) -> Option<&TornLine> {
        self.lines.torn()
    }
}

impl Iterator for Records {
    type Item = Result<CaseRecord, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.lines.next()? {
                Ok(record) => {
                    if let Some(case) = self.processes.add(record) {
                        return Some(Ok(case));
                    }
                }
                error => return Some(error),
            }
        }
    }
}

/// The lines of a journal: one for each process of a case.
#[derive(Debug)]
pub(super) struct JournalRecords {
    lines: Lines<CaseRecord>,
    layout: Layout,
    seen: HashMap<String, u64>,
    with_standard_error: HashSet<String>,
}

impl JournalRecords {
    pub(super) fn open(layout: &Layout) -> Result<Self, StoreError> {
        let lines = Lines::open(layout.journal())?;
        let with_standard_error = stems(&layout.root.join("stderr"))?;
        Ok(Self { lines, layout: layout.clone(), seen: HashMap::new(), with_standard_error })
    }

    pub(super) fn torn(&self) -> Option<&TornLine> {
        self.lines.torn()
    }

    pub(super) fn complete_bytes(&self) -> u64 {
        self.lines.complete_bytes()
    }
}

impl Iterator for JournalRecords {
    type Item = Result<CaseRecord, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut record = match self.lines.next()? {
            Ok(record) => record,
            Err(error) => return Some(Err(error)),
        };
        let line = self.lines.line();
        let part = record.part();
        if let Some(earlier) = self.seen.insert(part.clone(), line) {
            let detail = format!("case `{part}` is already on line {earlier}");
            return Some(Err(StoreError::Malformed {
                path: self.lines.path().to_owned(),
                line,
                detail,
            }));
        }
        if self.with_standard_error.contains(&part) {
            let path = self.layout.standard_error(&part);
            match fs::read(&path) {
                Ok(text) => record.standard_error = String::from_utf8_lossy(&text).into_owned(),
                Err(error) => return Some(Err(StoreError::io("read", &path)(error))),
            }
        }
        Some(Ok(record))
    }
}

/// Names of a folder's files without their endings; a folder that does not exist has none.
pub(super) fn stems(folder: &Path) -> Result<HashSet<String>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(HashSet::new()),
        Err(error) => return Err(StoreError::io("read", folder)(error)),
    };
    entries
        .map(|entry| {
            let entry = entry.map_err(StoreError::io("read", folder))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let whole = name.strip_suffix(".partial").unwrap_or(&name);
            Ok(whole.rsplit_once('.').map_or(whole, |(stem, _)| stem).to_owned())
        })
        .collect()
}

/// Takes a name that no run has yet. Making the folder is what takes it, so two hosts that start
/// at once cannot take the same.
fn claim(
    runs: &Path,
    started: jiff::Timestamp,
    experiment: &str,
) -> Result<(String, PathBuf), StoreError> {
    let mut attempt = 0;
    loop {
        let id = run_id(started, experiment, salt());
        let path = runs.join(&id);
        match fs::create_dir(&path) {
            Ok(()) => return Ok((id, path)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < 100 => attempt += 1,
            Err(error) => return Err(StoreError::io("create", &path)(error)),
        }
    }
}

/// A number that differs from call to call and process to process. The standard library's hash
/// maps are seeded by the operating system, so that a crate for random numbers is not needed.
fn salt() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(super) fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), StoreError> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|error| StoreError::io("write", path)(error.into()))?;
    text.push('\n');
    write_whole(path, text.as_bytes())
}

/// Reads a small JSON file; `None` where there is none.
fn read_json<T: DeserializeOwned>(
    path: &Path,
    version: impl FnOnce(&T) -> u32,
) -> Result<Option<T>, StoreError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(StoreError::io("read", path)(error)),
    };
    match serde_json::from_slice::<T>(&text) {
        Ok(value) => {
            check_version(path, Some(version(&value)))?;
            Ok(Some(value))
        }
        Err(error) => {
            check_version(path, declared_version(&text))?;
            Err(StoreError::Malformed {
                path: path.to_owned(),
                line: error.line() as u64,
                detail: error.to_string(),
            })
        }
    }
}

/// The newest line for each key, in the order of the lines that are kept.
fn newest<T, K>(path: PathBuf, key: impl Fn(&T) -> K) -> Result<Vec<T>, StoreError>
where
    T: DeserializeOwned + super::lines::Line,
    K: std::hash::Hash + Eq,
{
    let mut kept: Vec<Option<T>> = Vec::new();
    let mut places = HashMap::new();
    for line in Lines::<T>::open(path)? {
        let line = line?;
        if let Some(earlier) = places.insert(key(&line), kept.len()) {
            kept[earlier] = None;
        }
        kept.push(Some(line));
    }
    Ok(kept.into_iter().flatten().collect())
}
