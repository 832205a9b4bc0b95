/*!
Fuzz targets: everything that the host reads from untrusted sources.

A target takes any bytes. It must not panic, hang, or take more memory than its input justifies; mostly it returns an
error. `cargo xtask fuzz TARGET` searches for bytes that break this with libFuzzer; `tests/corpus.rs` runs all earlier
findings and the seeds with each test run.
*/

mod backend;
mod container;
mod files;
mod texts;

pub use container::pack;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, also that of its folder in `corpus`.
    pub name: &'static str,
    /// Runs it once.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "manifest", run: texts::manifest },
    Target { name: "plugin-toml", run: texts::plugin_toml },
    Target { name: "runtime-lock", run: texts::runtime_lock },
    Target { name: "protocol", run: texts::protocol },
    Target { name: "run-folder", run: files::run_folder },
    Target { name: "samples", run: files::samples },
    Target { name: "baseline", run: files::baseline },
    Target { name: "wheel", run: files::wheel },
    Target { name: "npy", run: files::npy },
    Target { name: "onnx", run: files::onnx },
    Target { name: "backend", run: backend::backend },
    Target { name: "guest-answer", run: texts::guest_answer },
];
