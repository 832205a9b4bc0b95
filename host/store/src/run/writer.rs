//! Writing a run folder.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use host_record::{
    CaseRecord, CaseSpec, Outcome, OutputBlock, Processes, RECORD_VERSION, Recorder, SampleBlock,
    part,
};
use serde::Deserialize;

use super::device_states::write_device_states;
use super::durable::{make_folder, partial, settle, write_json, write_whole};
use super::folder::{JournalRecords, RunFolder, stems};
use super::header::{
    Counts, PlanLine, RecommendationRecord, ResultRecord, RunFinished, now, rfc3339,
};
use super::journal::{Files, JournalLine};
use super::layout::{CASE_FOLDERS, Layout};
use super::lines::{self, Appender, CASE_ID_RULE, Lines, TornLine, is_case_id};
use super::lock::lock;
use super::lost::{Loss, LostFile};
use super::outputs::{OutputWriter, write_labels};
use super::profile::write_profile;
use super::samples::SampleWriter;
use crate::error::StoreError;

/// A run folder, open for writing; the only writer, because it holds the folder's lock.
///
/// The [`Recorder`] of real runs. When a case ends, its files reach stable storage first and its journal line last,
/// with their lengths: a case in the journal has all its files, unless they are removed later, which
/// [`RunFolder::lost_files`] detects.
#[derive(Debug)]
pub struct RunWriter {
    folder: RunFolder,
    journal: Appender,
    recorded: Recorded,
    torn: Option<TornLine>,
    current: Option<Current>,
    results: Option<Appender>,
    recommendations: Option<Appender>,
    /// Held until the writer is dropped; the operating system frees it if the process dies. A part has none: its
    /// folder belongs to the task that created it.
    _lock: Option<File>,
}

/// Contents of the journal.
#[derive(Debug, Default)]
struct Recorded {
    /// Processes of cases.
    parts: HashSet<String>,
    /// Cases that have ended.
    cases: HashSet<String>,
    counts: Counts,
    processes: Processes,
    /// Ratios of the processes of cases that are measured in pairs.
    ratios: HashMap<String, BTreeMap<u32, f64>>,
}

impl Recorded {
    fn add(&mut self, record: CaseRecord) {
        self.parts.insert(record.part());
        if let Some(paired) = record.report().and_then(|report| report.paired.as_ref()) {
            let ratios = self.ratios.entry(record.case_id.clone()).or_default();
            ratios.insert(record.process, paired.ratio);
        }
        if let Some(case) = self.processes.add(record) {
            self.counts.add(&case.outcome);
            self.cases.insert(case.case_id);
        }
    }

    fn has(&self, case_id: &str, process: u32) -> bool {
        self.cases.contains(case_id) || self.parts.contains(&part(case_id, process))
    }
}

#[derive(Debug)]
struct Current {
    part: String,
    samples: SampleWriter,
    outputs: OutputWriter,
}

impl RunWriter {
    pub(super) fn lock(folder: RunFolder) -> Result<Self, StoreError> {
        let lock = lock(&folder.layout)?;
        Self::of(folder, Some(lock))
    }

    pub(super) fn without_lock(folder: RunFolder) -> Result<Self, StoreError> {
        Self::of(folder, None)
    }

    fn of(folder: RunFolder, lock: Option<File>) -> Result<Self, StoreError> {
        let (journal, recorded, torn) = journal(&folder.layout)?;
        Ok(Self {
            journal,
            recorded,
            torn,
            current: None,
            results: None,
            recommendations: None,
            folder,
            _lock: lock,
        })
    }

    /// Returns the folder, for reading the data written so far.
    #[must_use]
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// Returns whether a process of a case is in the journal, or the case has ended without it.
    #[must_use]
    pub fn is_recorded(&self, case_id: &str, process: u32) -> bool {
        self.recorded.has(case_id, process)
    }

    /// Returns the ratio of each recorded process of a case that is measured in a pair, in the order of the processes: the
    /// time per query of this case by that of the other.
    #[must_use]
    pub fn ratios(&self, case_id: &str) -> Vec<f64> {
        self.recorded.ratios.get(case_id).into_iter().flat_map(BTreeMap::values).copied().collect()
    }

