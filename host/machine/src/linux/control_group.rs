//! Control groups, of version 1 and version 2.

use std::path::Path;

use host_record::{ControlGroup, Limit, list_of_processors, processors_of_list};

use super::files::Files;
use crate::system::QuotaThrottling;

/// Returns the folders of this control group and its parents, innermost first: those of version 1 for
/// `controller`, and those of version 2.
fn groups(files: &Files, controller: &str) -> Vec<String> {
    let Some(membership) = files.text("proc/self/cgroup") else { return Vec::new() };
    let mut folders = Vec::new();
    for line in membership.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let root = if controllers.is_empty() {
            "sys/fs/cgroup".to_owned()
        } else if controllers.split(',').any(|name| name == controller) {
            format!("sys/fs/cgroup/{controller}")
        } else {
            continue;
        };
        // In a container the path may be the one outside, and only the root may be visible.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            folders.push(format!("{root}/{}", group.display()));
        }
    }
    folders
}

/// Returns the tightest limit that `read` finds in the folders of a controller.
fn tightest(
    files: &Files,
    controller: &str,
    read: impl Fn(&Files, &str) -> Option<Limit>,
) -> Option<Limit> {
    let groups = groups(files, controller);
    let limits = groups.iter().filter_map(|folder| read(files, folder));
    limits.reduce(|one, other| match (one, other) {
        (Limit::At(one), Limit::At(other)) => Limit::At(one.min(other)),
        (at @ Limit::At(_), _) | (_, at) => at,
    })
}

pub(super) fn control_group(files: &Files) -> ControlGroup {
    let set = |kind: &str| {
        let names = [format!("cpuset.{kind}.effective"), format!("cpuset.effective_{kind}")];
        let list = groups(files, "cpuset").iter().find_map(|folder| {
            names.iter().find_map(|name| files.text(&format!("{folder}/{name}")))
        })?;
        Some(list_of_processors(&processors_of_list(&list)?))
    };
    ControlGroup {
        processor_quota: processor_quota(files),
        memory_bytes: tightest(files, "memory", memory_limit),
        processors: set("cpus"),
        memory_nodes: set("mems"),
    }
}

pub(super) fn processor_quota(files: &Files) -> Option<Limit> {
    tightest(files, "cpu", |files, folder| {
        let ratio = |allowed: f64, period: f64| (period > 0.0).then(|| Limit::At(allowed / period));
        if let Some(text) = files.text(&format!("{folder}/cpu.max")) {
            let (allowed, period) = text.split_once(' ')?;
            return match allowed {
                "max" => Some(Limit::NONE),
                _ => ratio(allowed.parse().ok()?, period.trim().parse().ok()?),
            };
        }
        let allowed: i64 = files.text(&format!("{folder}/cpu.cfs_quota_us"))?.parse().ok()?;
        let period = files.number(&format!("{folder}/cpu.cfs_period_us"))?;
        // Version 1 has −1 for no limit.
        if allowed < 0 { Some(Limit::NONE) } else { ratio(allowed as f64, period as f64) }
    })
}

fn memory_limit(files: &Files, folder: &str) -> Option<Limit> {
    if let Some(text) = files.text(&format!("{folder}/memory.max")) {
        return match text.as_str() {
            "max" => Some(Limit::NONE),
            _ => text.parse().ok().map(Limit::At),
        };
    }
    let bytes = files.number(&format!("{folder}/memory.limit_in_bytes"))?;
    // Version 1 has the largest number of whole pages for no limit.
    let is_none = bytes >= i64::MAX as u64 - 65_535;
    Some(if is_none { Limit::NONE } else { Limit::At(bytes as f64) })
}

/// Returns the memory that the tightest limit leaves.
pub(super) fn memory_left(files: &Files) -> Option<u64> {
    let left = groups(files, "memory").into_iter().filter_map(|folder| {
        let read = |file: &str| files.number(&format!("{folder}/{file}"));
        let version_2 = || read("memory.max").zip(read("memory.current"));
        let version_1 = || read("memory.limit_in_bytes").zip(read("memory.usage_in_bytes"));
        let (limit, used) = version_2().or_else(version_1)?;
        // Pages of files are freed when memory is needed.
        let statistics = files.text(&format!("{folder}/memory.stat")).unwrap_or_default();
        let inactive = ["total_inactive_file ", "inactive_file "]
            .iter()
            .find_map(|name| counter(&statistics, name));
        Some(limit.saturating_sub(used.saturating_sub(inactive.unwrap_or(0))))
    });
    left.min()
}

pub(super) fn out_of_memory_kills(files: &Files) -> Option<u64> {
    let count = |file: &str| counter(&files.text(file)?, "oom_kill ");
    let of_group = groups(files, "memory").into_iter().find_map(|folder| {
        count(&format!("{folder}/memory.events"))
            .or_else(|| count(&format!("{folder}/memory.oom_control")))
    });
    of_group.or_else(|| count("proc/vmstat"))
}

