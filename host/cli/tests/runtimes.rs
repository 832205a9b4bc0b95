//! `host runtimes` with the user's own pip, which gets its packages from a local folder: by the user's
//! settings, as it would from a mirror.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use host_hash::sha256_of_file;
use snapbox::cmd::{Command, cargo_bin};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A user with a plugin `demo`, whose runtime consists of the packages `one` and `two`.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a temporary folder"));
        for folder in ["index", "plugins/demo"] {
            fs::create_dir_all(place.path(folder)).expect("a folder");
        }
        place.write(
            "plugins/demo/plugin.toml",
            "schema = 1\nid = \"demo\"\nversion = \"0.1.0\"\nkind = \"backend\"\n\
             summary = \"A test.\"\nlicense = \"MIT\"\nlibrary = \"backend_demo\"\n\
             api = \">=1.0\"\nhardware = [\"none\"]\nengine = \"none\"\n[runtime]\nname = \"demo\"\n\
             version = \"1.0\"\nsummary = \"A demo.\"\n",
        );
        let library =
            format!("{}backend_demo{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        place.write(&format!("plugins/demo/{library}"), "no library");
        let mut lock = String::from("schema = 1\n");
        for name in ["one", "two"] {
            let wheel = place.wheel(name);
            make_wheel(&wheel, name);
            lock.push_str(&format!(
                "[[package]]\nplatform = \"{}-{}\"\nname = \"{name}\"\nversion = \"1.0\"\n\
                 file = \"{}\"\nsha256 = \"{}\"\nbytes = {}\nunpack = [\"{name}/*.so\"]\n",
                std::env::consts::OS,
                std::env::consts::ARCH,
                wheel.file_name().expect("a name").to_string_lossy(),
                sha256_of_file(&wheel).expect("a wheel"),
                fs::metadata(&wheel).expect("a wheel").len(),
            ));
        }
        place.write("plugins/demo/runtime.lock", &lock);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("writing a file");
    }

    fn wheel(&self, name: &str) -> PathBuf {
        // For a Python and a system that need not be this machine's.
        self.path("index").join(format!("{name}-1.0-cp39-cp39-manylinux_2_17_s390x.whl"))
    }

    /// Adds a plugin `other`, whose runtime has the same name and version. Its packages are the
    /// same, for this platform or for another.
    fn with_other(self, platform: Option<&str>) -> Self {
        fs::create_dir_all(self.path("plugins/other")).expect("a folder");
        let read = |name: &str| fs::read_to_string(self.path(name)).expect("a file");
        let text = read("plugins/demo/plugin.toml").replace("id = \"demo\"", "id = \"other\"");
        self.write("plugins/other/plugin.toml", &text);
        let library =
            format!("{}backend_demo{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        self.write(&format!("plugins/other/{library}"), "no library");
        let lock = read("plugins/demo/runtime.lock");
        let lock = match platform {
            Some(platform) => lock.replace(&here(), platform),
            None => lock,
        };
        self.write("plugins/other/runtime.lock", &lock);
        self
    }

    /// Returns the runtime of a plugin, as `list` tells programs.
    fn listed(&self, plugin: &str) -> serde_json::Value {
        let output = self.host(&["runtimes", "list", "--format", "json"]).output();
        let output = output.expect("starting host");
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let all = all.as_array().expect("a list").clone();
        all.into_iter().find(|it| it["plugin"] == plugin).expect("the plugin's runtime")
    }

    fn installed(&self, file: &str) -> PathBuf {
        self.path("data/tare/runtimes/demo-1.0/lib").join(file)
    }

    fn host(&self, arguments: &[&str]) -> Command {
        Command::new(cargo_bin!("host"))
            .args(arguments)
            .arg("--plugins")
            .arg(self.path("plugins"))
            .current_dir(self.0.path())
            .env("NO_COLOR", "1")
            .env("HOME", self.path("home"))
            .env("XDG_CONFIG_HOME", self.path("configuration"))
            .env("XDG_DATA_HOME", self.path("data"))
            // Tests share it: compiling every guest takes half a minute.
            .env("XDG_CACHE_HOME", cargo_bin!("host").with_file_name("../cache-of-tests"))
            .env_remove("TARE_PLUGINS")
            .env("PIP_NO_INDEX", "1")
            .env("PIP_FIND_LINKS", self.path("index"))
    }

    /// Returns the command's error message without its paths.
    #[track_caller]
    fn failure(&self, arguments: &[&str], code: i32) -> String {
        let output = self.host(arguments).output().expect("starting host");
        let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{output_text}");
        output_text.replace(&self.0.path().display().to_string(), "")
    }
}

