/*!
Tests of backends on their runtimes.

They are marked as ignored, because plain `cargo test` has no runtimes. This task installs them with the tool that was
just built, below cargo's target folder, so that they are kept between runs and no user files are touched. Tests with
runtimes larger than 100 MB, and tests that take minutes, run on request; tests that need hardware or another version
are listed and not run. An ignored test without a row in the table is an error, and so is a row without a test.
*/

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::layout;
use crate::shell::{Failed, Program, cargo, command, root, say};

/// Ignored tests in one file.
struct Suite {
    /// The package's folder below `plugins`.
    package: &'static str,
    /// The file below its `tests`.
    test: &'static str,
    /// The plugin whose runtime it gets.
    runtime: &'static str,
    needs: Needs,
}

#[derive(Clone, Copy)]
enum Needs {
    /// Only the runtime.
    Runtime,
    /// The runtime and a software Vulkan device.
    Vulkan,
    /// A machine without ROCm.
    NoRocm,
    /// A request by the user, for this reason.
    Request(&'static str),
    /// A software Vulkan device, and a client for it.
    VulkanOnRequest(&'static str),
    /// A request by the user for this reason, and the engine for libtorch.
    TorchOnRequest(&'static str),
    /// Something that is not available here.
    Elsewhere(&'static str),
}

const SUITES: &[Suite] = &[
    suite("backends/cpu", "conformance", "cpu", Needs::Runtime),
    suite("backends/cpu", "int8", "cpu", Needs::Runtime),
    suite("backends/cpu", "onnxruntime", "cpu", Needs::Runtime),
    suite("backends/cpu", "quantised", "cpu", Needs::Runtime),
    suite(
        "backends/cpu",
        "telemetry",
        "cuda",
        Needs::Request("its runtime is 1.5 GB; that of `cpu` is older than telemetry"),
    ),
    suite("engines/onnxruntime", "allocator", "cpu", Needs::Runtime),
    suite("engines/onnxruntime", "older", "cpu", Needs::Elsewhere("it needs ONNX Runtime 1.22")),
    suite("backends/openvino", "conformance", "openvino", Needs::Runtime),
    suite("backends/openvino", "int8", "openvino", Needs::Runtime),
    suite("backends/openvino", "quantised", "openvino", Needs::Runtime),
    suite("backends/openvino", "runtime", "openvino", Needs::Runtime),
    suite("backends/webgpu", "allocator", "webgpu", Needs::Vulkan),
    suite(
        "backends/webgpu",
        "conformance",
        "webgpu",
        Needs::VulkanOnRequest("it takes minutes in software"),
    ),
    suite("backends/rocm", "provider", "rocm", Needs::NoRocm),
    suite("backends/rocm", "conformance", "rocm", Needs::Elsewhere("it needs an AMD GPU")),
    suite("backends/qnn", "conformance", "qnn", Needs::Request("its runtime is 120 MB")),
    suite("backends/qnn", "back_end", "qnn", Needs::Request("its runtime is 120 MB")),
    suite("backends/qnn", "quantised", "qnn", Needs::Request("its runtime is 120 MB")),
    suite("backends/cuda", "conformance", "cuda", Needs::Elsewhere("it needs an NVIDIA GPU")),
    suite(
        "backends/torch",
        "conformance",
        "torch",
        Needs::TorchOnRequest("its runtime is in a package of 531 MB"),
    ),
    suite(
        "backends/torch",
        "training",
        "torch",
        Needs::TorchOnRequest("its runtime is in a package of 531 MB"),
    ),
    suite(
        "backends/torch",
        "fashion",
        "torch",
        Needs::Elsewhere(
            "it trains for half an hour, and needs Debian's package dataset-fashion-mnist",
        ),
    ),
];

/// Ignored tests that other tests run in separate processes.
const RUN_BY_OTHERS: &[(&str, &str)] = &[("backends/fault", "faults")];

/// Folder in which Debian's Chromium has a Vulkan loader and SwiftShader, a software device.
const CHROMIUM: &str = "/usr/lib/chromium";

/// Messages of the tool if packages are unreachable, as opposed to wrong.
const OUT_OF_REACH: &[&str] =
    &["see that `pip download` works here", "packages are fetched with pip"];

const fn suite(
    package: &'static str,
    test: &'static str,
    runtime: &'static str,
    needs: Needs,
) -> Suite {
    Suite { package, test, runtime, needs }
}

impl Suite {
    fn name(&self) -> String {
        format!("{} {}", self.package, self.test)
    }

    /// Returns why it is not run.
    fn left_out(&self, all: bool, vulkan: bool, torch: bool) -> Option<String> {
        const NO_VULKAN: &str = "there is no software Vulkan device: install chromium";
        const NO_TORCH: &str = "there is no engine for libtorch: `cargo xtask build torch`";
        match self.needs {
            Needs::Elsewhere(reason) => Some(reason.into()),
            Needs::Vulkan | Needs::VulkanOnRequest(_) if !vulkan => Some(NO_VULKAN.into()),
            Needs::TorchOnRequest(_) if !torch => Some(NO_TORCH.into()),
            Needs::Request(reason)
            | Needs::VulkanOnRequest(reason)
            | Needs::TorchOnRequest(reason)
                if !all =>
            {
                Some(format!("{reason}; `cargo xtask test --runtimes` runs it"))
            }
            Needs::NoRocm if ["/dev/kfd", "/opt/rocm"].iter().any(|it| Path::new(it).exists()) => {
                Some("there is ROCm here".into())
            }
            _ => None,
        }
    }
}

/// Runs them with the tool in `built`; `all` includes tests on request.
pub(crate) fn test(built: &Path, all: bool) -> Result<(), Failed> {
    say("test: backends on their runtimes");
    if (std::env::consts::OS, std::env::consts::ARCH) != ("linux", "x86_64") {
        say("test: NOT run: the backends' locks have runtimes for Linux on x86-64 only");
        return Ok(());
    }
    let programs = programs()?;
    check_table(&programs)?;
    let data = layout::target_folder()?.join("runtimes-of-tests");
    let vulkan = vulkan();
    let torch = built.join("plugins/torch/libengine_torch.so").is_file();
    let mut runtimes = Runtimes { built, data: &data, tried: BTreeMap::new() };
    let mut left_out = BTreeMap::<String, Vec<String>>::new();
    let mut failed = Vec::new();
    for suite in SUITES {
        let reason = suite.left_out(all, vulkan, torch);
        let reason = match reason {
            Some(reason) => reason,
            None => match runtimes.get(suite.runtime) {
                Ok(Some(folder)) => {
                    say(&format!("test: plugins/{}, {}", suite.package, suite.test));
                    let program = &programs[&(suite.package.to_owned(), suite.test.to_owned())];
                    let program = command(program)
                        .arg("--ignored")
                        .folder(&root().join("plugins").join(suite.package))
                        .env("TARE_RUNTIME", folder)
                        .env("TARE_BUILT", built);
                    if let Err(error) = with_vulkan(program).run() {
                        say(&format!("error: {error}"));
                        failed.push(suite.name());
                    }
                    continue;
                }
                Ok(None) => "its runtime is out of reach, as said above".into(),
                Err(error) => {
                    say(&format!("error: {error}"));
                    failed.push(suite.name());
                    continue;
                }
            },
        };
        left_out.entry(reason).or_default().push(suite.name());
    }
    // The whole suite takes minutes; its most important check takes seconds.
    if vulkan && !all && matches!(runtimes.get("webgpu"), Ok(Some(_))) {
        say("test: webgpu computes what the processor does");
        let fixture = root().join("plugin-api/testkit/fixtures/digits.toml");
        let program = runtimes
            .host()
            .args(["plugins", "test", "webgpu", "--only", "outputs are right", "--fixture"])
            .arg(fixture);
        if let Err(error) = with_vulkan(program).run() {
            say(&format!("error: {error}"));
            failed.push("webgpu's outputs".into());
        }
    }
    for (reason, names) in left_out {
        say(&format!("test: NOT run: {}: {reason}", names.join(", ")));
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failed::new(format!("on their runtimes failed: {}", failed.join(", "))))
}

/// Runtimes that were installed in this run.
struct Runtimes<'a> {
    built: &'a Path,
    data: &'a Path,
    /// Results by the plugin's id, including failures: another attempt would fail as slowly.
    tried: BTreeMap<&'static str, Result<Option<PathBuf>, Failed>>,
}

impl Runtimes<'_> {
    fn host(&self) -> Program {
        let mut program = command(self.built.join("host")).env("XDG_DATA_HOME", self.data);
        // The user's own runtime has another version.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("TARE_RUNTIME_")) {
                program = program.without(&name);
            }
        }
        program
    }

