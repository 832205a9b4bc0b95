//! Recording of cases, with what a run does not know and its caller does.

use host_record::{CaseRecord, CaseSpec, OutputBlock, Recorder, SampleBlock};
use host_store::{RunWriter, StoreError};

/// Records cases in a run folder, each record changed by a function, which returns `None` for one that stays as it is.
pub(crate) struct Amending<'a, Amend> {
    pub(crate) writer: &'a mut RunWriter,
    pub(crate) amend: Amend,
}

impl<Amend: Fn(&CaseRecord) -> Option<CaseRecord>> Recorder for Amending<'_, Amend> {
    type Error = StoreError;

    fn case_started(&mut self, case: &CaseSpec) -> Result<(), StoreError> {
        self.writer.case_started(case)
    }

    fn samples(&mut self, block: &SampleBlock) -> Result<(), StoreError> {
        self.writer.samples(block)
    }

    fn outputs(&mut self, block: &OutputBlock) -> Result<(), StoreError> {
        self.writer.outputs(block)
    }

    fn case_finished(&mut self, record: &CaseRecord) -> Result<(), StoreError> {
        match (self.amend)(record) {
            Some(amended) => self.writer.case_finished(&amended),
            None => self.writer.case_finished(record),
        }
    }
}