/// This platform, as locks name it.
fn here() -> String {
    format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH)
}

/// Returns everything that the command writes.
fn output_text(command: Command) -> String {
    let output = command.output().expect("starting host");
    let output_text = [output.stdout, output.stderr].concat();
    let output_text = String::from_utf8_lossy(&output_text).into_owned();
    // Long lines are broken.
    output_text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn make_wheel(path: &Path, name: &str) {
    let mut writer = ZipWriter::new(File::create(path).expect("a file"));
    let tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\n\
                Tag: cp39-cp39-manylinux_2_17_s390x\n";
    for (file, text) in [
        (format!("{name}/lib{name}.so"), name.repeat(1000)),
        (format!("{name}/__init__.py"), "raise SystemExit('this must not run')".into()),
        (format!("{name}-1.0.dist-info/WHEEL"), tags.into()),
        (
            format!("{name}-1.0.dist-info/METADATA"),
            format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Python: <3.10\n"),
        ),
        (format!("{name}-1.0.dist-info/RECORD"), String::new()),
    ] {
        writer.start_file(file, SimpleFileOptions::default()).expect("an entry");
        writer.write_all(text.as_bytes()).expect("an entry");
    }
    writer.finish().expect("a wheel");
}

#[test]
fn a_runtime_is_installed_by_the_users_pip_and_removed() {
    let place = Place::new();
    let list = |place: &Place| {
        let output = place.host(&["runtimes", "list", "--format", "json"]).output();
        let output = output.expect("starting host");
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let all = all.as_array().expect("a list").clone();
        all.into_iter().find(|it| it["name"] == "demo").expect("the plugin's runtime")
    };
    let missing = list(&place);
    assert_eq!(missing["status"], "missing");
    assert_eq!(missing["command"], "host runtimes install demo");
    assert!(missing["download-bytes"].as_u64().is_some_and(|bytes| bytes > 0));

    place.host(&["runtimes", "install", "demo"]).assert().success();
    assert_eq!(fs::read_to_string(place.installed("libtwo.so")).expect("two"), "two".repeat(1000));
    let installed = list(&place);
    assert_eq!((&installed["status"], &installed["bytes"]), (&"installed".into(), &6000.into()));
    place.host(&["runtimes", "verify"]).assert().success();

    fs::write(place.installed("libone.so"), "one").expect("writing");
    let output_text = place.failure(&["runtimes", "verify", "demo"], 4);
    assert!(output_text.contains("lib/libone.so has changed"), "{output_text}");
    assert!(output_text.contains("repair it with host runtimes install demo"), "{output_text}");
    place.host(&["runtimes", "install", "demo"]).assert().success();
    place.host(&["runtimes", "verify", "demo"]).assert().success();

    place.host(&["runtimes", "remove", "demo"]).assert().success();
    assert!(!place.installed("").exists());
    place.failure(&["runtimes", "remove", "demo"], 4);
}

#[test]
fn a_pip_in_the_current_folder_is_not_run() {
    let place = Place::new();
    let here = place.path("here");
    fs::create_dir(&here).expect("a folder");
    let strange = "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n";
    for name in ["pip.py", "argparse.py"] {
        fs::write(here.join(name), strange).expect("a module");
    }
    let install = place.host(&["runtimes", "install", "demo"]).current_dir(&here);
    install.env("PYTHONPATH", &here).assert().success();
    assert!(!here.join("ran").exists(), "a stranger's module ran");
}

#[test]
fn what_has_arrived_is_not_fetched_again() {
    let place = Place::new();
    let aside = place.path("two.whl");
    fs::rename(place.wheel("two"), &aside).expect("renaming");
    let output_text = place.failure(&["runtimes", "install", "demo"], 4);
    assert!(output_text.contains("pip could not fetch two 1.0"), "{output_text}");
    assert!(output_text.contains("does not have this file"), "{output_text}");
    assert!(!place.path("data/tare/runtimes/demo-1.0").exists(), "all of it or nothing");

    fs::rename(&aside, place.wheel("two")).expect("renaming");
    fs::remove_file(place.wheel("one")).expect("removing");
    place.host(&["runtimes", "install", "demo"]).assert().success();
    assert!(place.installed("libone.so").is_file() && place.installed("libtwo.so").is_file());
}

#[test]
fn another_file_than_the_lock_names_is_refused() {
    let place = Place::new();
    make_wheel(&place.wheel("two"), "two");
    let mut writer = fs::OpenOptions::new().append(true).open(place.wheel("two")).expect("a file");
    writer.write_all(b" ").expect("writing");
    let output_text = place.failure(&["runtimes", "install", "demo"], 4);
    assert!(output_text.contains("DO NOT MATCH THE HASHES"), "{output_text}");
    assert!(output_text.contains("do not work around it before you know why"), "{output_text}");
    assert!(!place.path("data/tare/runtimes/demo-1.0").exists());
}

#[test]
fn without_python_or_a_known_plugin_it_says_what_to_do() {
    let place = Place::new();
    let output = place.host(&["runtimes", "install", "demo"]).env("PATH", "").output();
    let output = output.expect("starting host");
    let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{output_text}");
    assert!(output_text.contains("install Python 3 with pip"), "{output_text}");
    let output_text = place.failure(&["runtimes", "install", "dem"], 4);
    assert!(output_text.contains("did you mean `demo`?"), "{output_text}");
    let output_text = place.failure(&["runtimes", "list", "--runtime", "nobody=/x"], 2);
    assert!(output_text.contains("no plugin of that id needs a runtime"), "{output_text}");
    let output_text = place.failure(&["plugins", "list"], 0);
    assert!(output_text.contains("runtime `demo` 1.0 of `demo` is not installed"), "{output_text}");
    assert!(output_text.contains("host runtimes install demo"), "{output_text}");
}

#[test]
fn a_plugin_without_packages_for_this_platform_is_said_to_be_for_another() {
    let place = Place::new().with_other(Some("plan9-mips"));
    place.host(&["runtimes", "install", "demo"]).assert().success();
    let other = place.listed("other");
    assert_eq!(other["status"], "unavailable");
    let reason = format!("is not available for {} (packages exist for: plan9-mips)", here());
    assert_eq!(other["reason"], reason.as_str());
    let nothing = serde_json::Value::Null;
    for key in ["command", "download-bytes", "bytes", "path"] {
        assert_eq!(other[key], nothing, "{key}");
    }
    // No advice to install a runtime that cannot be installed.
    for arguments in [&["runtimes", "list"][..], &["plugins", "list"], &["devices"], &["doctor"]] {
        // In JSON no line is broken within a word.
        let shown = output_text(place.host(&[arguments, &["--format", "json"]].concat()));
        assert!(!shown.contains("host runtimes install other"), "{arguments:?}: {shown}");
        assert!(!shown.contains("is installed from other packages"), "{arguments:?}: {shown}");
        assert!(shown.contains(&reason), "{arguments:?}: {shown}");
    }
    let shown = output_text(place.host(&["runtimes", "list"]));
    assert!(shown.contains(&format!("not for {}", here())), "{shown}");
    assert!(shown.contains("--runtime other=PATH"), "{shown}");
    // The runtime under its name is the other plugin's.
    for command in ["verify", "remove"] {
        let shown = place.failure(&["runtimes", command, "other"], 4);
        assert!(!shown.contains("Verified") && !shown.contains("Removed"), "{shown}");
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("nothing is installed for `other`"), "{shown}");
    }
    assert!(place.installed("libone.so").is_file());
    let shown = output_text(place.host(&["runtimes", "remove", "demo"]));
    assert!(!shown.contains("other"), "it loses nothing: {shown}");
}

