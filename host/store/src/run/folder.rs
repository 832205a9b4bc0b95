//! Reading a run folder.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use host_hash::sha256;
use host_record::{
    Axis, CaseColumns, CaseRecord, Column, ColumnData, Epoch, Learning, Outcome, OutputValues,
    Pace, Processes, ProfiledOperator, Quantity, WorkerReport, column, earlier, part,
};
use serde::de::DeserializeOwned;

use super::conditions;
use super::header::{PlanLine, RecommendationRecord, ResultRecord, RunFinished, RunHeader};
use super::layout::Layout;
use super::lines::{Lines, TornLine, check_version, declared_version};
use super::links::{is_absent, refuse_links};
use super::lost::CaseFile;
use super::outputs;
use super::profile::read_profile;
use super::samples::{MeasuredMarks, SampleColumn, SampleReader};
use crate::error::StoreError;

/// Greatest length of a file that is read as a whole: the header, the end, the manifest and standard errors.
const LONGEST_FILE: u64 = 64 << 20;

/// A run folder, open for reading. Any number of readers may read while one host writes.
#[derive(Debug, Clone)]
pub struct RunFolder {
    pub(crate) layout: Layout,
    pub(super) header: RunHeader,
    /// End of a run whose reports are being written, so that they can show it.
    pub(crate) ended: Option<RunFinished>,
}

