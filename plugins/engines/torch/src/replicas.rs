/*!
Training on several devices of one host at once: each has a copy of the model and a part of each batch, and gradients are
averaged before the weights change, so that all copies stay the same.

A replica is a thread, and not a process: what keeps Python from using threads for this is its interpreter. On graphics
processors gradients are averaged by NCCL, through its C functions, in the library that PyTorch brings. On a processor
replicas hand their gradients over in memory, and the first adds them up in the order of the replicas, so that the same
seeds give the same losses.

All gradients are exchanged after the backward pass, as a phase of its own. Overlapping the two, as PyTorch's
`DistributedDataParallel` does, would hide part of the time and make it impossible to state.
*/

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use tch::{Device, Kind, Tensor};

use crate::compute::Compute;
use crate::error::{Wrong, wrong};
use crate::native;
use crate::onnx::Graph;
use crate::program::Program;
use crate::training::{Part, Settings, Trainer};

/// Asks a replica for something.
enum Command {
    /// A part of a step, on a part of the batch if it begins with one.
    Run(Part, Vec<Tensor>),
    /// The gradients, to be added up elsewhere.
    Gradients,
    /// The mean of all gradients takes the place of its own.
    Average(Vec<Tensor>),
    /// Averages gradients through NCCL.
    Reduce,
    /// The results of a step.
    Take,
    /// Waits for the device.
    Wait,
    /// Gives the rank of NCCL back.
    Leave,
}

type Answer = Result<Vec<Tensor>, Wrong>;

/// A replica in a thread of its own.
struct Replica {
    commands: Option<Sender<Command>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
}

impl Replica {
    fn ask(&self, command: Command) -> Result<(), Wrong> {
        let commands = self.commands.as_ref().ok_or_else(|| wrong!("a replica has ended"))?;
        commands.send(command).map_err(|_| wrong!("a replica has ended"))
    }

