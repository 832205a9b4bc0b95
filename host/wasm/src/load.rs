/*!
From a file to a plugin: its cache entry, its kind, its compiled code, its description.

The cheapest steps come first. The cache is searched by the file's hash. The kind is read from the names at the top
level. Only then is the file compiled, one component at a time, in a separate process; and only then is it run, to
describe itself. Failures after reading are kept too, so that a hostile file costs its limits once a day and not with
every command.
*/

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use crate::answer;
use crate::cache::{Entry, Failure, deserialize, load};
use crate::compiler::{LARGEST_COMPONENT, compile_apart, compile_here};
use crate::description::Description;
use crate::engine::Compiled;
use crate::error::{GuestError, GuestErrorKind};
use crate::lines;
use crate::platform::unnamed_file;
use crate::plugin::{self, Allowance, Columns, Kind, Plugin, Profile, World};
use crate::sandbox::{Request, Sandbox};
use crate::shape::{Names, Shape, names, shape};
use host_hash::{sha256, sha256_of_reader};

/// Facts about a file that is not compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The file was loaded before, and this is its description.
    Known(Profile),
    /// The file is new, and this is its kind.
    New(Kind),
}

/// A component whose compilation takes long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiling {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A component's file.
struct Source {
    path: PathBuf,
    file: File,
    bytes: u64,
    sha256: String,
}

impl Source {
    fn open(path: &Path) -> Result<Self, GuestErrorKind> {
        let unreadable = |error| GuestErrorKind::Unreadable { path: path.to_owned(), error };
        let file = host_files::open(path).map_err(unreadable)?;
        let bytes = file.metadata().map_err(unreadable)?.len();
        if bytes > LARGEST_COMPONENT {
            return Err(GuestErrorKind::NotAComponent {
                detail: format!("it has {bytes} bytes; plugins have at most {LARGEST_COMPONENT}"),
            });
        }
        let Ok(hash) = sha256_of_reader(&mut (&file).take(LARGEST_COMPONENT), |_| {
            Ok::<_, std::convert::Infallible>(())
        });
        let sha256 = hash.map_err(unreadable)?;
        Ok(Self { path: path.to_owned(), file, bytes, sha256 })
    }

    /// Reads the bytes that were hashed.
    fn read(&mut self) -> Result<Vec<u8>, GuestErrorKind> {
        let mut bytes = Vec::new();
        let read = self
            .file
            .rewind()
            .and_then(|()| (&self.file).take(LARGEST_COMPONENT).read_to_end(&mut bytes));
        let unreadable = |error| GuestErrorKind::Unreadable { path: self.path.clone(), error };
        read.map_err(unreadable)?;
        if sha256(&bytes) != self.sha256 {
            return Err(unreadable(io::Error::other("it was changed while it was read")));
        }
        Ok(bytes)
    }
}

impl Sandbox {
    /// Returns the description of a file that was loaded before, or else its kind. Neither compiles nor runs a component; a
    /// classic module is loaded, since only it knows its kind.
    ///
    /// # Errors
    ///
    /// If the file is not a plugin that this host can run, or failed less than a day ago.
    #[tracing::instrument(skip(self), fields(path = %path.display()))]
    pub fn look(&self, path: &Path) -> Result<Seen, GuestError> {
        let named = |kind| named(path, kind);
        let mut source = Source::open(path).map_err(named)?;
        if let Some(profile) = self.known(&source)?.profile {
            return Ok(Seen::Known(profile));
        }
        let shape = source.read().and_then(|bytes| shape(&bytes)).map_err(named)?;
        match Kind::of(shape.interface) {
            Some(kind) => Ok(Seen::New(kind)),
            // A module's names do not tell its kind.
            None => Ok(Seen::Known(self.load(path)?.profile)),
        }
    }

    /// Returns a file's world, version and imports. Neither compiles nor runs it.
    ///
    /// # Errors
    ///
    /// If the file is not a plugin that this host can run.
    pub fn names(&self, path: &Path) -> Result<Names, GuestError> {
        let bytes = Source::open(path).and_then(|mut source| source.read());
        bytes.and_then(|bytes| names(&bytes)).map_err(|kind| named(path, kind))
    }

    /// Loads a plugin: reads it, compiles it or uses the cache, finds its world, and asks for its
    /// description.
    ///
    /// # Errors
    ///
    /// If the file is not a plugin that this host can run, cannot be compiled within the limits, or fails to
    /// describe itself; or if it did so less than a day ago.
    pub fn load(&self, path: &Path) -> Result<Plugin, GuestError> {
        self.load_telling(path, &mut |_| {})
    }