    /// Removes the processes of two cases that are recorded for one of them only: the host ended between the records of
    /// both sides of a pair. Returns whether there were any.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written.
    pub fn forget_half_pairs(&mut self, case_ids: [&str; 2]) -> Result<bool, StoreError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        struct Process {
            case_id: String,
            #[serde(default)]
            process: u32,
        }
        let processes = |case_id: &str| -> BTreeSet<u32> {
            let of_case = self.recorded.parts.iter().filter_map(|part| part.strip_prefix(case_id));
            of_case
                .filter_map(|rest| match rest.strip_prefix('.') {
                    Some(process) => process.parse().ok(),
                    None => rest.is_empty().then_some(0),
                })
                .collect()
        };
        let [first, second] = case_ids.map(processes);
        let alone: BTreeSet<u32> = first.symmetric_difference(&second).copied().collect();
        if alone.is_empty() {
            return Ok(false);
        }
        let is_alone =
            |case_id: &str, process| case_ids.contains(&case_id) && alone.contains(&process);
        lines::retain(&self.folder.layout.journal(), |line: &Process| {
            !is_alone(&line.case_id, line.process)
        })?;
        for (case_id, process) in
            case_ids.iter().flat_map(|id| alone.iter().map(move |it| (id, it)))
        {
            self.drop_part(&part(case_id, *process))?;
        }
        (self.journal, self.recorded, _) = journal(&self.folder.layout)?;
        Ok(true)
    }

    /// Returns the outcomes of the cases that have ended.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.recorded.counts
    }

    /// Returns the number of lines of the journal: processes of cases, and gaps.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.recorded.parts.len() as u64
    }

    /// Returns the journal's line that was truncated by a crash and cut off on resuming.
    #[must_use]
    pub fn torn(&self) -> Option<&TornLine> {
        self.torn.as_ref()
    }

    /// Returns the folder of references' outputs until the run is finished; it need not exist.
    #[must_use]
    pub fn references_folder(&self) -> PathBuf {
        self.folder.layout.references()
    }

    /// Starts writing the plan, a line at a time.
    ///
    /// # Errors
    ///
    /// If the file cannot be created.
    pub fn plan_writer(&self) -> Result<PlanWriter, StoreError> {
        let path = self.folder.layout.plan();
        let beside = partial(&path);
        let file = File::create(&beside).map_err(StoreError::io("create", &beside))?;
        Ok(PlanWriter { writer: BufWriter::with_capacity(1 << 16, file), path })
    }

    /// Adds a case to the plan that the manifest's matrix does not have. It is on stable storage before the case is measured.
    ///
    /// # Errors
    ///
    /// If the plan cannot be read, or the file cannot be written.
    pub fn add_to_plan(&self, line: &PlanLine) -> Result<(), StoreError> {
        let path = self.folder.layout.plan();
        let mut lines = Lines::<PlanLine>::open(path.clone())?;
        for line in lines.by_ref() {
            line?;
        }
        let mut plan = Appender::open(path, lines.complete_bytes())?;
        plan.append(line)?;
        plan.sync()
    }

    /// Records a metric's results for a case. They are on stable storage after
    /// [`RunWriter::finish`]; until then a crash can lose them, but they can be recomputed.
    ///
    /// # Errors
    ///
    /// If a value is not a finite number, or the file cannot be written.
    pub fn record_result(&mut self, result: &ResultRecord) -> Result<(), StoreError> {
        for value in &result.values {
            let bounds = value.interval.map_or([0.0; 2], |(low, high)| [low, high]);
            let point = *value.value.as_ref().unwrap_or(&0.0);
            if let Some(odd) = [point, bounds[0], bounds[1]].iter().find(|x| !x.is_finite()) {
                return Err(StoreError::NotFinite {
                    case_id: result.case_id.clone(),
                    metric: value.metric.clone(),
                    value: *odd,
                });
            }
        }
        let path = self.folder.layout.results();
        opened::<ResultRecord>(&mut self.results, path)?.append(result)
    }

    /// Puts the results so far on stable storage, for a run that ended long ago.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn sync_results(&self) -> Result<(), StoreError> {
        self.results.as_ref().map_or(Ok(()), Appender::sync)
    }

    /// Records a recommender's advice, in the same way.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn record_recommendations(
        &mut self,
        record: &RecommendationRecord,
    ) -> Result<(), StoreError> {
        let path = self.folder.layout.recommendations();
        opened::<RecommendationRecord>(&mut self.recommendations, path)?.append(record)
    }

    /// Ends the measuring: puts results and recommendations on stable storage, so that reports can be written. This
    /// folder shows the end from now on; other readers see it after [`RunWriter::finish`].
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn end(&mut self) -> Result<RunFinished, StoreError> {
        self.abandon()?;
        for appender in [&self.results, &self.recommendations].into_iter().flatten() {
            appender.sync()?;
        }
        let ended = RunFinished {
            record_version: RECORD_VERSION,
            finished_at: rfc3339(now()),
            counts: self.recorded.counts,
        };
        self.folder.ended = Some(ended.clone());
        Ok(ended)
    }

    /// Completes the run: ends it if needed, and writes `finished.json`. Call it last, after the reports.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn finish(&mut self) -> Result<RunFinished, StoreError> {
        let finished = match self.folder.ended.clone() {
            Some(ended) => ended,
            None => self.end()?,
        };
        self.folder.ended = None;
        write_json(&self.folder.layout.finished(), &finished)?;
        // They can be large, and the comparisons with them are in the journal.
        let references = self.references_folder();
        match fs::remove_dir_all(&references) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::io("remove", &references)(error)),
        }
        Ok(finished)
    }

    /// Removes finished cases that have lost a file, so that they are measured again: their results, then their lines
    /// of the journal, then the rest of their files. Returns the lost files. For a resumed run, before its first
    /// case.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written; also if the operating system refuses to read a file, because it may
    /// be complete. A case that is not yet removed is still lost, so this can be tried again.
    pub fn forget_lost(&mut self) -> Result<Vec<LostFile>, StoreError> {
        let lost = self.folder.lost_files()?;
        if lost.is_empty() {
            return Ok(lost);
        }
        for lost in &lost {
            if let Loss::Refused { detail } = &lost.loss {
                return Err(StoreError::io("read", &lost.path)(std::io::Error::other(&**detail)));
            }
        }
        let cases: HashSet<&str> = lost.iter().map(|lost| lost.case_id.as_str()).collect();
        let layout = &self.folder.layout;
        self.results = None;
        forget(&layout.results(), |case_id| cases.contains(case_id))?;
        forget(&layout.journal(), |case_id| cases.contains(case_id))?;
        let of_lost = |part: &&String| cases.contains(part.split('.').next().unwrap_or_default());
        for part in self.recorded.parts.iter().filter(of_lost) {
            self.drop_part(part)?;
        }
        (self.journal, self.recorded, _) = journal(layout)?;
        Ok(lost)
    }

    /// Appends a line to the journal; [`Self::sync_journal`] puts it on stable storage.
    pub(super) fn append(&mut self, line: &JournalLine<'_>) -> Result<(), StoreError> {
        self.journal.append(line)
    }

    pub(super) fn sync_journal(&self) -> Result<(), StoreError> {
        self.journal.sync()
    }

    /// Counts a record that is in the journal.
    pub(super) fn add(&mut self, record: CaseRecord) {
        self.recorded.add(record);
    }

    /// Removes the folder of a run that could not be started.
    ///
    /// # Errors
    ///
    /// If the file system refuses.
    pub fn discard(self) -> Result<(), StoreError> {
        let root = self.folder.path();
        fs::remove_dir_all(root).map_err(StoreError::io("remove", root))
    }

    /// Removes files that belong to no recorded process of a case.
    pub(super) fn drop_leftovers(&self) -> Result<(), StoreError> {
        for name in CASE_FOLDERS {
            for part in stems(&self.folder.path().join(name))? {
                if !self.recorded.parts.contains(&part) {
                    tracing::info!(%part, "dropping what an unfinished case left behind");
                    self.drop_part(&part)?;
                }
            }
        }
        Ok(())
    }

    fn drop_part(&self, part: &str) -> Result<(), StoreError> {
        for path in self.folder.layout.case_files(part) {
            for path in [partial(&path), path] {
                match fs::remove_file(&path) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(StoreError::io("remove", &path)(error)),
                }
            }
        }
        Ok(())
    }

    /// Drops the case in progress, which did not end.
    fn abandon(&mut self) -> Result<(), StoreError> {
        match self.current.take() {
            Some(current) => self.drop_part(&current.part),
            None => Ok(()),
        }
    }

    fn check_new(&self, case_id: &str, process: u32) -> Result<(), StoreError> {
        let wrong = |detail| Err(StoreError::OutOfOrder { case_id: case_id.into(), detail });
        if !is_case_id(case_id) {
            return wrong(CASE_ID_RULE);
        }
        if self.is_recorded(case_id, process) {
            return wrong("it is already in the journal");
        }
        Ok(())
    }

    fn current(&mut self) -> Result<&mut Current, StoreError> {
        self.current.as_mut().ok_or(StoreError::OutOfOrder {
            case_id: String::new(),
            detail: "samples and outputs belong to a case that has started and not ended",
        })
    }
}