impl RunFolder {
    /// Opens a run folder for reading.
    ///
    /// # Errors
    ///
    /// If it does not exist, cannot be read, was written by a newer host, or has another name than its run's id.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let layout = Layout { root: path.to_owned() };
        refuse_links(&layout.root)?;
        let Some(header) =
            read_json::<RunHeader>(&layout.header(), |header| header.record_version)?
        else {
            return Err(StoreError::NotARun { path: path.to_owned() });
        };
        if header.started_at.parse::<jiff::Timestamp>().is_err() {
            let path = layout.header();
            let detail = format!("`started-at` is {:?}, which is not a time", header.started_at);
            let line = line_of(&path, "\"started-at\"")?;
            return Err(StoreError::Malformed { path, line, detail });
        }
        // Otherwise a copy with other values would replace the run in the database.
        if own_name(path)? != header.run_id {
            return Err(StoreError::OtherRun { path: path.to_owned(), run_id: header.run_id });
        }
        Ok(Self { layout, header, ended: None })
    }

    /// Returns the facts known at the start of the run.
    #[must_use]
    pub fn header(&self) -> &RunHeader {
        &self.header
    }

    /// Returns the run's id.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.header.run_id
    }

    /// Returns the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.layout.root
    }

    /// Returns the folder for reports, `reports/` in the run folder; it need not exist.
    #[must_use]
    pub fn reports_folder(&self) -> PathBuf {
        self.layout.reports()
    }

    /// Returns the manifest's text, as the run used it.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not the text that the header names.
    pub fn manifest_text(&self) -> Result<String, StoreError> {
        let path = self.layout.manifest();
        let text = match host_files::read_to_string(&path, LONGEST_FILE) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let detail = "the run's manifest is missing".into();
                return Err(StoreError::Malformed { path, line: 1, detail });
            }
            text => text.map_err(StoreError::unread(&path))?,
        };
        if sha256(text.as_bytes()) != self.header.manifest_sha256 {
            let detail = "this is not the manifest that the run used: its SHA-256 differs from \
                          the one in `run.json`";
            return Err(StoreError::Malformed { path, line: 1, detail: detail.into() });
        }
        Ok(text)
    }

    /// Returns when and how the run ended; `None` if it is running or was interrupted.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn finished(&self) -> Result<Option<RunFinished>, StoreError> {
        read_json(&self.layout.finished(), |finished: &RunFinished| finished.record_version)
    }

    /// Returns the end of the run for views: as [`RunFolder::finished`], or the end that will be recorded once the
    /// reports are written.
    pub(crate) fn end(&self) -> Result<Option<RunFinished>, StoreError> {
        match &self.ended {
            Some(ended) => Ok(Some(ended.clone())),
            None => self.finished(),
        }
    }

    /// Returns the plan, line by line, as made when the run began.
    ///
    /// # Errors
    ///
    /// If the file cannot be read; each line has its own error.
    pub fn plan(
        &self,
    ) -> Result<impl Iterator<Item = Result<PlanLine, StoreError>> + use<>, StoreError> {
        Lines::open(self.layout.plan())
    }

    /// Returns the recorded cases, in the order in which they ended.
    ///
    /// # Errors
    ///
    /// If the journal cannot be opened.
    pub fn records(&self) -> Result<Records, StoreError> {
        Records::open(&self.layout)
    }

    /// Returns the metrics' results: for each case, plugin and options the newest line, in the
    /// order of the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is damaged.
    pub fn results(&self) -> Result<Vec<ResultRecord>, StoreError> {
        newest(self.layout.results(), |line: &ResultRecord| {
            (line.case_id.clone(), line.plugin.id.clone(), line.options.to_string())
        })
    }

    /// Returns the recommenders' advice: for each plugin and options the newest line.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is damaged.
    pub fn recommendations(&self) -> Result<Vec<RecommendationRecord>, StoreError> {
        newest(self.layout.recommendations(), |line: &RecommendationRecord| {
            (line.plugin.id.clone(), line.options.to_string())
        })
    }

    /// Returns a case's columns by name, as metric plugins read them: of measured queries, unless the name begins
    /// with `warm-up`. Names without a column in the case are left out, and a case that did not finish has none.
    ///
    /// # Errors
    ///
    /// If a file of the case cannot be read.
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
                match name.as_ref() {
                    column::OUTPUTS => columns.extend(self.outputs(&record.case_id)?),
                    column::PHASES | column::TOKENS | column::TOKEN_TIME => {
                        columns.extend(mark_columns(&samples, name.as_ref())?);
                    }
                    column::PHASE_MEMORY => {
                        let memory = report.conditions.phase_memory.as_ref();
                        let phases = memory.and_then(|memory| memory.as_ref().ok()).into_iter();
                        columns.extend(phases.flatten().map(|phase| Column {
                            name: format!("phase-memory.{}", phase.phase),
                            unit: "B".into(),
                            width: 1,
                            data: ColumnData::U64(vec![phase.peak_bytes]),
                        }));
                    }
                    name => columns.extend(self.column(record, report, &samples, name)?),
                }
            }
        }
        let mut attributes = attributes(record);
        attributes.extend(conditions::missing(record, names));
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
        // If there are several processes, the warm-up is the first one's.
        let warm_up = |column| {
            let first = samples.first();
            let values = first.map(|samples| samples.read_warm_up(column)).transpose()?;
            Ok::<_, StoreError>(values.map(|values| (1, ColumnData::U64(values))))
        };
        let (unit, found) = match name {
            column::LATENCY => ("ns", sampled(SampleColumn::Latency)?),
            column::START => ("ns", sampled(SampleColumn::Start)?),
            column::ITEMS if conditions::no_samples(record).is_some() => ("1", None),
            column::ITEMS => ("1", sampled(SampleColumn::Items)?),
            column::SCHEDULED => ("ns", sampled_if_there(SampleColumn::Scheduled)?),
            column::LANE => ("1", sampled_if_there(SampleColumn::Lane)?),
            column::PROCESS => ("1", process()),
            column::ACHIEVED_RATE => ("1/s", paces(&|pace| pace.achieved_per_second)),
            column::OFFERED_RATE => ("1/s", paces(&|pace| pace.offered_per_second)),
            column::WARM_UP_LATENCY => ("ns", warm_up(SampleColumn::Latency)?),
            column::WARM_UP_START => ("ns", warm_up(SampleColumn::Start)?),
            column::OUTPUT => {
                let first = outputs::read_outputs(&self.layout.outputs(case_id), true)?.pop();
                ("1", first.map(|output| (output.width, data(output.values))))
            }
            column::LABEL => {
                let labels = outputs::read_labels(&self.layout.labels(case_id))?;
                ("1", labels.map(|labels| (1, ColumnData::S64(labels))))
            }
            column::STEP_LOSS
            | column::EPOCH_LOSS
            | column::EPOCH_TIME
            | column::EPOCH_READING
            | column::EPOCH_ACCURACY
            | column::EPOCH_EXAMPLES => match &report.conditions.learning {
                Some(Ok(learning)) => learned(learning, name),
                _ => return Ok(None),
            },
            _ => match Quantity::named(name).filter(|quantity| quantity.is_column()) {
                Some(quantity) => {
                    (quantity.unit, conditions::column(quantity, record).map(|data| (1, data)))
                }
                None => return Ok(None),
            },
        };
        Ok(found.map(|(width, data)| Column { name: name.into(), unit: unit.into(), width, data }))
    }

    /// Returns the operators of one run of a case, in order of start; none if none was profiled.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn operators(&self, record: &CaseRecord) -> Result<Vec<ProfiledOperator>, StoreError> {
        // Of several processes the first is profiled.
        read_profile(&self.layout.profile(&part(&record.case_id, 0)))
    }

    /// Returns all outputs of a case, each as a column.
    fn outputs(&self, case_id: &str) -> Result<Vec<Column>, StoreError> {
        let outputs = outputs::read_outputs(&self.layout.outputs(case_id), false)?;
        let column = |output: outputs::Output| Column {
            name: format!("output.{}", output.name),
            unit: "1".into(),
            width: output.width,
            data: data(output.values),
        };
        Ok(outputs.into_iter().map(column).collect())
    }

    /// Returns the samples of a case, process by process; a process without a file of them is left
    /// out.
    pub(crate) fn samples(&self, record: &CaseRecord) -> Result<Vec<SampleReader>, StoreError> {
        let processes = 1 + record.further.len() as u32;
        let open = |process| {
            // A record of several processes is stored under the first one's number.
            let process = if processes > 1 { process } else { record.process };
            SampleReader::open(&self.layout.samples(&part(&record.case_id, process))).transpose()
        };
        (0..processes).filter_map(open).collect()
    }
}

