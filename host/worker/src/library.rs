//! Opening a backend from a path: is it a library, for this machine, does it load, does it have
//! the entry point, and does it have our ABI version?
//!
//! The file's header is checked before the loader is asked. The loader answers in prose, and
//! opening a library runs its initialisers; a header is certain.
//!
//! The library must also be the admitted one. The host hashed the file before the run, and results
//! contain that hash, but a run may last for days. So each worker hashes the file again before it
//! opens it, and checks afterwards that it is still the hashed file.

use std::convert::Infallible;
use std::error::Error;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use host_hash::sha256_of_reader;
use host_record::Failure;
use object::elf::{self, FileHeader64};
use object::macho::{self, MachHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::read::macho::{FatArch, MachHeader, MachOFatFile32, Segment};
use object::read::{ReadCache, ReadRef};
use object::{Endianness, FileKind};
use plugin_api::abi;
use plugin_api::client::{Backend, OnProgress};

use crate::platform::Stamp;
use crate::{failure, platform};

/// Returns the hash, unless it is empty, which means unknown.
pub(crate) fn nonempty_hash(sha256: &str) -> Option<&str> {
    Some(sha256).filter(|sha256| !sha256.is_empty())
}

/// Opens a plugin's library and its backend, with any hash.
///
/// # Errors
///
/// As for [`Library::check`] and [`Library::open`].
pub fn open(path: &Path) -> Result<Backend, Failure> {
    Library::check(path, None)?.open(Box::new(|_| {}))
}

/// A file that is a library for this machine, and the one that was admitted.
#[derive(Debug)]
pub(crate) struct Library {
    path: PathBuf,
    stamp: Stamp,
}

impl Library {
    /// Compares the file's SHA-256 with that of the admitted library, if known, and checks its header.
    ///
    /// The whole file is read each time. Its inode and times could replace that at no cost, but times
    /// are coarse, network file systems keep their own, and this runs before the clock does: a file of
    /// 300 MB takes a fraction of a second, in a process that then loads it and a model.
    ///
    /// # Errors
    ///
    /// The failed step, as a [`Failure`] of its own kind.
    pub(crate) fn check(path: &Path, sha256: Option<&str>) -> Result<Self, Failure> {
        let fail = |error: io::Error| Failure::MissingLibrary {
            detail: format!("{}: {error}", path.display()),
        };
        let mut file = host_files::open(path).map_err(fail)?;
        let stamp = Stamp::of(&file.metadata().map_err(fail)?);
        if let Some(expected) = sha256 {
            let Ok(found) = sha256_of_reader(&mut file, |_| Ok::<_, Infallible>(()));
            let found = found.map_err(fail)?;
            file.rewind().map_err(fail)?;
            if found != expected {
                return Err(Failure::PluginChanged {
                    detail: format!(
                        "the SHA-256 of {} was {expected} when the run was planned, and is {found} \
                         now",
                        path.display()
                    ),
                });
            }
        }
        check_header(path, &mut file)?;
        Ok(Self { path: path.to_owned(), stamp })
    }

    /// Opens the library and its backend. `on_progress` hears what long calls say of their progress.
    ///
    /// The library is opened by its path and not by the descriptor that was hashed: a library that looks for
    /// its parts beside itself (`$ORIGIN`, `dladdr`) would look in `/proc/self/fd`. Afterwards the path is
    /// checked to lead to the same file.
    ///
    /// The library stays loaded until the process ends: many runtimes do not survive being unloaded.
    ///
    /// # Errors
    ///
    /// Returns a [`Failure`] of its own kind for each step.
    pub(crate) fn open(self, on_progress: OnProgress) -> Result<Backend, Failure> {
        let path = self.path;
        // SAFETY: this is a worker's purpose. The user who added the plugin trusts it with a process of
        // its own, and this is that process.
        let library = unsafe { platform::open_library(&path) }
            .map_err(|error| loader_failure(&path, &loader_answer(&error)))?;
        let now = std::fs::metadata(&path).map(|metadata| Stamp::of(&metadata));
        if now.ok() != Some(self.stamp) {
            return Err(Failure::PluginChanged {
                detail: format!(
                    "{} was replaced or written to while it was opened",
                    path.display()
                ),
            });
        }
        let entry = find_entry(&library)?;
        std::mem::forget(library);
        // SAFETY: the entry point has the name that the ABI gives it, its library is never unloaded,
        // and a worker opens one backend in its life.
        unsafe { Backend::open_with(entry, on_progress) }.map_err(failure::opening)
    }
}

fn find_entry(library: &libloading::os::unix::Library) -> Result<abi::Entry, Failure> {
    // SAFETY: the ABI says what type a symbol of this name has.
    let error = match unsafe { library.get::<abi::Entry>(abi::ENTRY_SYMBOL) } {
        Ok(entry) => return Ok(*entry),
        Err(error) => error,
    };
    let symbol = String::from_utf8_lossy(abi::ENTRY_SYMBOL).trim_end_matches('\0').to_owned();
    let stem = symbol.trim_end_matches(|character: char| character.is_ascii_digit());
    let other = (0..100).filter(|major| *major != abi::MAJOR).find(|major| {
        // SAFETY: the symbol is only looked for, and nothing is done with it.
        unsafe { library.get::<*const ()>(format!("{stem}{major}\0").as_bytes()).is_ok() }
    });
    Err(match other {
        Some(major) => Failure::RefusedVersion {
            detail: format!(
                "the plugin speaks ABI {major}, this host speaks {}.{}; {}",
                abi::MAJOR,
                abi::MINOR,
                if major > abi::MAJOR { "update the host" } else { "update the plugin" }
            ),
        },
        None => Failure::MissingSymbol { symbol, detail: loader_answer(&error) },
    })
}

/// Returns the loader's message, which the error keeps as its source.
fn loader_answer(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Returns the meaning of the loader's message.
fn loader_failure(path: &Path, answer: &str) -> Failure {
    const MISSING: &[&str] = &[
        "cannot open shared object file",
        "No such file or directory",
        "' not found",
        // macOS.
        "Library not loaded: ",
        "(no such file)",
    ];
    let detail = answer.to_owned();
    // "undefined symbol: NAME" of glibc, "NAME: symbol not found" of musl, "Symbol not found: _NAME"
    // or "symbol not found in flat namespace '_NAME'" of macOS, where C's names begin with a `_`.
    let symbol = answer
        .split_once("undefined symbol: ")
        .or_else(|| answer.split_once("Symbol not found: _"))
        .or_else(|| answer.split_once("symbol not found in flat namespace '_"))
        .map(|(_, rest)| rest)
        .or_else(|| Some(answer.split_once(": symbol not found")?.0.rsplit_once(' ')?.1));
    if let Some(symbol) = symbol {
        let end = symbol.find([' ', ',', ':', '\'', '\n']).unwrap_or(symbol.len());
        return Failure::MissingSymbol { symbol: symbol[..end].into(), detail };
    }
    if MISSING.iter().any(|text| answer.contains(text)) {
        return Failure::MissingLibrary { detail };
    }
    Failure::NotAPlugin { detail: format!("{}: the loader says: {detail}", path.display()) }
}

fn check_header(path: &Path, file: &mut File) -> Result<(), Failure> {
    let mut start = Vec::new();
    file.take(START).read_to_end(&mut start).map_err(|error| Failure::MissingLibrary {
        detail: format!("{}: {error}", path.display()),
    })?;
    judge(&start, &ReadCache::new(file), std::env::consts::OS).map_err(|verdict| match verdict {
        Verdict::NotAPlugin(what) => {
            Failure::NotAPlugin { detail: format!("{} is {what}", path.display()) }
        }
        Verdict::Elsewhere(plugin) => {
            Failure::WrongArchitecture { plugin, machine: this_machine() }
        }
    })
}

/// Size of a file's beginning that determines its kind.
const START: u64 = 4096;

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// The kind of file.
    NotAPlugin(String),
    /// The platform that it is for.
    Elsewhere(String),
}

/// Judges a file for an operating system, by its first bytes and by where its parts are.
fn judge<'data>(
    start: &[u8],
    data: impl ReadRef<'data>,
    operating_system: &str,
) -> Result<(), Verdict> {
    let not_a_plugin = |what: &str| Err(Verdict::NotAPlugin(what.into()));
    let elsewhere = |what: &str| Err(Verdict::Elsewhere(what.into()));
    let is_mac = operating_system == "macos";
    match FileKind::parse(start) {
        Ok(FileKind::Elf32 | FileKind::Elf64) if is_mac => elsewhere("Linux"),
        Ok(FileKind::Elf64) => judge_elf(data),
        Ok(FileKind::Elf32 | FileKind::MachO32) => elsewhere("a 32-bit processor"),
        Ok(FileKind::MachO64) if is_mac => judge_mach(data, 0),
        Ok(FileKind::MachOFat32) if is_mac => judge_universal(data),
        Ok(FileKind::MachO64 | FileKind::MachOFat32 | FileKind::MachOFat64) => elsewhere("macOS"),
        Ok(FileKind::Pe32 | FileKind::Pe64) => elsewhere("Windows"),
        Ok(FileKind::Archive) => not_a_plugin("a static library; build a shared one"),
        _ if start.is_empty() => not_a_plugin("an empty file"),
        _ if start.starts_with(&elf::ELFMAG) => not_a_plugin("a damaged ELF file"),
        _ if start.starts_with(b"#!") => not_a_plugin("a script"),
        _ if start.starts_with(b"version https://git-lfs") => {
            not_a_plugin("a Git LFS pointer; fetch the file itself with `git lfs pull`")
        }
        _ => not_a_plugin("no file that a loader knows"),
    }
}

