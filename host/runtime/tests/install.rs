//! Installing from wheels that were fetched earlier, as after an interrupted installation, which needs no pip.
//! Fetching is tested with the command line.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host_hash::sha256_of_file;
use host_record::RuntimeOrigin;
use host_registry::{Metadata, NativePlugin, Origin};
use host_runtime::{
    Flaw, Named, Observer, RuntimeError, RuntimeStatus, Runtimes, Silent, Step, platform_name,
};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const NAME: &str = "demo-1.0";
const FILE: &str = "demo-1.0-py3-none-any.whl";
const LIBRARY: &str = "demo/capi/libdemo.so.1";

/// A user's data folder, and a plugin whose runtime is one wheel.
struct Place {
    folder: tempfile::TempDir,
    named: Named,
}

impl Place {
    /// Creates a place with a wheel of these files in the downloads. `unpack` selects files.
    fn new(files: &[(&str, &[u8])], unpack: &str) -> Self {
        let place = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            named: Named::default(),
        };
        fs::create_dir(place.path("plugin")).expect("a folder");
        place.arrive(files);
        place.lock(&sha256_of_file(&place.wheel()).expect("a wheel"), unpack);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn wheel(&self) -> PathBuf {
        self.path("data/runtimes/.downloads").join(NAME).join(FILE)
    }

    fn arrive(&self, files: &[(&str, &[u8])]) {
        let wheel = self.wheel();
        fs::create_dir_all(wheel.parent().expect("a folder")).expect("a folder");
        let mut writer = ZipWriter::new(File::create(wheel).expect("a file"));
        for (name, content) in files {
            writer.start_file(*name, SimpleFileOptions::default()).expect("an entry");
            writer.write_all(content).expect("an entry");
        }
        writer.finish().expect("a wheel");
    }

    fn lock(&self, sha256: &str, unpack: &str) {
        let bytes = fs::metadata(self.wheel()).expect("a wheel").len();
        let text = format!(
            "schema = 1\n[[package]]\nplatform = \"{}\"\nname = \"demo\"\nversion = \"1.0\"\n\
             file = \"{FILE}\"\nsha256 = \"{sha256}\"\nbytes = {bytes}\nunpack = [\"{unpack}\"]\n",
            platform_name()
        );
        fs::write(self.path("plugin/runtime.lock"), text).expect("a lock");
    }

    fn plugin(&self) -> NativePlugin {
        let text = "schema = 1\nid = \"demo-npu\"\nversion = \"0.1.0\"\nkind = \"backend\"\n\
                    summary = \"A test.\"\nlicense = \"MIT\"\nlibrary = \"backend_demo\"\n\
                    api = \">=1.0\"\nhardware = [\"cpu\"]\nengine = \"none\"\n[runtime]\n\
                    name = \"demo\"\nversion = \"1.0\"\nsummary = \"A demo.\"\n";
        NativePlugin {
            metadata: Metadata::parse(text, Path::new("plugin.toml")).expect("a good file"),
            folder: self.path("plugin"),
            library: self.path("plugin/libbackend_demo.so"),
            origin: Origin::User,
        }
    }

    fn runtimes(&self) -> Runtimes {
        Runtimes::new(Some(&self.path("data")), self.named.clone())
    }

    fn install(&self) -> Result<bool, RuntimeError> {
        self.runtimes().install(&self.plugin(), &mut Silent).map(|outcome| outcome.was_there)
    }

    fn status(&self) -> RuntimeStatus {
        self.runtimes().find(&self.plugin()).expect("no error").expect("it takes one")
    }