fn data(values: OutputValues) -> ColumnData {
    match values {
        OutputValues::Numbers(values) => ColumnData::F32(values),
        OutputValues::Booleans(values) => ColumnData::Boolean(values),
        OutputValues::Texts(values) => ColumnData::Text(values),
    }
}

/// Returns the unit and the values of a column about training epoch by epoch.
fn learned(learning: &Learning, name: &str) -> (&'static str, Option<(u64, ColumnData)>) {
    let epochs = &learning.epochs;
    let times = |of: fn(&Epoch) -> u64| ColumnData::U64(epochs.iter().map(of).collect());
    let (unit, data) = match name {
        column::STEP_LOSS if learning.losses.is_empty() => ("1", None),
        column::STEP_LOSS => {
            let losses = learning.losses.iter().map(|loss| loss.map_or(f64::NAN, f64::from));
            ("1", Some(ColumnData::F64(losses.collect())))
        }
        column::EPOCH_LOSS => {
            let losses = epochs.iter().map(|epoch| epoch.loss.unwrap_or(f64::NAN));
            ("1", Some(ColumnData::F64(losses.collect())))
        }
        column::EPOCH_TIME => ("ns", Some(times(|epoch| epoch.time_ns))),
        column::EPOCH_READING => ("ns", Some(times(|epoch| epoch.reading_ns))),
        column::EPOCH_EXAMPLES => ("1", Some(ColumnData::U64(vec![learning.trained()]))),
        _ => {
            let part = |epoch: &Epoch| Some(epoch.right? as f64 / learning.test_examples as f64);
            let parts: Option<Vec<f64>> = epochs.iter().map(part).collect();
            ("1", parts.map(ColumnData::F64))
        }
    };
    (unit, data.map(|data| (1, data)))
}