fn judge_elf<'data>(data: impl ReadRef<'data>) -> Result<(), Verdict> {
    let damaged = || Verdict::NotAPlugin("a damaged ELF file".into());
    let header = FileHeader64::<Endianness>::parse(data).map_err(|_| damaged())?;
    let endian = header.endian().map_err(|_| damaged())?;
    let processor = processor_name(header.e_machine(endian), endian);
    if processor != std::env::consts::ARCH {
        return Err(Verdict::Elsewhere(processor));
    }
    match header.e_type(endian) {
        elf::ET_DYN => {}
        elf::ET_EXEC => return Err(Verdict::NotAPlugin("a program, not a shared library".into())),
        elf::ET_REL => {
            let what = "an object file; link it to a shared library";
            return Err(Verdict::NotAPlugin(what.into()));
        }
        elf::ET_CORE => return Err(Verdict::NotAPlugin("a core dump".into())),
        other => {
            return Err(Verdict::NotAPlugin(format!("an ELF file of the unknown type {other}")));
        }
    }
    // The loader maps what the header promises, and dies of a page that is not there.
    let length = data.len().map_err(|()| damaged())?;
    let segments = header.program_headers(endian, data).map_err(|_| damaged())?;
    let end = segments
        .iter()
        .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
        .map(|segment| segment.p_offset(endian).saturating_add(segment.p_filesz(endian)))
        .max()
        .ok_or_else(damaged)?;
    complete(end, length)
}

