//! Runs on a real Slurm, which each test starts on this machine: all nodes are on the loopback, on free ports.
//!
//! Where Slurm is not installed, the tests are skipped; in CI they fail.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use end_to_end::{Ended, Place};
use serde_json::Value;

/// A Slurm of its own, without systemd, that ends with the test.
struct Slurm {
    folder: tempfile::TempDir,
    nodes: usize,
}

/// Returns whether a program is installed.
fn is_installed(program: &str) -> bool {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    folders.iter().any(|folder| Path::new(folder).join(program).exists())
}

/// Returns ports that nothing listens on.
fn free_ports(count: usize) -> Vec<u16> {
    let sockets: Vec<_> =
        (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0)).expect("a free port")).collect();
    sockets.iter().map(|socket| socket.local_addr().expect("an address").port()).collect()
}

impl Slurm {
    /// Starts a controller and nodes; `None` if Slurm is not installed here.
    #[expect(
        clippy::print_stderr,
        reason = "what is missing is for whoever reads the test's output"
    )]
    fn start(nodes: usize) -> Option<Self> {
        let needed = ["slurmctld", "slurmd", "sbatch", "munged"];
        if let Some(missing) = needed.iter().find(|program| !is_installed(program)) {
            assert!(std::env::var_os("CI").is_none(), "{missing} is not installed");
            eprintln!("skipped: {missing} is not installed");
            return None;
        }
        // The path of a socket may have 107 bytes.
        let folder = tempfile::Builder::new().prefix("slurm").tempdir_in("/tmp").expect("a folder");
        let slurm = Self { folder, nodes };
        let at = slurm.path().display().to_string();
        for part in ["state", "log", "spool", "munge"] {
            fs::create_dir(slurm.path().join(part)).expect("a folder");
        }
        let mut key = [0_u8; 1024];
        use std::io::Read as _;
        fs::File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut key))
            .expect("a key");
        let key_path = slurm.path().join("munge/key");
        fs::write(&key_path, key).expect("a key");
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&key_path, fs::Permissions::from_mode(0o400)).expect("permissions");
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(slurm.path(), open.clone()).expect("permissions");
        fs::set_permissions(slurm.path().join("munge"), open).expect("permissions");
        let ports = free_ports(nodes + 1);
        let of_nodes: String = (1..=nodes)
            .map(|node| {
                format!(
                    "NodeName=n{node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={} CPUs=2 RealMemory=4000 \
                     State=UNKNOWN\n",
                    ports[node]
                )
            })
            .collect();
        let user = Command::new("id").arg("-un").output().expect("a user").stdout;
        let user = String::from_utf8_lossy(&user).trim().to_owned();
        let configuration = format!(
            "ClusterName=loop\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={}\nSlurmUser={user}\n\
             SlurmdUser={user}\nAuthType=auth/munge\nAuthInfo=socket={at}/munge/sock\nCredType=cred/munge\n\
             StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool/%n\nSlurmctldPidFile={at}/slurmctld.pid\n\
             SlurmdPidFile={at}/slurmd.%n.pid\nSlurmctldLogFile={at}/log/slurmctld.log\n\
             SlurmdLogFile={at}/log/slurmd.%n.log\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
             JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSchedulerType=sched/backfill\n\
             SchedulerParameters=sched_interval=2,bf_interval=2\nReturnToService=2\nMpiDefault=none\n\
             SwitchType=switch/none\nSlurmdParameters=config_overrides\nSlurmdTimeout=10\nKillWait=2\n\
             MinJobAge=600\n{of_nodes}PartitionName=bench Nodes=ALL Default=YES MaxTime=INFINITE State=UP \
             OverSubscribe=NO\n",
            ports[0]
        );
        fs::write(slurm.path().join("slurm.conf"), configuration).expect("a configuration");
        fs::write(slurm.path().join("cgroup.conf"), "").expect("a configuration");
        slurm.daemon(
            "munged",
            &[
                &format!("--key-file={at}/munge/key"),
                &format!("--socket={at}/munge/sock"),
                &format!("--pid-file={at}/munge/pid"),
                &format!("--log-file={at}/munge/log"),
                &format!("--seed-file={at}/munge/seed"),
            ],
        );
        slurm.daemon("slurmctld", &["-c"]);
        for node in 1..=nodes {
            slurm.start_node(node);
        }
        slurm.wait_for_nodes();
        Some(slurm)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn configuration(&self) -> PathBuf {
        self.path().join("slurm.conf")
    }

    /// Starts a program that goes on in the background by itself.
    fn daemon(&self, program: &str, arguments: &[&str]) {
        let path =
            format!("{}:/usr/sbin:/usr/local/sbin", std::env::var("PATH").unwrap_or_default());
        let ended = Command::new(program)
            .args(arguments)
            .env("SLURM_CONF", self.configuration())
            .env("PATH", path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(ended.expect("starting a daemon").success(), "{program} did not start");
    }

    fn start_node(&self, node: usize) {
        let name = format!("n{node}");
        fs::create_dir_all(self.path().join("spool").join(&name)).expect("a folder");
        self.daemon("slurmd", &["-N", &name]);
    }

    /// Runs a command of Slurm and returns what it printed.
    fn command(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program)
            .args(arguments)
            .env("SLURM_CONF", self.configuration())
            .output()
            .expect("starting a command of Slurm");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn wait_for_nodes(&self) {
        let all = self.nodes.to_string();
        wait("all nodes are idle", 300, || {
            self.command("sinfo", &["-h", "-t", "idle", "-o", "%D"]).trim() == all
        });
    }

    fn pid(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.path().join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|pid| !pid.is_empty())
    }

    /// Sends a signal to one of the daemons, by the file with its id.
    fn signal(&self, name: &str, signal: &str) {
        if let Some(pid) = self.pid(name) {
            drop(Command::new("kill").args([signal, &pid]).stderr(Stdio::null()).status());
        }
    }

    /// Returns `host` in a place, with this cluster.
    fn host(&self, place: &Place, arguments: &[&str]) -> Command {
        let mut command = place.host(arguments);
        command.env("SLURM_CONF", self.configuration());
        command
    }

    fn run(&self, place: &Place, arguments: &[&str]) -> Ended {
        let output = self.host(place, arguments).output().expect("starting host");
        Ended::new(arguments, &output)
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        drop(self.command("scancel", &["--full", "--partition=bench"]));
        for node in 1..=self.nodes {
            self.signal(&format!("slurmd.n{node}.pid"), "-TERM");
        }
        self.signal("slurmctld.pid", "-TERM");
        thread::sleep(Duration::from_millis(500));
        self.signal("munge/pid", "-TERM");
        for _ in 0..50 {
            let names = (1..=self.nodes).map(|node| format!("slurmd.n{node}.pid"));
            let mut names = names.chain(["slurmctld.pid".to_owned(), "munge/pid".to_owned()]);
            if !names.any(|name| self.pid(&name).is_some()) {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Waits until something is so.
fn wait(what: &str, seconds: u64, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(seconds);
    while !is_so() {
        assert!(Instant::now() < end, "waited {seconds} s in vain until {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Kills the process of a task of a run.
fn kill_task(run: &Path, task: u32) {
    let variable = format!("SLURM_ARRAY_TASK_ID={task}");
    let run = run.file_name().expect("a name").to_string_lossy().into_owned();
    let mut killed = 0;
    for entry in fs::read_dir("/proc").expect("processes").flatten() {
        let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        let (line, variables) = (read("cmdline"), read("environ"));
        let (line, variables) =
            (String::from_utf8_lossy(&line), String::from_utf8_lossy(&variables));
        if line.contains("run-part")
            && line.contains(&run)
            && variables.split('\0').any(|it| it == variable)
        {
            let pid = entry.file_name().to_string_lossy().into_owned();
            drop(Command::new("kill").args(["-KILL", &pid]).status());
            killed += 1;
        }
    }
    assert!(killed > 0, "no process of task {task}");
}

/// Returns a manifest of so many cases of the backend `null`, each of which takes about so many milliseconds.
fn manifest(cases: u32, milliseconds: u32, execution: &str) -> String {
    let batches: Vec<String> = (1..=cases).map(|batch| batch.to_string()).collect();
    format!(
        "schema = 1\nexperiment = {{ name = \"nodes\" }}\n[[model]]\nid = \"any\"\npath = \"any.model\"\n\
         [[backend]]\nid = \"null\"\n[matrix]\nbatch = [{}]\n[measure]\nwarm-up = \"0s\"\n\
         duration = \"{milliseconds}ms\"\nminimum-queries = 1\n[[metric]]\nplugin = \"throughput\"\n\
         [[report]]\nplugin = \"csv\"\n[execution]\nengine = \"slurm\"\n{execution}",
        batches.join(", ")
    )
}

fn place(manifest: &str) -> Place {
    let place = Place::new();
    place.write("any.model", "anything");
    place.write("it.toml", manifest);
    place
}

/// Returns the keys of a run's journal, sorted.
fn measured(place: &Place) -> Vec<String> {
    let mut keys: Vec<String> = place
        .lines("journal.jsonl")
        .iter()
        .inspect(|line| assert_eq!(line["outcome"]["outcome"], "finished", "{line}"))
        .map(|line| line["key"].to_string())
        .collect();
    keys.sort();
    keys
}

fn allocation(line: &Value) -> &Value {
    &line["environment"]["allocation"]
}

#[test]
fn a_run_on_slurm_has_the_same_cases_as_one_on_this_machine() {
    let Some(slurm) = Slurm::start(2) else { return };
    let on_nodes = place(&manifest(12, 20, "block = 4\n"));
    let run = slurm.run(&on_nodes, &["run", "it.toml"]).expect(0);
    assert!(run.stderr.contains("with 3 tasks"), "{}", run.stderr);
    let here = place(&manifest(12, 20, ""));
    let _ = here.run(&["run", "it.toml", "--on", "local"]).expect(0);
    assert_eq!(measured(&on_nodes), measured(&here));

    let lines = on_nodes.lines("journal.jsonl");
    for line in &lines {
        let allocation = allocation(line);
        assert_eq!(allocation["engine"], "slurm", "{line}");
        assert_eq!(
            (&allocation["partition"], &allocation["exclusive"]),
            (&"bench".into(), &true.into())
        );
        assert!(allocation["node"] == "n1" || allocation["node"] == "n2", "{line}");
    }
    // A block stays on one node, and its folder goes when the run is complete.
    let tasks: std::collections::BTreeSet<String> =
        lines.iter().map(|line| allocation(line)["task"].to_string()).collect();
    assert_eq!(tasks.len(), 3, "{tasks:?}");
    let folder = on_nodes.run_folder();
    assert!(!folder.join("parts").exists() && !folder.join("blocks").exists());
    assert!(folder.join("samples").read_dir().expect("samples").count() == 12);
    assert!(folder.join("finished.json").exists());

    // The database takes the run in as any other, once.
    let synced = on_nodes.run(&["results", "sync"]).expect(0);
    assert!(synced.stderr.contains("0 runs imported, 1 unchanged"), "{}", synced.stderr);
    let table = on_nodes.run(&["results", "show", "latest", "--format", "csv"]).expect(0).stdout;
    assert_eq!(table.lines().count(), 13, "{table}");
}

#[test]
fn a_shared_node_is_a_warning_on_each_result() {
    let Some(slurm) = Slurm::start(1) else { return };
    let warnings = |exclusive: &str| -> Vec<bool> {
        let place = place(&manifest(2, 20, exclusive));
        let _ = slurm.run(&place, &["run", "it.toml"]).expect(0);
        let lines = place.lines("journal.jsonl");
        let of = |line: &Value| line["outcome"]["warnings"].to_string().contains("node-shared");
        lines.iter().map(of).collect()
    };
    assert_eq!(warnings("exclusive = false\n"), [true, true]);
    assert_eq!(warnings(""), [false, false]);
}

#[test]
fn a_killed_node_costs_its_case_in_progress_which_is_tried_again() {
    let Some(slurm) = Slurm::start(2) else { return };
    let place = place(&manifest(10, 400, "block = 5\n"));
    let host = slurm.host(&place, &["run", "it.toml"]).stderr(Stdio::piped()).spawn();
    let host = host.expect("starting host");
    let parts =
        || place.path().join("results/runs").read_dir().ok()?.next()?.ok().map(|it| it.path());
    let journal = |part: &str| {
        let path = parts()?.join("parts").join(part).join("started.jsonl");
        Some(fs::read_to_string(path).ok()?.lines().count())
    };
    wait("the second case has begun", 300, || journal("0.0").is_some_and(|started| started >= 2));
    // The task dies without a word, as on a node that loses its power.
    kill_task(&parts().expect("a run"), 0);
    let output = host.wait_with_output().expect("the end of host");
    let run = Ended::new(&["run", "it.toml"], &output).expect(0);
    assert!(run.stderr.contains("it is tried again"), "{}", run.stderr);
    let lines = place.lines("journal.jsonl");
    assert_eq!(lines.len(), 10);
    assert_eq!(measured(&place).len(), 10);
    let earlier: Vec<_> =
        lines.iter().filter(|line| allocation(line)["earlier"].is_array()).collect();
    assert_eq!(earlier.len(), 1, "one case was in progress");
    assert_eq!(allocation(earlier[0])["attempt"], 1);
    assert_eq!(allocation(earlier[0])["earlier"][0]["end"], "FAILED");
}

#[test]
fn a_case_that_kills_its_task_each_time_is_given_up_with_the_reason() {
    let Some(slurm) = Slurm::start(1) else { return };
    let place = place(&manifest(3, 300, "block = 3\nretries = 0\n"));
    let host = slurm.host(&place, &["run", "it.toml"]).stderr(Stdio::piped()).spawn();
    let host = host.expect("starting host");
    let run =
        || place.path().join("results/runs").read_dir().ok()?.next()?.ok().map(|it| it.path());
    let started = || {
        let path = run()?.join("parts/0.0/started.jsonl");
        Some(fs::read_to_string(path).ok()?.lines().count())
    };
    wait("a case has begun", 300, || started().is_some_and(|started| started >= 1));
    kill_task(&run().expect("a run"), 0);
    let output = host.wait_with_output().expect("the end of host");
    let ended = Ended::new(&["run", "it.toml"], &output).expect(6);
    let lines = place.lines("journal.jsonl");
    assert_eq!(lines.len(), 3, "{}", ended.stderr);
    let failed: Vec<_> =
        lines.iter().filter(|line| line["outcome"]["outcome"] == "failed").collect();
    assert_eq!(failed.len(), 1, "{}", ended.stderr);
    let failure = &failed[0]["outcome"]["failure"];
    assert_eq!(failure["kind"], "task-ended", "{failure}");
    assert!(failure["detail"].as_str().is_some_and(|it| it.contains("signal 9")), "{failure}");
}

#[test]
fn a_run_goes_on_without_its_host_and_is_followed_again() {
    let Some(slurm) = Slurm::start(2) else { return };
    let place = place(&manifest(8, 300, "block = 4\n"));
    let mut host = slurm.host(&place, &["run", "it.toml"]).spawn().expect("starting host");
    let runs = place.path().join("results/runs");
    let parts = || Some(runs.read_dir().ok()?.next()?.ok()?.path().join("parts/0.0/journal.jsonl"));
    wait("a case is recorded", 300, || parts().is_some_and(|path| path.exists()));
    host.kill().expect("killing host");
    drop(host.wait());
    wait("the tasks have ended", 300, || slurm.command("squeue", &["-h"]).trim().is_empty());
    let attached = slurm.run(&place, &["run", "--attach", "latest"]).expect(0);
    assert!(!attached.stderr.contains("Submitted"), "{}", attached.stderr);
    assert_eq!(measured(&place).len(), 8);
    let again = slurm.run(&place, &["run", "--attach", "latest"]).expect(0);
    assert!(again.stderr.contains("nothing left to do"), "{}", again.stderr);
}

#[test]
fn what_is_wrong_with_a_cluster_is_told_before_anything_is_made() {
    let place = place(&manifest(1, 10, ""));
    let host = |name: &str, value: &Path| {
        let mut command = place.host(&["run", "it.toml"]);
        command.env(name, value);
        Ended::new(&["run"], &command.output().expect("starting host"))
    };
    let empty = place.path().join("empty");
    fs::create_dir(&empty).expect("a folder");
    let told = host("PATH", &empty).expect(1).stderr;
    assert!(told.contains("`sinfo` was not found: this machine cannot submit to Slurm"), "{told}");
    assert!(told.contains("login node"), "{told}");
    assert!(!place.path().join("results").exists());

    let Some(slurm) = Slurm::start(1) else { return };
    place.write("other.toml", &manifest(1, 10, "partition = \"fast\"\n"));
    let told = slurm.run(&place, &["run", "other.toml"]).expect(3).stderr;
    assert!(told.contains("has no partition `fast`; it has bench"), "{told}");
    assert!(!place.path().join("results").exists());
}