#[test]
fn removing_names_the_other_plugins_that_lose_their_runtime() {
    let place = Place::new().with_other(None);
    place.host(&["runtimes", "install", "demo"]).assert().success();
    assert_eq!(place.listed("other")["status"], "installed");
    let shown = output_text(place.host(&["runtimes", "remove", "demo"]));
    assert!(shown.contains("it was the runtime of `other`, too"), "{shown}");
    assert_eq!(place.listed("other")["status"], "missing");
}

#[test]
fn a_named_path_that_is_not_there_is_named_wherever_the_runtime_is_missing() {
    let place = Place::new();
    let with =
        |arguments: &[&str]| place.host(arguments).env("TARE_RUNTIME_DEMO", "/nonexistent/runtime");
    let why = "the runtime that TARE_RUNTIME_DEMO names for plugin `demo` does not exist: \
               /nonexistent/runtime";
    for arguments in [&["runtimes", "list"][..], &["plugins", "list"], &["devices"], &["doctor"]] {
        let shown = output_text(with(&[arguments, &["--format", "json"]].concat()));
        assert!(shown.contains(why), "{arguments:?}: {shown}");
        assert!(!shown.contains("host runtimes install demo"), "{arguments:?}: {shown}");
    }
    let shown = output_text(with(&["runtimes", "list"]));
    assert!(shown.contains("no such path"), "{shown}");
    let output = with(&["runtimes", "list", "--format", "json"]).output().expect("starting host");
    let listed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let listed = listed.as_array().expect("a list").iter().find(|it| it["plugin"] == "demo");
    let listed = listed.expect("the plugin's runtime");
    assert_eq!(listed["status"], "named-missing");
    assert_eq!(listed["path"], "/nonexistent/runtime");
    assert_eq!(listed["origin"], "environment");
}

