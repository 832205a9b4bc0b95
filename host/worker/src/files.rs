//! What the kernel says in `/proc` and `/sys`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use host_record::processors_of_list;

/// The files of a system; tests look at a made-up one.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    root: PathBuf,
}

impl Files {
    /// Those of the system that runs.
    pub(crate) fn this() -> Self {
        Self::at("/")
    }

    pub(crate) fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub(crate) fn read(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.root.join(path)).map(|text| text.trim().to_owned())
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.read(path).ok().filter(|text| !text.is_empty())
    }

    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// Names in a folder that begin with `prefix`, sorted.
    pub(crate) fn names(&self, folder: &str, prefix: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.starts_with(prefix))
            .collect();
        names.sort();
        names
    }

    /// The value behind `name` in `/proc/self/status`.
    pub(crate) fn own_status(&self, name: &str) -> Option<String> {
        let status = self.text("proc/self/status")?;
        let value = status.lines().find_map(|line| line.strip_prefix(name))?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// Processors that this process may use.
    pub(crate) fn allowed_processors(&self) -> Option<Vec<u32>> {
        processors_of_list(&self.own_status("Cpus_allowed_list:")?)
    }

    /// Folders of our control group and of those around it, innermost first, in the hierarchy of
    /// version 2.
    pub(crate) fn control_groups(&self) -> Vec<String> {
        self.control_groups_of("")
    }

    /// The same in the hierarchy of a controller of version 1; that of version 2 has no name.
    fn control_groups_of(&self, controller: &str) -> Vec<String> {
        let membership = self.text("proc/self/cgroup").unwrap_or_default();
        let path = membership.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == controller).then_some(path)
        });
        let path = Path::new(path.unwrap_or("/").trim_start_matches('/'));
        let root = Path::new("sys/fs/cgroup").join(controller);
        // In a container the path may be that of the outside, and only the root be visible.
        path.ancestors().map(|group| root.join(group).display().to_string()).collect()
    }

    /// The least processors' worth of time that a control group around us grants; `None` where none
    /// limits it.
    pub(crate) fn processor_quota(&self) -> Option<f64> {
        let version_2 = self.control_groups().into_iter().filter_map(|group| {
            let text = self.text(&format!("{group}/cpu.max"))?;
            let (allowed, period) = text.split_once(' ')?;
            Some((allowed.parse().ok()?, period.parse().ok()?))
        });
        let version_1 = self.control_groups_of("cpu").into_iter().filter_map(|group| {
            let allowed = self.number(&format!("{group}/cpu.cfs_quota_us"))?;
            Some((allowed, self.number(&format!("{group}/cpu.cfs_period_us"))?))
        });
        // Neither `max` of version 2 nor −1 of version 1 is such a number.
        let limits = version_2.chain(version_1).filter(|(_, period): &(u64, u64)| *period > 0);
        limits.map(|(allowed, period)| allowed as f64 / period as f64).reduce(f64::min)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A system of these files, which is there as long as the folder is.
    pub(crate) fn system(files: &[(&str, &str)]) -> (tempfile::TempDir, Files) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (path, text) in files {
            write(folder.path(), path, text);
        }
        let files = Files::at(folder.path());
        (folder, files)
    }

    pub(crate) fn write(root: &std::path::Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("making a folder");
        fs::write(path, text).expect("writing a file");
    }

    #[test]
    fn control_groups_are_found_from_the_inside_out() {
        let (_folder, files) = system(&[("proc/self/cgroup", "5:cpu:/x\n0::/a/b\n")]);
        assert_eq!(
            files.control_groups(),
            ["sys/fs/cgroup/a/b", "sys/fs/cgroup/a", "sys/fs/cgroup/"]
        );
        let (_folder, nothing) = system(&[]);
        assert_eq!(nothing.control_groups(), ["sys/fs/cgroup/"]);
    }

    #[test]
    fn the_tightest_quota_of_processors_holds() {
        let (_folder, version_2) = system(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/cpu.max", "200000 100000\n"),
        ]);
        assert_eq!(version_2.processor_quota(), Some(1.5));
        let (_folder, version_1) = system(&[
            ("proc/self/cgroup", "4:cpu,cpuacct:/a\n3:cpuset:/b\n0::/\n"),
            ("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(version_1.processor_quota(), Some(0.5));
        let (_folder, nothing) = system(&[("sys/fs/cgroup/cpu.max", "max 100000\n")]);
        assert_eq!(nothing.processor_quota(), None);
    }
}