    /// Loads a plugin, and calls `tell` once if compiling it takes long.
    ///
    /// # Errors
    ///
    /// As [`Sandbox::load`].
    #[tracing::instrument(skip_all, fields(path = %path.display()))]
    pub fn load_telling(
        &self,
        path: &Path,
        tell: &mut dyn FnMut(Compiling),
    ) -> Result<Plugin, GuestError> {
        let mut source = Source::open(path).map_err(|kind| named(path, kind))?;
        let (component, shape, mut entry) = self.component(&mut source, tell)?;
        let interface = shape.interface;
        let world = plugin::resolve(&self.engine, &component, interface)
            .map_err(|kind| named(path, kind))?;
        let profile = match entry.profile.take() {
            Some(profile) => profile,
            None => {
                let asked = self.ask(&name(path), &world, shape);
                match &asked {
                    Ok(profile) => entry.profile = Some(profile.clone()),
                    Err(error) => entry.failure = failure(error),
                }
                self.keep(&source, &entry);
                asked?
            }
        };
        tracing::debug!(
            plugin = profile.description.id,
            version = profile.description.version,
            "loaded"
        );
        let path = path.to_owned();
        let columns = Columns::of(&profile.columns);
        Ok(Plugin {
            path,
            sha256: source.sha256,
            shape,
            profile,
            columns,
            world,
            allowance: Allowance::default(),
        })
    }

    /// Returns the cache entry of a file.
    fn known(&self, source: &Source) -> Result<Entry, GuestError> {
        let Some(cache) = &self.cache else { return Ok(Entry::default()) };
        let mut entry = cache.entry(&source.sha256);
        if let Some(failure) = entry.failure.take() {
            let age = failure.age().unwrap_or_default();
            let call = ["describe", "columns"]
                .into_iter()
                .find(|call| failure.call.as_deref() == Some(*call));
            let file = cache.entry_path(&source.sha256);
            let kind = GuestErrorKind::Remembered { reason: failure.reason, age, file };
            return Err(GuestError {
                call,
                standard_error: failure.standard_error,
                ..named(&source.path, kind)
            });
        }
        // A cached answer is checked like a new one.
        entry.profile = entry.profile.filter(|profile| {
            answer::description(profile.description.clone()).is_ok()
                && answer::columns(profile.columns.clone()).as_ref() == Ok(&profile.columns)
        });
        Ok(entry)
    }

    fn keep(&self, source: &Source, entry: &Entry) {
        if let Some(cache) = &self.cache {
            cache.keep(&source.sha256, entry);
        }
    }

    /// Returns the component, its shape and its cache entry.
    fn component(
        &self,
        source: &mut Source,
        tell: &mut dyn FnMut(Compiling),
    ) -> Result<(Compiled, Shape, Entry), GuestError> {
        let compiled = |entry: Entry| {
            let code = entry.code.as_ref()?;
            let component = self.cache.as_ref()?.code(&self.engine, &source.sha256, code)?;
            Some((component, code.shape, entry))
        };
        if let Some(found) = compiled(self.known(source)?) {
            return Ok(found);
        }
        let _one = self.one_compiles.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have compiled it meanwhile.
        let before = self.known(source)?;
        let profile = before.profile.clone();
        if let Some(found) = compiled(before) {
            return Ok(found);
        }
        let path = source.path.clone();
        let bytes = source.read().map_err(|kind| named(&path, kind))?;
        let shape = shape(&bytes).map_err(|kind| named(&path, kind))?;
        let size = source.bytes;
        tracing::info!(plugin = name(&path), bytes = size, "compiling");
        let mut tell = || tell(Compiling { path: path.clone(), bytes: size });
        let mut entry = Entry { profile, ..Entry::default() };
        let compiled = self.compile(source, shape, bytes, &mut entry, &mut tell);
        let compiled = compiled.map_err(|kind| named(&path, kind));
        if let Err(error) = &compiled {
            entry.failure = failure(error);
        }
        self.keep(source, &entry);
        Ok((compiled?, shape, entry))
    }