/// Returns the columns of the marks that a requested name stands for.
fn mark_columns(samples: &[SampleReader], asked: &str) -> Result<Vec<Column>, StoreError> {
    let mut all: Option<MeasuredMarks> = None;
    for samples in samples {
        if let Some(marks) = samples.read_marks()? {
            all.get_or_insert_default().extend(marks);
        }
    }
    let Some(MeasuredMarks { phases, durations_ns, counts, within_ns }) = all else {
        return Ok(Vec::new());
    };
    let column = |name: String, unit: &str, values| Column {
        name,
        unit: unit.into(),
        width: 1,
        data: ColumnData::U64(values),
    };
    Ok(match asked {
        column::PHASES => phases
            .into_iter()
            .zip(durations_ns)
            .map(|(phase, durations)| column(format!("phase.{phase}"), "ns", durations))
            .collect(),
        // If no query has any, there is nothing to count.
        _ if within_ns.is_empty() => Vec::new(),
        column::TOKENS => vec![column(asked.into(), "1", counts)],
        _ => vec![column(asked.into(), "ns", within_ns)],
    })
}

/// Returns the coordinates of a case by name, and the confidence that the manifest asks for.
fn attributes(record: &CaseRecord) -> BTreeMap<String, String> {
    let coordinate = |axis: &Axis| Some((axis.name().to_owned(), axis.value(&record.key)?));
    let mut attributes: BTreeMap<String, String> =
        Axis::ALL.iter().filter_map(coordinate).collect();
    if let Some(confidence) = record.spec.as_ref().and_then(|spec| spec.measure.confidence) {
        attributes.insert("confidence".into(), confidence.level.get().to_string());
    }
    attributes
}

/// The ended cases of a run, read from its journal one at a time, each with all of its
/// processes.
///
/// Labels are not included: [`RunFolder::columns`] reads those. A case recorded twice is an
/// error. After the last record, [`Records::torn`] returns whether a crash truncated the journal.
#[derive(Debug)]
pub struct Records {
    lines: JournalRecords,
    processes: Processes,
}

impl Records {
    fn open(layout: &Layout) -> Result<Self, StoreError> {
        Ok(Self { lines: JournalRecords::open(layout)?, processes: Processes::default() })
    }

    /// Returns the torn last line, once it has been read.
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
            match host_files::read(&path, LONGEST_FILE) {
                Ok(text) => record.standard_error = String::from_utf8_lossy(&text).into_owned(),
                Err(error) => return Some(Err(StoreError::unread(&path)(error))),
            }
        }
        Some(Ok(record))
    }
}

/// Returns the number of the first line of a file that contains a text, from 1; 1 if there is none.
fn line_of(path: &Path, text: &str) -> Result<u64, StoreError> {
    let whole = host_files::read_to_string(path, LONGEST_FILE).map_err(StoreError::unread(path))?;
    Ok(whole.find(text).map_or(1, |at| whole[..at].matches('\n').count() as u64 + 1))
}

/// Returns the name of a folder, also of one that is named by `.` or `..`.
fn own_name(path: &Path) -> Result<String, StoreError> {
    match path.file_name() {
        Some(name) => Ok(name.to_string_lossy().into_owned()),
        None => {
            let whole = path.canonicalize().map_err(StoreError::io("find", path))?;
            Ok(whole.file_name().unwrap_or_default().to_string_lossy().into_owned())
        }
    }
}

/// Returns the names of a folder's files without extensions; a folder that does not exist has none.
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

/// Reads a small JSON file; `None` if there is none.
pub(super) fn read_json<T: DeserializeOwned>(
    path: &Path,
    version: impl FnOnce(&T) -> u32,
) -> Result<Option<T>, StoreError> {
    let text = match host_files::read(path, LONGEST_FILE) {
        Ok(text) => text,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(StoreError::unread(path)(error)),
    };
    match earlier::read::<T>(&text) {
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

/// Returns the newest line for each key, in the order of the lines that are kept.
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
