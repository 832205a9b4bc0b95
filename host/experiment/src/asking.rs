/*!
Cases beyond the matrix, which recommenders ask for.

A recommender that a manifest lets ask is called with the results so far. It names a case of the run, and other values on
some axes. The wish is planned at once, by the same planner and from the same files and devices as the matrix, so a wish
that the model or the device cannot fulfil is refused with the planner's reason. What is granted is measured after the
call, recorded in the same run and marked with the recommender and its reason. Then the recommender is called again. So a
search, such as for the largest batch that fits, is a function of what was measured: it can be interrupted and resumed, and
no call waits for a measurement.

What is left of a grant is computed from the run folder, and so is the same after an interruption.
*/

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use host_manifest::Ask;
use host_plan::{BackendFacts, PlannedCase};
use host_record::{Asked, Axis, CaseKey, CaseSpec, Order};
use host_store::RunFolder;
use host_wasm::{Grant, MoreCases};

use crate::draft::{Files, Manifest};
use crate::error::Result;

/// Inputs for planning a further case.
pub(crate) struct Planner {
    pub(crate) manifest: Manifest,
    pub(crate) files: Files,
    pub(crate) backends: BTreeMap<String, BackendFacts>,
}

impl Planner {
    /// Plans one case.
    fn case(&self, key: &CaseKey) -> Result<Box<CaseSpec>, String> {
        let plan = self.manifest.plan_case(key, &self.files, self.backends.clone())?;
        match plan.items().next() {
            Some(PlannedCase::Case(case)) => Ok(case),
            Some(PlannedCase::Gap { gap, .. }) => Err(gap.to_string()),
            None => Err("it cannot be planned".to_owned()),
        }
    }
}

/// The cases of a run, and what recommenders have used of their grants.
struct KnownCases {
    /// Coordinates by the case's id, and whether the case has ended.
    cases: BTreeMap<String, (CaseKey, bool)>,
    /// Cases that this recommender has asked for and that have ended, and the time that they took in nanoseconds.
    used: (u32, u64),
}

impl KnownCases {
    fn read(folder: &RunFolder, recommender: &str) -> Result<Self> {
        let mut cases = BTreeMap::new();
        for line in folder.plan()? {
            let line = line?;
            cases.insert(line.case_id, (line.key, false));
        }
        let mut used = (0, 0_u64);
        for record in folder.records()? {
            let record = record?;
            let asked = record.spec.as_ref().and_then(|spec| spec.asked.as_ref());
            if asked.is_some_and(|asked| asked.by == recommender) {
                used = (used.0 + 1, used.1.saturating_add(record.elapsed_ns));
            }
            cases.insert(record.case_id, (record.key, true));
        }
        Ok(Self { cases, used })
    }
}

/// The wishes of one call.
pub(crate) struct Wishes {
    planner: Rc<Planner>,
    recommender: String,
    known: KnownCases,
    left: Grant,
    taken: RefCell<Vec<CaseSpec>>,
}

impl Wishes {
    /// Prepares a call of a recommender, with what is left of its grant.
    pub(crate) fn of(
        recommender: &str,
        granted: Ask,
        planner: &Rc<Planner>,
        folder: &RunFolder,
    ) -> Result<Self> {
        let known = KnownCases::read(folder, recommender)?;
        let left = Grant {
            cases: granted.cases.saturating_sub(known.used.0),
            seconds: granted.time_ns.saturating_sub(known.used.1) as f64 / 1e9,
        };
        Ok(Self {
            planner: Rc::clone(planner),
            recommender: recommender.to_owned(),
            known,
            left,
            taken: RefCell::default(),
        })
    }

    /// Returns the cases that were asked for, and whether each is new to the plan: one that an interruption has kept from
    /// being measured is not.
    pub(crate) fn taken(&self) -> Vec<(CaseSpec, bool)> {
        let with_news = |case: CaseSpec| {
            let is_new = !self.known.cases.contains_key(&case.id);
            (case, is_new)
        };
        self.taken.borrow_mut().drain(..).map(with_news).collect()
    }
}

impl MoreCases for Wishes {
    fn left(&self) -> Grant {
        let taken = u32::try_from(self.taken.borrow().len()).unwrap_or(u32::MAX);
        Grant { cases: self.left.cases.saturating_sub(taken), ..self.left }
    }

    fn ask(&self, like: &str, changes: &[(String, String)], reason: &str) -> Result<(), String> {
        let left = self.left();
        if left.cases == 0 {
            return Err("the number of cases that the manifest grants is used up".to_owned());
        }
        if left.seconds <= 0.0 {
            return Err("the time that the manifest grants is used up".to_owned());
        }
        if self.planner.manifest.experiment.measure.order == Order::Paired {
            return Err(
                "cases that are measured in pairs have no place for a single one".to_owned()
            );
        }
        let Some((like, _)) = self.known.cases.get(like) else {
            return Err(format!("{like:?} is not a case of this run"));
        };
        let mut key = like.clone();
        for (axis, value) in changes {
            let axis: Axis = axis.parse()?;
            axis.set(&mut key, value).map_err(|reason| format!("{axis} {value:?}: {reason}"))?;
        }
        let mut case = self.planner.case(&key)?;
        let is_known = self.known.cases.get(&case.id).is_some_and(|(_, has_ended)| *has_ended);
        let mut taken = self.taken.borrow_mut();
        if is_known || taken.iter().any(|other| other.id == case.id) {
            return Err(format!("the run has it already: case {}", case.id));
        }
        let reason = reason.to_owned();
        case.asked = Some(Asked { by: self.recommender.clone(), reason });
        case.index = (self.known.cases.len() + taken.len()) as u64;
        taken.push(*case);
        Ok(())
    }
}