/// Refuses a file that ends before the parts that its header promises.
fn complete(end: u64, length: u64) -> Result<(), Verdict> {
    if end > length {
        let what = format!("cut off: its header promises {end} bytes, and it has {length}");
        return Err(Verdict::NotAPlugin(what));
    }
    Ok(())
}

/// Judges a file with the library for several processors.
fn judge_universal<'data>(data: impl ReadRef<'data>) -> Result<(), Verdict> {
    let damaged = || Verdict::NotAPlugin("a damaged Mach-O file".into());
    let file = MachOFatFile32::parse(data).map_err(|_| damaged())?;
    let of = |part: &&macho::FatArch32| mach_processor(part.cputype()) == std::env::consts::ARCH;
    match file.arches().iter().find(of) {
        Some(part) => judge_mach(data, part.offset().into()),
        None => {
            let names = file.arches().iter().map(|part| mach_processor(part.cputype()));
            Err(Verdict::Elsewhere(names.collect::<Vec<_>>().join(" and ")))
        }
    }
}

/// Judges the Mach-O file that begins at `offset`.
fn judge_mach<'data>(data: impl ReadRef<'data>, offset: u64) -> Result<(), Verdict> {
    let damaged = || Verdict::NotAPlugin("a damaged Mach-O file".into());
    let header = MachHeader64::<Endianness>::parse(data, offset).map_err(|_| damaged())?;
    let endian = header.endian().map_err(|_| damaged())?;
    let processor = mach_processor(header.cputype(endian));
    if processor != std::env::consts::ARCH {
        return Err(Verdict::Elsewhere(processor));
    }
    match header.filetype(endian) {
        macho::MH_DYLIB | macho::MH_BUNDLE => {}
        macho::MH_EXECUTE => {
            return Err(Verdict::NotAPlugin("a program, not a shared library".into()));
        }
        macho::MH_OBJECT => {
            let what = "an object file; link it to a shared library";
            return Err(Verdict::NotAPlugin(what.into()));
        }
        other => {
            return Err(Verdict::NotAPlugin(format!("a Mach-O file of the unknown type {other}")));
        }
    }
    let length = data.len().map_err(|()| damaged())?;
    let mut commands = header.load_commands(endian, data, offset).map_err(|_| damaged())?;
    let mut end = None;
    while let Some(command) = commands.next().map_err(|_| damaged())? {
        if let Some((segment, _)) = command.segment_64().map_err(|_| damaged())? {
            let (start, size) = segment.file_range(endian);
            end = end.max(Some(offset.saturating_add(start).saturating_add(size)));
        }
    }
    complete(end.ok_or_else(damaged)?, length)
}