impl Recorder for RunWriter {
    type Error = StoreError;

    fn case_started(&mut self, case: &CaseSpec) -> Result<(), StoreError> {
        self.abandon()?;
        self.check_new(&case.id, case.process)?;
        let part = case.part();
        self.drop_part(&part)?;
        let layout = &self.folder.layout;
        self.current = Some(Current {
            samples: SampleWriter::new(layout.samples(&part)),
            outputs: OutputWriter::new(layout.outputs(&part)),
            part,
        });
        Ok(())
    }

    fn samples(&mut self, block: &SampleBlock) -> Result<(), StoreError> {
        self.current()?.samples.push(block)
    }

    fn outputs(&mut self, block: &OutputBlock) -> Result<(), StoreError> {
        self.current()?.outputs.push(block)
    }

    fn case_finished(&mut self, record: &CaseRecord) -> Result<(), StoreError> {
        self.check_new(&record.case_id, record.process)?;
        let part = record.part();
        if let Some(current) = self.current.take_if(|current| current.part == part) {
            current.samples.finish()?;
            current.outputs.finish()?;
        } else {
            self.abandon()?;
        }

        // Long data is kept beside the journal, so that the journal stays fast to read.
        let mut record = record.clone();
        if let Outcome::Finished(report) = &mut record.outcome {
            let labels = std::mem::take(&mut report.labels);
            if !labels.is_empty() {
                write_labels(&self.folder.layout.labels(&part), &labels)?;
            }
            let profile = std::mem::take(&mut report.profile);
            if !profile.is_empty() {
                write_profile(&self.folder.layout.profile(&part), &profile)?;
            }
            let states = std::mem::take(&mut report.device_states);
            if !states.is_empty() {
                write_device_states(&self.folder.layout.device_states(&part), &states)?;
            }
        }
        let standard_error = std::mem::take(&mut record.standard_error);
        if !standard_error.is_empty() {
            let path = self.folder.layout.standard_error(&part);
            make_folder(path.parent().unwrap_or(Path::new(".")))?;
            write_whole(&path, standard_error.as_bytes())?;
        }

        let files = match &record.outcome {
            Outcome::Gap { .. } => None,
            _ => Some(Files::of(&self.folder.layout, &part)?),
        };
        self.journal.append(&JournalLine { record: &record, files })?;
        self.journal.sync()?;
        self.recorded.add(record);
        Ok(())
    }
}

