//! Containers and hypervisors around this process.

use host_record::Container;

use super::files::{Files, field};

/// Returns the container. Engines leave a file or set a variable of the first process; without these, and if the
/// first process is the machine's own, there is no container.
pub(super) fn container(files: &Files) -> Option<Container> {
    let found = |kind: &str, file: &str| {
        Some(Container { kind: kind.to_owned(), told_by: format!("/{file}") })
    };
    if files.exists(".dockerenv") {
        return found("docker", ".dockerenv");
    }
    const PODMAN: &str = "run/.containerenv";
    if files.exists(PODMAN) {
        return found("podman", PODMAN);
    }
    // systemd writes the name here, in containers that it manages and in those that it runs in.
    const SYSTEMD: &str = "run/systemd/container";
    if let Some(kind) = files.text(SYSTEMD) {
        return found(&kind, SYSTEMD);
    }
    // Readable by root only, if it is the first process of the machine.
    const FIRST: &str = "proc/1/environ";
    if let Some(environment) = files.text(FIRST) {
        let name = environment.split('\0').find_map(|entry| entry.strip_prefix("container="));
        if let Some(kind) = name.filter(|kind| !kind.is_empty()) {
            return found(kind, FIRST);
        }
    }
    const GROUPS: &str = "proc/1/cgroup";
    let groups = files.text(GROUPS)?;
    let known =
        [("docker", "docker"), ("libpod", "podman"), ("kubepods", "kubernetes"), ("lxc", "lxc")];
    if let Some((_, kind)) = known.iter().find(|(word, _)| groups.contains(word)) {
        return found(kind, GROUPS);
    }
    // In a separate control-group namespace the first process seems to be at the root. Then the mounts decide: a
    // container's root is an overlay.
    const MOUNTS: &str = "proc/1/mounts";
    let mounts = files.text(MOUNTS)?;
    let root = mounts.lines().rev().find(|line| line.split(' ').nth(1) == Some("/"))?;
    match root.split(' ').nth(2)? {
        "overlay" => None,
        _ => found("none", MOUNTS),
    }
}

pub(super) fn virtualisation(files: &Files) -> Option<Option<String>> {
    /// Words in the firmware's texts, with the hypervisor that uses them.
    const FIRMWARE: &[(&str, &str)] = &[
        ("amazon ec2", "Amazon EC2"),
        ("google compute engine", "Google Compute Engine"),
        ("microsoft corporation virtual machine", "Microsoft Hyper-V"),
        ("vmware", "VMware"),
        ("virtualbox", "VirtualBox"),
        ("parallels", "Parallels"),
        ("kvm", "KVM"),
        ("qemu", "QEMU"),
        ("xen", "Xen"),
    ];
    let firmware = ["sys_vendor", "product_name"]
        .map(|file| files.text(&format!("sys/class/dmi/id/{file}")).unwrap_or_default());
    let firmware = firmware.join(" ").to_lowercase();
    if let Some((_, name)) = FIRMWARE.iter().find(|(text, _)| firmware.contains(text)) {
        return Some(Some((*name).into()));
    }
    if let Some(kind) = files.text("sys/hypervisor/type") {
        return Some(Some(kind));
    }
    // Processors other than x86 have no such flag.
    let information = files.text("proc/cpuinfo")?;
    let flags = field(&information, "flags")?;
    let is_guest = flags.split_whitespace().any(|flag| flag == "hypervisor");
    Some(is_guest.then(|| "a hypervisor that does not give its name".into()))
}

#[cfg(test)]
mod tests {
    use crate::fake;

    #[test]
    fn containers_are_known_by_what_they_leave() {
        let kind = |files: &[(&str, &str)]| {
            let container = fake::Files::new(files).machine().container();
            container.map(|container| format!("{} by {}", container.kind, container.told_by))
        };
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(kind(&[(".dockerenv", "")]), is("docker by /.dockerenv"));
        assert_eq!(kind(&[("run/.containerenv", "")]), is("podman by /run/.containerenv"));
        assert_eq!(
            kind(&[("run/systemd/container", "systemd-nspawn\n")]),
            is("systemd-nspawn by /run/systemd/container")
        );
        assert_eq!(
            kind(&[("proc/1/environ", "PATH=/bin\0container=lxc\0")]),
            is("lxc by /proc/1/environ")
        );
        assert_eq!(
            kind(&[("proc/1/cgroup", "0::/kubepods.slice/pod1\n")]),
            is("kubernetes by /proc/1/cgroup")
        );
        let mounts = |kind: &str| format!("proc /proc proc rw 0 0\n/dev/x / {kind} rw 0 0\n");
        let machine = ("proc/1/cgroup", "0::/init.scope\n");
        assert_eq!(
            kind(&[machine, ("proc/1/mounts", &mounts("ext4"))]),
            is("none by /proc/1/mounts")
        );
        assert_eq!(kind(&[machine, ("proc/1/mounts", &mounts("overlay"))]), None);
        assert_eq!(kind(&[machine]), None);
    }

    #[test]
    fn hypervisors_are_known_by_firmware_or_by_a_flag() {
        let found = |files: &[(&str, &str)]| fake::Files::new(files).machine().virtualisation();
        let is = |name: &str| Some(Some(name.to_owned()));
        let flags = ("proc/cpuinfo", "processor: 0\nflags\t\t: fpu hypervisor sse\n");
        let vendor = ("sys/class/dmi/id/sys_vendor", "QEMU\n");
        let product = ("sys/class/dmi/id/product_name", "Standard PC (Q35 + ICH9, 2009)\n");
        assert_eq!(found(&[vendor, product, flags]), is("QEMU"));
        assert_eq!(found(&[vendor]), is("QEMU"), "Arm has no flag");
        assert_eq!(found(&[("sys/hypervisor/type", "xen\n"), flags]), is("xen"));
        assert_eq!(found(&[flags]), is("a hypervisor that does not give its name"));
        assert_eq!(found(&[("proc/cpuinfo", "flags\t\t: fpu sse\n")]), Some(None));
        assert_eq!(found(&[("proc/cpuinfo", "CPU part\t: 0xd0c\n")]), None);
    }
}