    /// Returns the folder of a plugin's runtime, and installs it if necessary; `None` if it
    /// is unreachable, which is not a failure except in CI.
    fn get(&mut self, plugin: &'static str) -> Result<Option<PathBuf>, Failed> {
        if let Some(tried) = self.tried.get(plugin) {
            return tried.clone();
        }
        let found = self.install(plugin);
        self.tried.insert(plugin, found.clone());
        found
    }

    fn install(&self, plugin: &str) -> Result<Option<PathBuf>, Failed> {
        let install = self.host().args(["runtimes", "install", plugin]).into_command();
        let output = { install }.stdin(Stdio::null()).output();
        let output =
            output.map_err(|error| Failed::new(format!("host could not be started: {error}")))?;
        let printed = String::from_utf8_lossy(&output.stderr);
        say(printed.trim_end());
        if !output.status.success() {
            let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
            let out_of_reach = OUT_OF_REACH.iter().any(|it| words.contains(it));
            if out_of_reach && !in_ci() {
                return Ok(None);
            }
            let why = format!("the runtime of `{plugin}` could not be installed for its tests");
            return Err(Failed::new(why));
        }
        let list = self.host().args(["runtimes", "list", "--format", "json"]).into_command();
        let list = { list }.stdin(Stdio::null()).output();
        let list = list.ok().and_then(|it| serde_json::from_slice(&it.stdout).ok());
        let list: serde_json::Value = list.unwrap_or_default();
        let mut entries = list.as_array().into_iter().flatten();
        let path =
            entries.find(|entry| entry["plugin"] == plugin).and_then(|it| it["path"].as_str());
        let nowhere = || Failed::new(format!("`host runtimes list` names no path for `{plugin}`"));
        path.map(|path| Some(path.into())).ok_or_else(nowhere)
    }
}

