//! Reading the part of a run folder that comparisons need: the rest of each line is skipped.

use std::collections::HashMap;

use host_record::{CaseGlance, GlancedLine, Glances, part};

use super::folder::RunFolder;
use super::glanced::{GlancedResult, GlancedValue};
use super::lines::Lines;
use crate::error::StoreError;

impl RunFolder {
    /// Returns what comparisons need of the recorded cases, in the order in which they ended. Much faster than
    /// [`RunFolder::records`].
    ///
    /// # Errors
    ///
    /// If the journal cannot be read or is damaged.
    pub fn glances(&self) -> Result<Vec<CaseGlance>, StoreError> {
        let path = self.layout.journal();
        let mut lines = Lines::<GlancedLine>::open(path.clone())?;
        let (mut seen, mut glances) = (HashMap::new(), Glances::default());
        let mut cases = Vec::new();
        while let Some(line) = lines.next() {
            let line = line?;
            let part = part(&line.case_id, line.process);
            let number = lines.line();
            if let Some(earlier) = seen.insert(part.clone(), number) {
                let detail = format!("case `{part}` is already on line {earlier}");
                return Err(StoreError::Malformed { path, line: number, detail });
            }
            cases.extend(glances.add(line));
        }
        Ok(cases)
    }

    /// Returns what comparisons need of the metrics' results, by the case: of each plugin with the same options the newest
    /// line, in the order of the file. Much faster than [`RunFolder::results`].
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is damaged.
    pub fn glanced_results(&self) -> Result<HashMap<String, Vec<GlancedValue>>, StoreError> {
        let mut kept: HashMap<String, Vec<Option<GlancedResult>>> = HashMap::new();
        for line in Lines::<GlancedResult>::open(self.layout.results())? {
            let line = line?;
            let of_case = kept.entry(line.case_id.clone()).or_default();
            let is_same = |other: &&mut Option<GlancedResult>| {
                other.as_ref().is_some_and(|other| {
                    (&other.plugin.id, &other.options) == (&line.plugin.id, &line.options)
                })
            };
            // A later line replaces an earlier one.
            if let Some(earlier) = of_case.iter_mut().find(is_same) {
                *earlier = None;
            }
            of_case.push(Some(line));
        }
        let values = |lines: Vec<Option<GlancedResult>>| {
            lines.into_iter().flatten().flat_map(|line| line.values).collect()
        };
        Ok(kept.into_iter().map(|(case, lines)| (case, values(lines))).collect())
    }
}
