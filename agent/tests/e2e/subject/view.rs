//! Role `view`: notes what a program finds at its start, to show what the agent changed.
//!
//! Notes lines `name=value`. It reads /proc and the environment and changes nothing.

use crate::note;

/// Lines of /proc/self/status that a parent process can change.
const STATUS: [&str; 11] = [
    "Umask",
    "Uid",
    "Gid",
    "Groups",
    "SigBlk",
    "SigIgn",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "NoNewPrivs",
];

/// `view`: descriptors, environment, limits, credentials and signals.
pub(crate) fn view(_: &[String]) {
    let mut lines = Vec::new();
    let descriptors =
        std::fs::read_dir("/proc/self/fd").expect("/proc is there").flatten().filter_map(|entry| {
            let to = std::fs::read_link(entry.path()).ok()?;
            // The descriptor that reads this folder.
            let own = to.to_string_lossy().ends_with("/fd");
            (!own).then(|| entry.file_name().to_string_lossy().into_owned())
        });
    let mut descriptors: Vec<String> = descriptors.collect();
    descriptors.sort();
    lines.push(format!("descriptors={}", descriptors.join(" ")));
    lines.extend(std::env::vars_os().map(|(name, value)| {
        format!("env.{}={}", name.to_string_lossy(), value.to_string_lossy().replace('\n', " "))
    }));
    let read = |path: &str| std::fs::read_to_string(path).expect("/proc is there");
    for line in read("/proc/self/status").lines() {
        let (name, value) = line.split_once(':').unwrap_or_default();
        if STATUS.contains(&name) {
            lines.push(format!("status.{name}={}", value.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    }
    lines.extend(read("/proc/self/limits").lines().map(|line| format!("limit={line}")));
    let folder = std::env::current_dir().expect("there is one");
    lines.push(format!("folder={}", folder.display()));
    lines.sort();
    note(&lines.join("\n"));
}