#[test]
fn a_named_folder_without_the_runtime_is_named_with_what_was_looked_for() {
    let place = Place::new();
    let folder = place.path("empty");
    fs::create_dir(&folder).expect("a folder");
    let named = format!("demo={}", folder.display());
    for arguments in [&["runtimes", "list"][..], &["plugins", "list"], &["devices"], &["doctor"]] {
        let arguments = [arguments, &["--runtime", &named, "--format", "json"]].concat();
        let shown = output_text(place.host(&arguments));
        assert!(shown.contains("is not a runtime: "), "{arguments:?}: {shown}");
        assert!(shown.contains(" has neither *.so*, nor a folder `lib`"), "{arguments:?}: {shown}");
    }
    let output = place.host(&["runtimes", "list", "--runtime", &named, "--format", "json"]);
    let output = { output }.output().expect("starting host");
    let listed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let listed = listed.as_array().expect("a list").iter().find(|it| it["plugin"] == "demo");
    assert_eq!(listed.expect("the plugin's runtime")["status"], "named-other");
}

#[test]
fn a_damaged_runtime_is_listed_with_the_command_that_repairs_it() {
    let place = Place::new();
    place.host(&["runtimes", "install", "demo"]).assert().success();
    fs::write(place.installed("libone.so"), "one").expect("writing");
    let listed = place.listed("demo");
    assert_eq!(listed["status"], "damaged");
    assert_eq!(listed["command"], "host runtimes install demo");
    fs::remove_file(place.installed("libone.so")).expect("removing");
    assert_eq!(
        place.listed("demo")["reason"],
        "is installed and damaged (lib/libone.so is missing)"
    );
    let shown = output_text(place.host(&["runtimes", "list"]));
    assert!(shown.contains("damaged"), "{shown}");
    assert!(shown.contains("help host runtimes install demo"), "{shown}");
    // A record that cannot be read is put right by the same command.
    fs::write(place.path("data/tare/runtimes/demo-1.0/installed.json"), "{").expect("writing");
    let listed = place.listed("demo");
    assert_eq!(
        (&listed["status"], &listed["command"]),
        (&"damaged".into(), &"host runtimes install demo".into())
    );
    place.host(&["runtimes", "install", "demo"]).assert().success();
    assert_eq!(place.listed("demo")["status"], "installed");
}