    /// Compiles a component, and keeps its code if there is a cache.
    fn compile(
        &self,
        source: &Source,
        shape: Shape,
        bytes: Vec<u8>,
        entry: &mut Entry,
        tell: &mut dyn FnMut(),
    ) -> Result<Compiled, GuestErrorKind> {
        let host = |error: io::Error| GuestErrorKind::Host { detail: format!("{error}") };
        let unusable =
            |error: wasmtime::Error| GuestErrorKind::Host { detail: format!("{error:#}") };
        let part = self.cache.as_ref().and_then(|cache| {
            cache
                .part()
                .inspect_err(|error| tracing::warn!("the compiled component is not kept: {error}"))
                .ok()
        });
        let mut output = match (&part, &self.compiler) {
            (Some(part), _) => part.file.try_clone().map_err(host)?,
            (None, Some(_)) => unnamed_file().map_err(host)?,
            (None, None) => {
                let compiled = compile_here(&self.engine, &bytes, tell)?;
                // SAFETY: the compiler of this process has made them.
                return unsafe { deserialize(&self.engine, shape.interface, &compiled) }
                    .map_err(unusable);
            }
        };
        match &self.compiler {
            Some(program) => {
                let file = output.try_clone().map_err(host)?;
                compile_apart(program, &self.compiling, bytes, file, &self.cancel, tell)?;
            }
            None => {
                let compiled = compile_here(&self.engine, &bytes, tell)?;
                io::Write::write_all(&mut output, &compiled).map_err(host)?;
            }
        }
        if let (Some(cache), Some(part)) = (&self.cache, part) {
            entry.code = cache
                .keep_code(&source.sha256, shape, part)
                .inspect_err(|error| tracing::warn!("the compiled component is not kept: {error}"))
                .ok();
        }
        // SAFETY: the compiler has just written the file, and only this process and its user can write to it.
        unsafe { load(&self.engine, shape.interface, &mut output) }.map_err(unusable)
    }

    /// Returns the plugin's description of itself, and the columns that a metric reads.
    fn ask(&self, name: &str, world: &World, shape: Shape) -> Result<Profile, GuestError> {
        let request = |plugin, call| Request {
            plugin,
            call,
            limits: self.limits.of_description(),
            instance_bytes: shape.instance_bytes,
            views: None,
            key: None,
        };
        macro_rules! describe {
            ($pre:expr, $interface:ident) => {
                self.call(request(name, "describe"), |store| {
                    let description =
                        $pre.instantiate(&mut *store)?.$interface().call_describe(store)?;
                    Ok(Description {
                        id: description.id,
                        version: description.version,
                        summary: description.summary,
                        license: description.license,
                        options: description
                            .options
                            .into_iter()
                            .map(|option| (option.name, option.value))
                            .collect(),
                    })
                })?
                .checked(answer::description)?
            };
        }
        let profile =
            |kind, description| Profile { kind, description, columns: vec![], views: vec![] };
        Ok(match world {
            World::Metric(pre) => {
                let description = describe!(pre, tare_plugin_metric);
                let columns = self.call(request(&description.id, "columns"), |store| {
                    pre.instantiate(&mut *store)?.tare_plugin_metric().call_columns(store)
                })?;
                let columns = columns.checked(answer::columns)?;
                Profile { columns, ..profile(Kind::Metric, description) }
            }
            World::RunMetric(pre) => profile(Kind::Metric, describe!(pre, tare_plugin_run_metric)),
            World::Report(pre) => profile(Kind::Report, describe!(pre, tare_plugin_report)),
            World::Recommender(pre) => {
                profile(Kind::Recommender, describe!(pre, tare_plugin_recommender))
            }
            World::Command(pre) => {
                let answer = self.run(request(name, "describe"), pre, lines::describe())?;
                answer.checked(|output| {
                    let described = lines::described(&output)?;
                    if described.kind == Kind::Recommender {
                        return Err("a module is a metric or a report, and no recommender".into());
                    }
                    Ok(Profile {
                        kind: described.kind,
                        description: answer::description(described.description())?,
                        columns: answer::columns(described.columns)?,
                        views: answer::columns(described.views)?,
                    })
                })?
            }
        })
    }
}

/// Returns the failure to keep for an error; `None` if the next try may end differently.
fn failure(error: &GuestError) -> Option<Failure> {
    use GuestErrorKind as Kind;
    match *error.kind {
        Kind::Unreadable { .. } | Kind::Host { .. } | Kind::Version { .. } | Kind::Cancelled => {
            None
        }
        _ => Some(Failure::new(error.call, error.kind.to_string(), error.standard_error.clone())),
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Returns an error about a file.
fn named(path: &Path, kind: GuestErrorKind) -> GuestError {
    GuestError {
        plugin: name(path),
        call: None,
        kind: Box::new(kind),
        standard_error: String::new(),
    }
}