/// Returns whether an unreachable package is a failure: CI services set this variable.
fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false")
}

fn vulkan() -> bool {
    ["libvulkan.so.1", "vk_swiftshader_icd.json"]
        .iter()
        .all(|name| Path::new(CHROMIUM).join(name).is_file())
}

/// Returns the program with SwiftShader as its only Vulkan device, if that is installed.
fn with_vulkan(program: Program) -> Program {
    if !vulkan() {
        return program;
    }
    let mut folders: Vec<PathBuf> =
        std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths).collect();
    folders.push(CHROMIUM.into());
    let folders = std::env::join_paths(folders).unwrap_or_else(|_| OsString::from(CHROMIUM));
    program
        .env("LD_LIBRARY_PATH", folders)
        .env("VK_DRIVER_FILES", Path::new(CHROMIUM).join("vk_swiftshader_icd.json"))
}

/// The test programs of native plugins and their engines, by package and name.
type Programs = BTreeMap<(String, String), PathBuf>;

/// Returns the test programs. They were built with the workspace, so nothing is built here. They are run directly,
/// because for a selection of packages cargo would build the dependencies again, with fewer features.
fn programs() -> Result<Programs, Failed> {
    let answer = cargo()
        .args(["test", "--workspace", "--tests", "--no-run", "--quiet"])
        .args(["--message-format", "json"])
        .read()?;
    Ok(programs_in(&answer, &root().join("plugins")))
}

fn programs_in(answer: &str, plugins: &Path) -> Programs {
    let messages = answer.lines().filter_map(|line| serde_json::from_str(line).ok());
    let program = |message: serde_json::Value| {
        let program = message["executable"].as_str()?;
        let kinds = message["target"]["kind"].as_array()?;
        // An example is built without the test harness, and would run.
        let harness = kinds.iter().all(|kind| kind != "example" && kind != "bench");
        if !harness || message["profile"]["test"] != true {
            return None;
        }
        let package = Path::new(message["manifest_path"].as_str()?).parent()?;
        let package = package.strip_prefix(plugins).ok()?.to_str()?.to_owned();
        let name = message["target"]["name"].as_str()?.to_owned();
        Some(((package, name), PathBuf::from(program)))
    };
    messages.filter_map(program).collect()
}