    fn answer(&self) -> Answer {
        self.answers.recv().map_err(|_| wrong!("a replica has ended"))?
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // Without a sender the thread ends.
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// The replicas beside the first, which is the caller's own.
pub(crate) struct Team {
    others: Vec<Replica>,
    communicator: Option<Communicator>,
}

impl Drop for Team {
    fn drop(&mut self) {
        let Some(communicator) = &self.communicator else { return };
        // NCCL waits in each rank until all of the host are given back, so this is done at the same time everywhere. Where
        // one never came to be, none is: the process ends soon.
        let asked = self.others.iter().try_for_each(|other| other.ask(Command::Leave));
        if asked.is_ok() {
            communicator.give_back();
            drop(self.end());
        }
    }
}

impl Team {
    /// Starts replicas on the devices after the first.
    pub(crate) fn start(
        path: &Path,
        settings: Settings,
        compute: Compute,
        devices: &[Device],
    ) -> Result<Self, Wrong> {
        let mut communicators = match devices.first() {
            Some(Device::Cuda(_)) => {
                Communicator::for_all(devices)?.into_iter().map(Some).collect()
            }
            _ => devices.iter().map(|_| None).collect::<Vec<_>>(),
        }
        .into_iter();
        let communicator = communicators.next().flatten();
        let threads = tch::get_num_threads();
        let mut others = Vec::new();
        for (device, communicator) in devices.iter().skip(1).zip(communicators) {
            let (commands, inbox) = channel::<Command>();
            let (outbox, answers) = channel::<Answer>();
            let (path, device) = (path.to_owned(), *device);
            let thread = std::thread::Builder::new().name("replica".into()).spawn(move || {
                // The number of threads is one of the calling thread's.
                tch::set_num_threads(threads);
                let begun = begin(&path, settings, compute, device);
                let mut trainer = match begun {
                    Ok(trainer) => trainer,
                    Err(wrong) => {
                        drop(outbox.send(Err(wrong)));
                        return;
                    }
                };
                let mut alive = outbox.send(Ok(Vec::new())).is_ok();
                while alive && let Ok(command) = inbox.recv() {
                    let answer = serve(&mut trainer, command, communicator.as_ref());
                    alive = outbox.send(answer).is_ok();
                }
            });
            let thread = thread.map_err(|error| wrong!("a replica cannot be started: {error}"))?;
            let replica = Replica { commands: Some(commands), answers, thread: Some(thread) };
            replica.answer()?;
            others.push(replica);
        }
        Ok(Self { others, communicator })
    }

    /// Returns what averages gradients.
    pub(crate) fn described(&self) -> String {
        match &self.communicator {
            Some(Communicator { nccl, .. }) => format!("{} {}", nccl.name, nccl.version),
            None => "memory".into(),
        }
    }

    /// Returns the number of replicas, the caller's own included.
    fn count(&self) -> i64 {
        self.others.len() as i64 + 1
    }

    /// Divides inputs along their first axes into a part for each replica; returns the caller's own.
    pub(crate) fn divide(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, Wrong> {
        let count = self.count();
        let mut parts: Vec<Vec<Tensor>> = (0..count).map(|_| Vec::new()).collect();
        for input in inputs {
            match input.size().first() {
                Some(size) if *size > 0 && size % count == 0 => {}
                _ => {
                    return Err(wrong!(
                        "the option `replicas` is {count}, and an input of the shape {:?} cannot be divided into as many \
                         parts along its first axis",
                        input.size()
                    )
                    .of_request());
                }
            }
            for (part, chunk) in parts.iter_mut().zip(input.f_chunk(count, 0)?) {
                part.push(chunk);
            }
        }
        let mut parts = parts.into_iter();
        let own = parts.next().unwrap_or_default();
        for (other, part) in self.others.iter().zip(parts) {
            other.ask(Command::Run(Part::Copy, part))?;
        }
        Ok(own)
    }

    /// Begins a part of a step everywhere else.
    pub(crate) fn begin(&self, part: Part) -> Result<(), Wrong> {
        self.others.iter().try_for_each(|other| other.ask(Command::Run(part, Vec::new())))
    }

    /// Waits until all others have done what they were asked for; an error does not leave answers of others behind.
    pub(crate) fn end(&self) -> Result<(), Wrong> {
        self.answers().map(drop)
    }

    fn answers(&self) -> Result<Vec<Vec<Tensor>>, Wrong> {
        let answers: Vec<Answer> = self.others.iter().map(Replica::answer).collect();
        answers.into_iter().collect()
    }

    /// Waits for the devices of all others.
    pub(crate) fn wait(&self) -> Result<(), Wrong> {
        self.others.iter().try_for_each(|other| other.ask(Command::Wait))?;
        self.end()
    }

    /// Averages gradients; `own` are the caller's.
    pub(crate) fn exchange(&self, own: &[Tensor], device: Device) -> Result<(), Wrong> {
        if let Some(communicator) = &self.communicator {
            self.others.iter().try_for_each(|other| other.ask(Command::Reduce))?;
            let result = communicator.average(own, device);
            self.end()?;
            return result;
        }
        self.others.iter().try_for_each(|other| other.ask(Command::Gradients))?;
        for theirs in self.answers()? {
            native::add(own, &theirs)?;
        }
        native::scale(own, 1.0 / self.count() as f64)?;
        for other in &self.others {
            other.ask(Command::Average(own.iter().map(Tensor::shallow_clone).collect()))?;
        }
        self.end()
    }

    /// Returns the results of all others, in order.
    pub(crate) fn take(&self) -> Result<Vec<Vec<Tensor>>, Wrong> {
        self.others.iter().try_for_each(|other| other.ask(Command::Take))?;
        self.answers()
    }
}

/// Loads a replica.
fn begin(
    path: &Path,
    settings: Settings,
    compute: Compute,
    device: Device,
) -> Result<Trainer, Wrong> {
    let graph = Graph::read(path)?;
    let program = tch::no_grad(|| Program::new(graph, Device::Cpu, true, compute))?;
    Trainer::new(&program, settings, compute, device)
}

fn serve(trainer: &mut Trainer, command: Command, communicator: Option<&Communicator>) -> Answer {
    match command {
        Command::Run(part, inputs) => {
            let inputs: Vec<&Tensor> = inputs.iter().collect();
            trainer.run(part, &inputs)?;
        }
        Command::Gradients => return Ok(trainer.gradients()),
        Command::Average(mean) => native::copy(&trainer.gradients(), &mean)?,
        Command::Reduce => {
            let communicator = communicator.ok_or_else(|| wrong!("there is no NCCL here"))?;
            communicator.average(&trainer.gradients(), trainer.device())?;
        }
        Command::Take => return trainer.take(),
        Command::Leave => {
            if let Some(communicator) = communicator {
                communicator.give_back();
            }
        }
        Command::Wait => {
            if let Device::Cuda(index) = trainer.device() {
                tch::Cuda::synchronize(index as i64);
            }
        }
    }
    Ok(Vec::new())
}

/// NCCL's library, with what its errors say.
#[derive(Debug)]
struct Nccl {
    library: libloading::Library,
    name: &'static str,
    /// Such as `2.28.9`.
    version: String,
}

/// `ncclRedOp_t`
const AVERAGE: c_int = 4;

type Text = unsafe extern "C" fn(c_int) -> *const c_char;
type LastError = unsafe extern "C" fn(*mut c_void) -> *const c_char;

impl Nccl {
    /// Opens the library that PyTorch has opened.
    fn open() -> Result<Self, Wrong> {
        type Version = unsafe extern "C" fn(*mut c_int) -> c_int;
        let name = if tch::utils::has_hip() { "librccl.so.1" } else { "libnccl.so.2" };
        // SAFETY: it is the library that PyTorch was linked against, and has been opened with it.
        let library = unsafe { libloading::Library::new(name) };
        let library = library.map_err(|error| wrong!("{name} cannot be opened: {error}"))?;
        let mut number = 0;
        // SAFETY: NCCL's header says what type a function of this name has.
        unsafe {
            let version = library.get::<Version>(b"ncclGetVersion\0");
            let version = version.map_err(|error| wrong!("{name}: {error}"))?;
            version(&raw mut number);
        }
        let version = format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100);
        Ok(Self { library, name, version })
    }

    /// Returns a function.
    ///
    /// # Safety
    ///
    /// `F` is the type that NCCL's header states for a function of this name.
    unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, Wrong> {
        // SAFETY: the caller's promise is passed on.
        let found = unsafe { self.library.get::<F>(name.as_bytes()) };
        found
            .map(|found| *found)
            .map_err(|error| wrong!("{} {} has no `{name}`: {error}", self.name, self.version))
    }

    /// Says what a code of an answer means, and what NCCL noted last.
    fn check(&self, code: c_int, call: &str, handle: *mut c_void) -> Result<(), Wrong> {
        if code == 0 {
            return Ok(());
        }
        let read = |text: *const c_char| {
            // SAFETY: NCCL answers with a C string of its own, or null.
            (!text.is_null())
                .then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        // SAFETY: NCCL's header says what types functions of these names have; a missing communicator is allowed.
        let (meaning, last) = unsafe {
            let meaning = self.function::<Text>("ncclGetErrorString");
            let last = self.function::<LastError>("ncclGetLastError");
            (
                meaning.ok().and_then(|text| read(text(code))),
                last.ok().and_then(|last| read(last(handle))),
            )
        };
        let meaning = meaning.unwrap_or_else(|| "of unknown meaning".into());
        let last = last.filter(|last| !last.trim().is_empty());
        let last =
            last.map_or_else(String::new, |last| format!("; its last note: {}", last.trim()));
        Err(wrong!(
            "{call} failed with code {code}, {meaning}{last} ({} {}; `NCCL_DEBUG=WARN` in the environment tells more)",
            self.name,
            self.version
        ))
    }
}

/// A rank of NCCL.
struct Communicator {
    nccl: &'static Nccl,
    handle: *mut c_void,
}

// SAFETY: a communicator may be used on any thread, by one at a time, which its only owner is.
unsafe impl Send for Communicator {}

impl Communicator {
    /// Makes a rank for each device.
    fn for_all(devices: &[Device]) -> Result<Vec<Self>, Wrong> {
        type Init = unsafe extern "C" fn(*mut *mut c_void, c_int, *const c_int) -> c_int;
        // It stays open until the process ends, as PyTorch does.
        let nccl: &'static Nccl = Box::leak(Box::new(Nccl::open()?));
        let numbers: Vec<c_int> = devices
            .iter()
            .map(|device| match device {
                Device::Cuda(index) => *index as c_int,
                _ => -1,
            })
            .collect();
        let mut handles = vec![std::ptr::null_mut(); devices.len()];
        // SAFETY: NCCL's header says what type a function of this name has; there is a place for each handle.
        let code = unsafe {
            let init = nccl.function::<Init>("ncclCommInitAll")?;
            init(handles.as_mut_ptr(), numbers.len() as c_int, numbers.as_ptr())
        };
        let call = format!("ncclCommInitAll for the devices {numbers:?}");
        nccl.check(code, &call, std::ptr::null_mut())?;
        // The call makes each device current in turn.
        if let Some(first) = devices.first() {
            native::set_device(*first)?;
        }
        Ok(handles.into_iter().map(|handle| Self { nccl, handle }).collect())
    }

    /// Replaces gradients by their means over all ranks, each of which calls this.
    fn average(&self, gradients: &[Tensor], device: Device) -> Result<(), Wrong> {
        type Group = unsafe extern "C" fn() -> c_int;
        type AllReduce = unsafe extern "C" fn(
            *const c_void,
            *mut c_void,
            usize,
            c_int,
            c_int,
            *mut c_void,
            *mut c_void,
        ) -> c_int;
        // The stream without a handle is that of the thread's device, in which libtorch queues its work too.
        native::set_device(device)?;
        let check =
            |code, call: &str| self.nccl.check(code, &format!("{call} on {device:?}"), self.handle);
        // SAFETY: NCCL's header says what types functions of these names have. Each gradient is memory of its own, with as
        // many elements as are stated, and lives until the device is done, since libtorch frees in the order of the stream.
        unsafe {
            let begin = self.nccl.function::<Group>("ncclGroupStart")?;
            let end = self.nccl.function::<Group>("ncclGroupEnd")?;
            let reduce = self.nccl.function::<AllReduce>("ncclAllReduce")?;
            check(begin(), "ncclGroupStart")?;
            let queued = (|| {
                for (at, gradient) in gradients.iter().enumerate() {
                    let kind = match gradient.f_kind()? {
                        Kind::Half => 6,
                        Kind::Float => 7,
                        Kind::Double => 8,
                        Kind::BFloat16 => 9,
                        other => return Err(wrong!("gradients of {other:?} cannot be averaged")),
                    };
                    let data = gradient.data_ptr();
                    let (count, none) = (gradient.numel(), std::ptr::null_mut());
                    let code = reduce(data, data, count, kind, AVERAGE, self.handle, none);
                    if code != 0 {
                        let (number, all) = (at + 1, gradients.len());
                        check(
                            code,
                            &format!(
                                "ncclAllReduce of gradient {number} of {all} ({count} numbers)"
                            ),
                        )?;
                    }
                }
                Ok(())
            })();
            // A group is ended in any case: the next one would be a part of it.
            let ended = check(end(), "ncclGroupEnd");
            queued.and(ended)
        }
    }

    /// Gives the rank back. Nothing may be averaged afterwards.
    fn give_back(&self) {
        type Destroy = unsafe extern "C" fn(*mut c_void) -> c_int;
        // SAFETY: NCCL's header says what type a function of this name has, and a rank is given back once: by the `Drop` of
        // the team, or for it.
        unsafe {
            if let Ok(destroy) = self.nccl.function::<Destroy>("ncclCommDestroy") {
                destroy(self.handle);
            }
        }
    }
}