/// Removes the lines of some cases from a file, which is replaced as a whole.
fn forget(path: &Path, is_forgotten: impl Fn(&str) -> bool) -> Result<(), StoreError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Case {
        case_id: String,
    }
    lines::retain(path, |case: &Case| !is_forgotten(&case.case_id))
}

/// Opens the journal for appending, and returns its contents.
fn journal(layout: &Layout) -> Result<(Appender, Recorded, Option<TornLine>), StoreError> {
    let mut lines = JournalRecords::open(layout)?;
    let mut recorded = Recorded::default();
    for record in lines.by_ref() {
        recorded.add(record?);
    }
    let journal = Appender::open(layout.journal(), lines.complete_bytes())?;
    Ok((journal, recorded, lines.torn().cloned()))
}

/// Opens a file of lines for appending when it is first needed.
fn opened<T: serde::de::DeserializeOwned + lines::Line>(
    appender: &mut Option<Appender>,
    path: PathBuf,
) -> Result<&mut Appender, StoreError> {
    Ok(match appender {
        Some(appender) => appender,
        none => {
            let mut lines = Lines::<T>::open(path.clone())?;
            for line in lines.by_ref() {
                line?;
            }
            none.insert(Appender::open(path, lines.complete_bytes())?)
        }
    })
}

/// Writes `plan.jsonl`, a line at a time: a million lines need no memory.
#[derive(Debug)]
pub struct PlanWriter {
    writer: BufWriter<File>,
    path: PathBuf,
}

impl PlanWriter {
    /// Writes a line.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&mut self, line: &PlanLine) -> Result<(), StoreError> {
        serde_json::to_writer(&mut self.writer, line)
            .map_err(std::io::Error::from)
            .and_then(|()| self.writer.write_all(b"\n"))
            .map_err(StoreError::io("write", &self.path))
    }

    /// Completes the plan on stable storage.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.writer.flush().map_err(StoreError::io("write", &self.path))?;
        settle(&self.path)
    }
}