/// Checks that each ignored test is in the table, and that each row has a test.
fn check_table(programs: &Programs) -> Result<(), Failed> {
    let mut found = BTreeSet::new();
    for ((package, test), program) in programs {
        let list = command(program).args(["--ignored", "--list", "--format", "terse"]).read()?;
        if list.lines().any(|line| line.ends_with(": test")) {
            found.insert((package.as_str(), test.as_str()));
        }
    }
    compare(&found)
}

fn compare(found: &BTreeSet<(&str, &str)>) -> Result<(), Failed> {
    let rows = SUITES.iter().map(|suite| (suite.package, suite.test));
    let known: BTreeSet<_> = rows.chain(RUN_BY_OTHERS.iter().copied()).collect();
    let Some((package, test)) = known.symmetric_difference(found).next() else {
        return Ok(());
    };
    Err(Failed::new(match known.contains(&(*package, *test)) {
        true => format!(
            "plugins/{package}/tests/{test}.rs has no ignored test any more\n  \
             help: take its row out of xtask/src/runtimes.rs"
        ),
        false => format!(
            "`{test}` of plugins/{package} has ignored tests, and nothing says when they are run\n  \
             help: give it a row in xtask/src/runtimes.rs"
        ),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> BTreeSet<(&'static str, &'static str)> {
        let rows = SUITES.iter().map(|suite| (suite.package, suite.test));
        rows.chain(RUN_BY_OTHERS.iter().copied()).collect()
    }

    #[test]
    fn no_ignored_test_is_forgotten() {
        assert!(compare(&known()).is_ok());
        let mut more = known();
        more.insert(("backends/new", "conformance"));
        let printed = compare(&more).expect_err("it is in no row").to_string();
        assert!(printed.starts_with("`conformance` of plugins/backends/new has"), "{printed}");
        let mut fewer = known();
        fewer.remove(&("backends/cpu", "telemetry"));
        let printed = compare(&fewer).expect_err("its row is too many").to_string();
        assert!(printed.starts_with("plugins/backends/cpu/tests/telemetry.rs has no"), "{printed}");
    }

    #[test]
    fn programs_are_those_of_plugins_that_are_tests() {
        let line = |folder: &str, kind: &str, test: bool| {
            format!(
                r#"{{"manifest_path":"/here/{folder}/Cargo.toml","target":{{"kind":["{kind}"],"name":"n"}},"profile":{{"test":{test}}},"executable":"/t/n"}}"#
            )
        };
        let lines = [
            line("plugins/backends/cpu", "test", true),
            line("plugins/backends/null", "example", true),
            line("plugins/backends/fault", "bin", false),
            line("host/store", "test", true),
            r#"{"reason":"build-finished","success":true}"#.into(),
        ];
        let programs = programs_in(&lines.join("\n"), Path::new("/here/plugins"));
        let names: Vec<_> = programs.into_keys().collect();
        assert_eq!(names, [("backends/cpu".to_owned(), "n".to_owned())]);
    }

    #[test]
    fn what_is_left_out_has_a_reason() {
        let conformance = |package: &str| {
            let it = |suite: &&Suite| suite.package == package && suite.test == "conformance";
            SUITES.iter().find(it).expect("a row")
        };
        assert_eq!(conformance("backends/cpu").left_out(false, false, false), None);
        let torch = conformance("backends/torch");
        assert!(torch.left_out(true, true, false).is_some_and(|it| it.contains("build torch")));
        assert!(torch.left_out(false, true, true).is_some_and(|it| it.contains("--runtimes")));
        assert_eq!(torch.left_out(true, true, true), None);
        let webgpu = conformance("backends/webgpu");
        assert!(webgpu.left_out(true, false, false).is_some_and(|it| it.contains("Vulkan")));
        assert!(webgpu.left_out(false, true, false).is_some_and(|it| it.contains("--runtimes")));
        assert_eq!(webgpu.left_out(true, true, true), None);
        assert!(conformance("backends/cuda").left_out(true, true, true).is_some());
    }
}
