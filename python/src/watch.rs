/*!
Running on a thread beside Python, which stays able to interrupt.

The experiment runs on a thread of its own. The caller's thread waits without the interpreter's lock, and wakes ten times
a second to look for signals, because Python runs its signal handlers only when it is asked to. An interrupt asks the
experiment to stop, and the caller waits until what is finished is kept; a second one is raised at once.

While a case is measured nothing is sent, so that no line of Python runs beside the clock, except for those looks.
*/

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use host_cli::front_end::Words;
use host_experiment::{Interrupt, Notice, Observer, Progress};
use host_record::{CaseKey, CaseRecord, Outcome};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Time between two looks for signals.
const LOOK: Duration = Duration::from_millis(100);

/// Something for the caller's watcher.
enum Event {
    Notice(String),
    Begin { total: u64, done: u64 },
    Started(CaseKey),
    Finished(CaseKey, Option<String>),
    End,
}

/// Sends events to the caller's thread.
struct Sending<'words> {
    words: Box<dyn FnMut(Notice<'_>) -> Option<String> + 'words>,
    events: Sender<Event>,
}

impl Sending<'_> {
    /// The caller may have gone, after a second interrupt.
    fn send(&self, event: Event) {
        drop(self.events.send(event));
    }
}

impl Observer for Sending<'_> {
    fn notice(&mut self, notice: Notice<'_>) {
        if let Some(text) = (self.words)(notice) {
            self.send(Event::Notice(text));
        }
    }

    fn progress(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::Measuring { done, total, .. } => self.send(Event::Begin { total, done }),
            Progress::MeasuringMore { total, .. } => self.send(Event::Begin { total, done: 0 }),
            Progress::CaseStarted(case) => self.send(Event::Started(case.key.clone())),
            Progress::CaseFinished(record) => {
                self.send(Event::Finished(record.key.clone(), reason(record)));
            }
            Progress::Measured => self.send(Event::End),
            _ => {}
        }
    }
}

/// Returns why a case did not finish.
fn reason(record: &CaseRecord) -> Option<String> {
    match &record.outcome {
        Outcome::Failed { failure } => Some(failure.to_string()),
        _ => None,
    }
}

/// Result of work beside Python: what it returned, and whether the caller asked it to stop.
pub(crate) struct Done<T> {
    pub(crate) outcome: T,
    pub(crate) interrupted: bool,
}

/// Does work on a thread of its own, and tells `watcher` of it, whose methods `notice`, `begin`, `started`, `finished` and
/// `end` are called on this thread.
///
/// # Errors
///
/// What the watcher raises, after the work has stopped; and a second interrupt.
pub(crate) fn beside<T: Send + 'static>(
    py: Python<'_>,
    watcher: &Bound<'_, PyAny>,
    interrupt: &Interrupt,
    work: impl FnOnce(&mut dyn Observer) -> T + Send + 'static,
) -> PyResult<Done<T>> {
    let (events, received) = mpsc::channel();
    let thread = thread::Builder::new()
        .name("tare".into())
        .spawn(move || {
            let words = Words::default();
            let mut observer = Sending { words: Box::new(words.speaker()), events };
            work(&mut observer)
        })
        .map_err(|error| PyRuntimeError::new_err(format!("cannot start a thread: {error}")))?;
    let mut raised: Option<PyErr> = None;
    let mut received = received;
    loop {
        // A receiver cannot be shared between threads, and is moved there and back.
        let (event, back) = py.detach(move || {
            let event = received.recv_timeout(LOOK);
            (event, received)
        });
        received = back;
        let told = match event {
            Ok(event) => tell(watcher, event),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let error = told.err().or_else(|| py.check_signals().err());
        if let Some(error) = error {
            if !interrupt.interrupt() && raised.is_some() {
                return Err(error);
            }
            raised = Some(error);
        }
    }
    let outcome = py.detach(|| thread.join());
    let outcome = outcome.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        PyRuntimeError::new_err(format!("a defect of Tare: {}", text.unwrap_or_default()))
    })?;
    match raised {
        // An interrupt is the caller's to word: it knows what was kept.
        Some(error) if !error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) => {
            Err(error)
        }
        raised => Ok(Done { outcome, interrupted: raised.is_some() }),
    }
}

fn tell(watcher: &Bound<'_, PyAny>, event: Event) -> PyResult<()> {
    match event {
        Event::Notice(text) => watcher.call_method1("notice", (text,)),
        Event::Begin { total, done } => watcher.call_method1("begin", (total, done)),
        Event::Started(key) => watcher.call_method1("started", (key.to_string(),)),
        Event::Finished(key, reason) => watcher.call_method1("finished", (key.to_string(), reason)),
        Event::End => watcher.call_method0("end"),
    }
    .map(drop)
}
