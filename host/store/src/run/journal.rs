//! A line of the journal, with the lengths of the case's files and the number of its queries.

use std::fs;
use std::io::ErrorKind;

use host_record::CaseRecord;
use serde::{Deserialize, Serialize};

use super::layout::Layout;
use super::lost::CaseFile;
use super::samples::SampleReader;
use crate::error::StoreError;

/// The lengths of a case's files in bytes, as the journal keeps them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Files {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    samples: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outputs: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    labels: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profiles: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device_states: Option<u64>,
    /// Measured queries in the file of samples; absent in records of older hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queries: Option<u64>,
}

impl Files {
    /// Returns the current files of a process of a case.
    pub(super) fn of(layout: &Layout, part: &str) -> Result<Self, StoreError> {
        let length = |file: CaseFile| {
            let path = file.path(layout, part);
            match fs::metadata(&path) {
                Ok(metadata) => Ok(Some(metadata.len())),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(StoreError::io("read", &path)(error)),
            }
        };
        // A file that cannot be read is found when it is needed.
        let samples = SampleReader::open(&CaseFile::Samples.path(layout, part)).ok().flatten();
        Ok(Self {
            queries: samples.map(|samples| samples.len() as u64),
            samples: length(CaseFile::Samples)?,
            outputs: length(CaseFile::Outputs)?,
            labels: length(CaseFile::Labels)?,
            profiles: length(CaseFile::Profile)?,
            device_states: length(CaseFile::DeviceStates)?,
        })
    }

    /// Returns the number of measured queries in the file of samples, if it was recorded.
    pub(super) fn queries(self) -> Option<u64> {
        self.queries
    }

    /// Returns the length of a file.
    pub(super) fn length(self, file: CaseFile) -> Option<u64> {
        match file {
            CaseFile::Samples => self.samples,
            CaseFile::Outputs => self.outputs,
            CaseFile::Labels => self.labels,
            CaseFile::Profile => self.profiles,
            CaseFile::DeviceStates => self.device_states,
        }
    }
}

/// A line of the journal as written.
#[derive(Serialize)]
pub(super) struct JournalLine<'record> {
    #[serde(flatten)]
    pub(super) record: &'record CaseRecord,
    /// Absent for a case that was never started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) files: Option<Files>,
}