/// Returns the throttling by quotas. A group without a quota has no counts.
pub(super) fn quota_throttling(files: &Files) -> Option<QuotaThrottling> {
    let of_group = |folder: String| {
        let text = files.text(&format!("{folder}/cpu.stat"))?;
        // Version 1 counts nanoseconds under another name.
        let ns = match counter(&text, "throttled_usec ") {
            Some(microseconds) => microseconds.checked_mul(1000),
            None => counter(&text, "throttled_time "),
        };
        Some(QuotaThrottling { times: counter(&text, "nr_throttled ")?, ns: ns? })
    };
    let groups = groups(files, "cpu").into_iter().filter_map(of_group);
    groups.reduce(|one, other| QuotaThrottling {
        times: one.times + other.times,
        ns: one.ns + other.ns,
    })
}

/// Returns the number after `name`, which ends with a space, at the start of a line.
fn counter(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn the_tightest_limit_counts() {
        let version_2 = fake::Files::new(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/cpu.max", "200000 100000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/cpuset.cpus.effective", "0-1,3\n"),
            ("sys/fs/cgroup/cpuset.mems.effective", "0\n"),
        ]);
        let group = version_2.machine().control_group();
        assert_eq!(group.processor_quota, Some(Limit::At(1.5)));
        assert_eq!(version_2.machine().processor_quota(), Some(Limit::At(1.5)));
        assert_eq!(group.memory_bytes, Some(Limit::NONE));
        assert_eq!(group.processors.as_deref(), Some("0-1,3"));
        assert_eq!(group.memory_nodes.as_deref(), Some("0"));

        let version_1 = fake::Files::new(&[
            ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/outside\n3:cpuset:/\n0::/\n"),
            ("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-7\n"),
        ]);
        let group = version_1.machine().control_group();
        assert_eq!(group.processor_quota, Some(Limit::NONE));
        assert_eq!(group.memory_bytes, Some(Limit::NONE));
        assert_eq!(group.processors.as_deref(), Some("0-7"));
        version_1.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
        version_1.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
        assert_eq!(version_1.machine().processor_quota(), Some(Limit::At(0.5)));

        let absurd = fake::Files::new(&[
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cpu.max", "1000 0\n"),
        ]);
        assert_eq!(absurd.machine().processor_quota(), None);
    }

    #[test]
    fn groups_are_looked_at_from_the_inside_out() {
        let files = Files::at(std::path::Path::new("/nowhere"));
        assert_eq!(groups(&files, "cpu"), Vec::<String>::new());
        let made = fake::Files::new(&[("proc/self/cgroup", "5:cpu:/x\n0::/a/b\n")]);
        let files = Files::at(made.root());
        let version_2 = ["sys/fs/cgroup/a/b", "sys/fs/cgroup/a", "sys/fs/cgroup/"];
        assert_eq!(groups(&files, "memory"), version_2);
        let both = [&["sys/fs/cgroup/cpu/x", "sys/fs/cgroup/cpu/"][..], &version_2].concat();
        assert_eq!(groups(&files, "cpu"), both);
    }

    #[test]
    fn memory_is_bounded_by_the_control_group() {
        let version_2 = fake::Files::new(&[
            ("proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    800 kB\n"),
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "1000\n"),
            ("sys/fs/cgroup/a/b/memory.events", "low 0\noom 3\noom_kill 2\n"),
            ("sys/fs/cgroup/a/memory.max", "600000\n"),
            ("sys/fs/cgroup/a/memory.current", "200000\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 50000\n"),
        ]);
        let machine = version_2.machine();
        assert_eq!(machine.memory().map(|memory| memory.total), Some(1_024_000));
        assert_eq!(machine.available_memory(), Some(450_000));
        assert_eq!(machine.out_of_memory_kills(), Some(2));

        let version_1 = fake::Files::new(&[
            ("proc/self/cgroup", "5:cpu:/x\n4:memory:/outside\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "4000\n"),
            ("sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\noom_kill 7\n"),
            ("proc/vmstat", "nr_free_pages 1\noom_kill 9\n"),
        ]);
        assert_eq!(version_1.machine().available_memory(), Some(5000));
        assert_eq!(version_1.machine().out_of_memory_kills(), Some(7));

        let none = fake::Files::new(&[("proc/vmstat", "nr_free_pages 1\noom_kill 9\n")]);
        assert_eq!(none.machine().out_of_memory_kills(), Some(9));
    }

    #[test]
    fn throttling_is_added_up_over_the_groups() {
        let version_2 = fake::Files::new(&[
            ("proc/self/cgroup", "0::/a\n"),
            ("sys/fs/cgroup/a/cpu.stat", "usage_usec 5\nnr_throttled 3\nthrottled_usec 10\n"),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 9\n"),
        ]);
        let expected = QuotaThrottling { times: 3, ns: 10_000 };
        assert_eq!(version_2.machine().quota_throttling(), Some(expected));
        let version_1 = fake::Files::new(&[
            ("proc/self/cgroup", "4:cpu,cpuacct:/a\n"),
            ("sys/fs/cgroup/cpu/a/cpu.stat", "nr_throttled 3\nthrottled_time 7\n"),
            ("sys/fs/cgroup/cpu/cpu.stat", "nr_throttled 1\nthrottled_time 2\n"),
        ]);
        let expected = QuotaThrottling { times: 4, ns: 9 };
        assert_eq!(version_1.machine().quota_throttling(), Some(expected));
    }
}