    /// Returns the error of an installation, without paths, and checks that nothing is left.
    #[track_caller]
    fn refusal(&self) -> String {
        let error = self.install().expect_err("it must be refused");
        assert!(!self.path("data/runtimes").join(NAME).exists());
        assert_eq!(self.runtimes().installed().expect("readable").len(), 0);
        let left: Vec<_> = fs::read_dir(self.path("data/runtimes"))
            .expect("the folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with(".new") || name.starts_with(".old"))
            .collect();
        assert_eq!(left, [""; 0], "nothing half made is left");
        error.to_string().replace(&self.folder.path().display().to_string(), "")
    }
}

#[test]
fn what_the_lock_names_is_unpacked_flat_and_recorded() {
    let place = Place::new(&[(LIBRARY, b"code"), ("demo/other.py", b"")], "demo/capi/lib*.so.*");
    let RuntimeStatus::Missing { reason } = place.status() else { panic!("nothing is installed") };
    assert_eq!(reason, "is not installed");
    assert!(!place.install().expect("installing"));
    let folder = place.path("data/runtimes").join(NAME);
    assert_eq!(fs::read(folder.join("lib/libdemo.so.1")).expect("a library"), b"code");
    assert!(!place.wheel().exists(), "downloads are not kept when all is installed");
    insta::assert_snapshot!(
        fs::read_to_string(folder.join("installed.json"))
            .expect("a record")
            .replace(&platform_name(), "PLATFORM")
            .lines()
            .map(|line| if line.contains("\"sha256\"") { "SHA-256" } else { line })
            .collect::<Vec<_>>()
            .join("\n"),
        @r#"
    {
      "schema": 1,
      "name": "demo",
      "version": "1.0",
      "platform": "PLATFORM",
      "packages": [
        {
          "name": "demo",
          "version": "1.0",
          "file": "demo-1.0-py3-none-any.whl",
    SHA-256
          "unpack": [
            "demo/capi/lib*.so.*"
          ],
          "to": "lib"
        }
      ],
      "files": {
        "lib/libdemo.so.1": {
    SHA-256
          "bytes": 4
        }
      }
    }
    "#
    );
    let RuntimeStatus::Ready(ready) = place.status() else { panic!("it is installed") };
    let identity = ready.identify(&place.plugin()).expect("readable");
    assert_eq!(
        (identity.version.as_deref(), identity.origin),
        (Some("1.0"), RuntimeOrigin::Installed)
    );
    let record = sha256_of_file(&folder.join("installed.json")).expect("a record");
    assert_eq!(identity.sha256, Some(record));
    assert!(place.install().expect("installing again"), "it is there already");
}

#[test]
fn what_is_damaged_is_found_and_put_right() {
    let files: &[(&str, &[u8])] = &[(LIBRARY, b"code"), ("demo/capi/libdemo.so.2", b"more")];
    let place = Place::new(files, "demo/capi/*");
    place.install().expect("installing");
    let library = place.path("data/runtimes").join(NAME).join("lib/libdemo.so.1");
    fs::write(&library, b"c0de").expect("writing");
    fs::remove_file(library.with_extension("2")).expect("removing");
    fs::write(library.with_extension("3"), b"").expect("writing");
    let (_, flaws) = place.runtimes().verify(NAME, &mut Silent).expect("readable");
    let file = |number| format!("lib/libdemo.so.{number}");
    assert_eq!(
        flaws,
        [
            Flaw::Changed { file: file(1) },
            Flaw::Missing { file: file(2) },
            Flaw::Foreign { file: file(3) }
        ]
    );
    let RuntimeStatus::Damaged { reason } = place.status() else { panic!("it is damaged") };
    assert_eq!(reason, "is installed and damaged (lib/libdemo.so.2 is missing)");
    fs::write(library.with_extension("2"), b"mor").expect("writing");
    let RuntimeStatus::Damaged { reason } = place.status() else { panic!("it is cut short") };
    assert_eq!(reason, "is installed and damaged (lib/libdemo.so.2 has changed)");
    place.arrive(files);
    assert!(!place.install().expect("installing over it"));
    let (_, flaws) = place.runtimes().verify(NAME, &mut Silent).expect("readable");
    assert_eq!(flaws, []);
}

#[test]
fn another_lock_asks_for_another_installation() {
    let place = Place::new(&[(LIBRARY, b"code"), ("demo/x", b"")], "demo/capi/*");
    place.install().expect("installing");
    let RuntimeStatus::Ready(_) = place.status() else { panic!("it is installed") };
    place.arrive(&[(LIBRARY, b"newer"), ("demo/x", b"")]);
    place.lock(&sha256_of_file(&place.wheel()).expect("a wheel"), "demo/capi/*");
    let RuntimeStatus::Missing { reason } = place.status() else { panic!("it is another one") };
    assert_eq!(reason, "is installed from different packages than the plugin's lock");
    assert!(!place.install().expect("installing over it"));
    let library = place.path("data/runtimes").join(NAME).join("lib/libdemo.so.1");
    assert_eq!(fs::read(library).expect("a library"), b"newer");
}

#[test]
fn a_wheel_that_means_harm_or_does_not_fit_is_refused_whole() {
    let refused = |files: &[(&str, &[u8])], unpack| Place::new(files, unpack).refusal();
    let twice: &[(&str, &[u8])] = &[("a/lib.so", b"1"), ("b/lib.so", b"2")];
    let mut cases = vec![
        refused(&[(LIBRARY, b"code"), ("../../evil.so", b"")], "demo/capi/*"),
        refused(&[(LIBRARY, b"code"), ("/etc/evil.so", b"")], "demo/capi/*"),
        refused(&[(LIBRARY, b"code"), ("demo\\..\\..\\evil.so", b"")], "demo/capi/*"),
        refused(&[(LIBRARY, b"code")], "demo/libs/*"),
        refused(twice, "*/lib.so"),
    ];
    let place = Place::new(&[(LIBRARY, b"code")], "demo/capi/*");
    fs::write(place.wheel(), "no archive").expect("writing");
    place.lock(&sha256_of_file(&place.wheel()).expect("a wheel"), "demo/capi/*");
    cases.push(place.refusal());
    insta::assert_snapshot!(cases.join("\n"), @r#"
    /data/runtimes/.downloads/demo-1.0/demo-1.0-py3-none-any.whl cannot be unpacked: "../../evil.so" would be written outside of its folder
    /data/runtimes/.downloads/demo-1.0/demo-1.0-py3-none-any.whl cannot be unpacked: "/etc/evil.so" would be written outside of its folder
    /data/runtimes/.downloads/demo-1.0/demo-1.0-py3-none-any.whl cannot be unpacked: "demo\\..\\..\\evil.so" would be written outside of its folder
    /data/runtimes/.downloads/demo-1.0/demo-1.0-py3-none-any.whl cannot be unpacked: none of its files fits `demo/libs/*`
    /data/runtimes/.downloads/demo-1.0/demo-1.0-py3-none-any.whl cannot be unpacked: two of its files would become lib/lib.so
    /data/runtimes/.downloads/demo-1.0/demo-1.0-py3-none-any.whl cannot be unpacked: invalid Zip archive: Could not find EOCD
    "#);
}

#[test]
fn a_machine_for_which_there_is_no_package_is_told_what_to_do() {
    let place = Place::new(&[(LIBRARY, b"code")], "demo/capi/*");
    // Another plugin may have installed one of the same name and version.
    place.install().expect("installing");
    let lock = place.path("plugin/runtime.lock");
    let text = fs::read_to_string(&lock).expect("a lock");
    fs::write(&lock, text.replace(&platform_name(), "plan9-mips")).expect("writing");
    let RuntimeStatus::Unavailable { reason } = place.status() else { panic!("no package") };
    assert_eq!(
        reason,
        format!("is not available for {} (packages exist for: plan9-mips)", platform_name())
    );
    let error = place.install().expect_err("no package");
    let shown = format!("{error}\nhelp: {}", error.help().expect("help"));
    insta::assert_snapshot!(shown.replace(&platform_name(), "PLATFORM"), @r#"
    runtime `demo-1.0` of plugin `demo-npu` cannot be installed: its runtime.lock has no package for PLATFORM, only for plan9-mips
    help: install it by the vendor's instructions and name its folder or library with --runtime demo-npu=PATH or TARE_RUNTIME_DEMO_NPU
    "#);
    fs::remove_file(&lock).expect("removing");
    let error = place.install().expect_err("no lock");
    assert!(matches!(error, RuntimeError::NoLock { .. }), "{error}");
    let RuntimeStatus::Unavailable { reason } = place.status() else { panic!("no lock") };
    assert_eq!(reason, "cannot be installed: the plugin has no runtime.lock");
}

#[test]
fn nothing_is_begun_where_there_is_no_space_for_it() {
    let place = Place::new(&[(LIBRARY, b"code")], "demo/capi/*");
    let lock = place.path("plugin/runtime.lock");
    let bytes = fs::metadata(place.wheel()).expect("a wheel").len();
    let text = fs::read_to_string(&lock).expect("a lock");
    let much = text.replace(&format!("bytes = {bytes}"), &format!("bytes = {}", i64::MAX));
    fs::write(&lock, much).expect("writing");
    let error = place.install().expect_err("no disk is that large");
    assert!(matches!(error, RuntimeError::Space { .. }), "{error}");
    assert!(error.help().is_some_and(|help| help.contains("free some space")));
}

#[test]
fn removing_takes_all_of_it() {
    let place = Place::new(&[(LIBRARY, b"code")], "demo/capi/*");
    place.install().expect("installing");
    place.runtimes().remove(NAME, &mut Silent).expect("removing");
    assert!(!place.path("data/runtimes").join(NAME).exists());
    let error = place.runtimes().remove(NAME, &mut Silent).expect_err("it is gone");
    assert!(matches!(error, RuntimeError::NotInstalled { .. }), "{error}");
    // Nothing outside of the folder is ever removed.
    for name in ["", ".", "..", ".locks", "../plugin"] {
        let error = place.runtimes().remove(name, &mut Silent).expect_err("no runtime");
        assert!(matches!(error, RuntimeError::NotInstalled { .. }), "{name}: {error}");
    }
    assert!(place.path("plugin/runtime.lock").is_file());
}

#[test]
fn hosts_that_install_at_the_same_time_take_turns() {
    struct Counting(usize);
    impl Observer for Counting {
        fn step(&mut self, step: Step<'_>) {
            self.0 += usize::from(matches!(step, Step::Unpacking { .. }));
        }
        fn advanced(&mut self, _: u64) {}
        fn shows_pip(&self) -> bool {
            false
        }
    }
    let place = Place::new(&[(LIBRARY, &[7; 1 << 20])], "demo/capi/*");
    let unpacked: usize = std::thread::scope(|scope| {
        let install = || {
            let mut counting = Counting(0);
            place.runtimes().install(&place.plugin(), &mut counting).expect("installing");
            counting.0
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(install)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(unpacked, 1, "the others find it installed");
}

#[test]
fn what_the_user_names_goes_before_what_is_installed() {
    let mut place = Place::new(&[(LIBRARY, b"code")], "demo/capi/lib*");
    place.install().expect("installing");
    let folder = place.path("theirs");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("libdemo.so.1"), b"\x7fELF, theirs").expect("a library");
    fs::write(folder.join("README"), b"").expect("another file");
    let origin = |place: &Place| match place.status() {
        RuntimeStatus::Ready(ready) => {
            (ready.origin, ready.path.clone(), ready.identify(&place.plugin()))
        }
        missing => panic!("{missing:?}"),
    };
    let variable = "TARE_RUNTIME_DEMO_NPU".into();
    place.named.environment = BTreeMap::from([(variable, folder.clone())]);
    let (by, path, identity) = origin(&place);
    assert_eq!((by, &path), (RuntimeOrigin::Environment, &folder));
    let identity = identity.expect("readable");
    assert_eq!(identity.version, None, "a path does not say");
    let first = identity.sha256.expect("of the library that the lock would have installed");
    fs::write(folder.join("README"), b"changed").expect("another file");
    assert_eq!(origin(&place).2.expect("readable").sha256.as_ref(), Some(&first));
    fs::write(folder.join("libdemo.so.1"), b"\x7fELF, changed").expect("a library");
    assert_ne!(origin(&place).2.expect("readable").sha256, Some(first));

    let library = folder.join("libdemo.so.1");
    place.named.flags = BTreeMap::from([("demo-npu".into(), library.clone())]);
    let (by, path, identity) = origin(&place);
    assert_eq!((by, &path), (RuntimeOrigin::Flag, &library));
    let hash = sha256_of_file(&library).expect("a library");
    assert_eq!(identity.expect("readable").sha256, Some(hash));

    place.named.flags = BTreeMap::from([("demo-npu".into(), "/nonexistent/runtime".into())]);
    let error = place.runtimes().find(&place.plugin()).expect_err("it is not there");
    insta::assert_snapshot!(error, @"the runtime that --runtime names for plugin `demo-npu` does not exist: /nonexistent/runtime");
}

#[test]
fn what_is_named_and_is_no_runtime_is_an_error_that_says_what_was_looked_for() {
    let mut place = Place::new(&[(LIBRARY, b"code")], "demo/capi/libdemo.so.*");
    let folder = place.path("theirs");
    fs::create_dir_all(folder.join("lib")).expect("a folder");
    for name in ["libother.so.1", "demo.so", "README"] {
        fs::write(folder.join(name), b"\x7fELF").expect("a file");
    }
    place.named.flags = BTreeMap::from([("demo-npu".into(), folder.clone())]);
    let error = place.runtimes().find(&place.plugin()).expect_err("none of it is the runtime's");
    assert_eq!(
        error.to_string(),
        format!(
            "the runtime that --runtime names for plugin `demo-npu` is not a runtime: {} has neither \
             libdemo.so*, nor a folder `lib` that does",
            folder.display()
        )
    );
    assert!(error.help().expect("a hint").contains("the library itself"));

    // The library may have any version, and be in the folder or in its `lib`.
    for name in ["libdemo.so.9", "libdemo.so", "lib/libdemo.so.1"] {
        let library = folder.join(name);
        fs::write(&library, b"\x7fELF").expect("a library");
        assert!(matches!(place.status(), RuntimeStatus::Ready(_)), "{name}");
        fs::remove_file(&library).expect("it is there");
    }

    let file = folder.join("README");
    fs::write(&file, b"text").expect("a file");
    place.named.flags = BTreeMap::from([("demo-npu".into(), file.clone())]);
    let error = place.runtimes().find(&place.plugin()).expect_err("text");
    let expected = format!("is not a runtime: {} is a file but not a library", file.display());
    assert!(error.to_string().ends_with(&expected), "{error}");
}

#[test]
fn what_has_changed_since_it_was_installed_is_not_what_results_name() {
    let place = Place::new(&[(LIBRARY, b"code")], "demo/capi/lib*");
    place.install().expect("installing");
    let identify = || match place.status() {
        RuntimeStatus::Ready(ready) => ready.identify(&place.plugin()).map(|_| ready.path),
        missing => panic!("{missing:?}"),
    };
    let folder = identify().expect("it is what was installed");
    // It has the same size, so that `glance` does not detect it.
    let library = folder.join("lib").join(LIBRARY.rsplit('/').next().expect("a name"));
    fs::write(&library, b"CODE").expect("a library");
    let error = identify().expect_err("it has changed").to_string();
    assert!(
        error.ends_with("differs from what was installed: lib/libdemo.so.1 has changed"),
        "{error}"
    );
    fs::write(&library, b"code").expect("a library");
    identify().expect("it is again");
    fs::write(folder.join("lib/libc.so.6"), b"other").expect("a library");
    let error = identify().expect_err("the loader would take it").to_string();
    assert!(error.ends_with("lib/libc.so.6 does not belong to it"), "{error}");
    fs::remove_file(folder.join("lib/libc.so.6")).expect("removing it");

    // Files that have not changed for a while are not read again.
    let verified = folder.join("verified.json");
    assert!(!verified.exists(), "a change might not show yet");
    std::thread::sleep(Duration::from_millis(1100));
    identify().expect("it is what was installed");
    assert!(verified.exists());
    identify().expect("as it was");
    fs::write(&library, b"CODE").expect("a library");
    let error = identify().expect_err("it has changed").to_string();
    assert!(
        error.ends_with("differs from what was installed: lib/libdemo.so.1 has changed"),
        "{error}"
    );
}