/// Returns Rust's name of the processor.
fn mach_processor(kind: u32) -> String {
    match kind {
        macho::CPU_TYPE_ARM64 => "aarch64".into(),
        macho::CPU_TYPE_X86_64 => "x86_64".into(),
        other => format!("the processor that Mach-O calls {other:#x}"),
    }
}

/// Returns the processor's name in Rust.
fn processor_name(machine: u16, endian: Endianness) -> String {
    let little = endian == Endianness::Little;
    match machine {
        elf::EM_X86_64 => "x86_64".into(),
        elf::EM_AARCH64 if little => "aarch64".into(),
        elf::EM_RISCV => "riscv64".into(),
        elf::EM_PPC64 => "powerpc64".into(),
        elf::EM_S390 => "s390x".into(),
        elf::EM_LOONGARCH => "loongarch64".into(),
        other => format!("the processor that ELF calls {other}"),
    }
}

fn this_machine() -> String {
    format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an ELF header with one loadable segment of 200 bytes.
    fn elf(class: u8, kind: u16, machine: u16) -> Vec<u8> {
        let mut file = vec![0; 200];
        file[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1, 1]);
        file[16..18].copy_from_slice(&kind.to_le_bytes());
        file[18..20].copy_from_slice(&machine.to_le_bytes());
        // The table of segments begins at 64, and has one entry of 56 bytes.
        file[32..40].copy_from_slice(&64_u64.to_le_bytes());
        file[54..56].copy_from_slice(&56_u16.to_le_bytes());
        file[56..58].copy_from_slice(&1_u16.to_le_bytes());
        file[64..68].copy_from_slice(&elf::PT_LOAD.to_le_bytes());
        file[96..104].copy_from_slice(&200_u64.to_le_bytes());
        file
    }

    fn judge(file: &[u8]) -> Result<(), Verdict> {
        super::judge(file, file, "linux")
    }

    /// Returns a Mach-O header with one segment of 200 bytes.
    fn mach(kind: u32, processor: u32) -> Vec<u8> {
        let mut file = vec![0; 200];
        let mut put = |offset: usize, value: u32| {
            file[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        };
        put(0, macho::MH_MAGIC_64);
        put(4, processor);
        put(12, kind);
        // One command of 72 bytes, which begins at 32.
        put(16, 1);
        put(20, 72);
        put(32, macho::LC_SEGMENT_64);
        put(36, 72);
        put(80, 200);
        file
    }

    #[test]
    fn headers_are_told_apart_on_macos() {
        let judge = |file: &[u8]| super::judge(file, file, "macos");
        let (ours, there, other) = if cfg!(target_arch = "x86_64") {
            (macho::CPU_TYPE_X86_64, macho::CPU_TYPE_ARM64, "aarch64")
        } else {
            (macho::CPU_TYPE_ARM64, macho::CPU_TYPE_X86_64, "x86_64")
        };
        let not_a_plugin = |what: &str| Err(Verdict::NotAPlugin(what.into()));
        let elsewhere = |what: &str| Err(Verdict::Elsewhere(what.into()));
        let good = mach(macho::MH_DYLIB, ours);
        assert_eq!(judge(&good), Ok(()));
        assert_eq!(judge(&mach(macho::MH_BUNDLE, ours)), Ok(()));
        assert_eq!(judge(&mach(macho::MH_DYLIB, there)), elsewhere(other));
        assert_eq!(
            judge(&mach(macho::MH_EXECUTE, ours)),
            not_a_plugin("a program, not a shared library")
        );
        assert_eq!(judge(&good[..50]), not_a_plugin("a damaged Mach-O file"));
        assert_eq!(
            judge(&good[..199]),
            not_a_plugin("cut off: its header promises 200 bytes, and it has 199")
        );
        assert_eq!(judge(&elf(2, elf::ET_DYN, this_machine())), elsewhere("Linux"));

        // A universal file of two processors, whose parts begin at 4096.
        let universal = |processors: [u32; 2]| {
            let mut file = vec![0; 4096];
            let words = [
                [macho::FAT_MAGIC, 2, processors[0], 0, 4096],
                [200, 12, processors[1], 0, 4096],
                [200, 12, 0, 0, 0],
            ];
            for (index, word) in words.iter().flatten().enumerate() {
                file[4 * index..4 * index + 4].copy_from_slice(&word.to_be_bytes());
            }
            file.extend(&good);
            file
        };
        assert_eq!(judge(&universal([there, ours])), Ok(()));
        assert_eq!(
            judge(&universal([there, macho::CPU_TYPE_ARM])),
            elsewhere(&format!("{other} and the processor that Mach-O calls 0xc"))
        );
    }

    fn this_machine() -> u16 {
        if cfg!(target_arch = "x86_64") { elf::EM_X86_64 } else { elf::EM_AARCH64 }
    }

    #[test]
    fn headers_are_told_apart() {
        let other = if cfg!(target_arch = "x86_64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };
        let name = if cfg!(target_arch = "x86_64") { "aarch64" } else { "x86_64" };
        let not_a_plugin = |what: &str| Err(Verdict::NotAPlugin(what.into()));
        let elsewhere = |what: &str| Err(Verdict::Elsewhere(what.into()));
        assert_eq!(judge(&elf(2, elf::ET_DYN, this_machine())), Ok(()));
        assert_eq!(judge(&elf(2, elf::ET_DYN, other)), elsewhere(name));
        assert_eq!(judge(&elf(1, elf::ET_DYN, elf::EM_386)), elsewhere("a 32-bit processor"));
        assert_eq!(
            judge(&elf(2, elf::ET_EXEC, this_machine())),
            not_a_plugin("a program, not a shared library")
        );
        assert_eq!(
            judge(&elf(2, elf::ET_REL, this_machine())),
            not_a_plugin("an object file; link it to a shared library")
        );
        let good = elf(2, elf::ET_DYN, this_machine());
        assert_eq!(judge(&good[..30]), not_a_plugin("a damaged ELF file"));
        assert_eq!(judge(&good[..100]), not_a_plugin("a damaged ELF file"));
        assert_eq!(
            judge(&good[..199]),
            not_a_plugin("cut off: its header promises 200 bytes, and it has 199")
        );
        assert_eq!(judge(b""), not_a_plugin("an empty file"));
        assert_eq!(judge(b"#!/bin/sh\necho no plugin here\n"), not_a_plugin("a script"));
        assert_eq!(
            judge(b"version https://git-lfs.github.com/spec/v1\n"),
            not_a_plugin("a Git LFS pointer; fetch the file itself with `git lfs pull`")
        );
        assert_eq!(
            judge(b"just some text, and not short"),
            not_a_plugin("no file that a loader knows")
        );
        let archive = [b"!<arch>\n".as_slice(), &[b' '; 60]].concat();
        assert_eq!(judge(&archive), not_a_plugin("a static library; build a shared one"));
        assert_eq!(judge(&mach(macho::MH_DYLIB, macho::CPU_TYPE_ARM64)), elsewhere("macOS"));
    }

    #[test]
    fn the_loaders_answers_are_told_apart() {
        let explain = |answer: &str| loader_failure(Path::new("lib.so"), answer).to_string();
        insta::assert_snapshot!(
            explain("libcudart.so.12: cannot open shared object file: No such file or directory"),
            @"a required library is missing: libcudart.so.12: cannot open shared object file: No such file or directory"
        );
        insta::assert_snapshot!(
            explain("/lib/libc.so.6: version `GLIBC_2.99' not found (required by lib.so)"),
            @"a required library is missing: /lib/libc.so.6: version `GLIBC_2.99' not found (required by lib.so)"
        );
        insta::assert_snapshot!(
            explain("lib.so: undefined symbol: cudaMalloc, version libcudart.so.12"),
            @"missing symbol `cudaMalloc`: lib.so: undefined symbol: cudaMalloc, version libcudart.so.12"
        );
        insta::assert_snapshot!(
            explain("Error relocating lib.so: cudaMalloc: symbol not found"),
            @"missing symbol `cudaMalloc`: Error relocating lib.so: cudaMalloc: symbol not found"
        );
        insta::assert_snapshot!(
            explain("dlopen(lib.dylib, 0x0006): symbol not found in flat namespace '_cudaMalloc'"),
            @"missing symbol `cudaMalloc`: dlopen(lib.dylib, 0x0006): symbol not found in flat namespace '_cudaMalloc'"
        );
        insta::assert_snapshot!(
            explain("dlopen(lib.dylib, 0x0006): Library not loaded: @rpath/libx.dylib"),
            @"a required library is missing: dlopen(lib.dylib, 0x0006): Library not loaded: @rpath/libx.dylib"
        );
        insta::assert_snapshot!(
            explain("lib.so: cannot dynamically load position-independent executable"),
            @"not a plugin: lib.so: the loader says: lib.so: cannot dynamically load position-independent executable"
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let failure = open(Path::new("/nowhere/lib.so")).expect_err("there is no such file");
        insta::assert_snapshot!(
            failure,
            @"a required library is missing: /nowhere/lib.so: No such file or directory (os error 2)"
        );
    }

    #[test]
    fn a_library_without_the_entry_point_is_no_plugin() {
        // The test itself is a program, and what it is linked with is a library.
        let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux tells");
        let path = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5))
            .find(|path| path.contains("/libc.so") || path.contains("/libc-"))
            .expect("libc is loaded");
        let failure = open(Path::new(path)).expect_err("libc is no plugin");
        assert!(
            matches!(&failure, Failure::MissingSymbol { symbol, .. } if symbol == "tare_backend_v1"),
            "{failure}"
        );
    }
}
