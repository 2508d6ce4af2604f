//! Files that engines and runtimes leave: names, first processes, groups of containers.
//!
//! Yields [`Note`]s. All files are untrusted: a missing or unexpected one is skipped, and users who have too
//! many are reported.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::Read as _,
    os::{fd::AsRawFd as _, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

use super::places::{Place, expand};
use crate::{
    guarded, patient,
    tasks::Stat,
    untrusted::{self, Shown as _},
};

/// The largest file of use is docker's configuration of a container, 10 kB; podman's list grows with its
/// containers.
const FILE_BYTES: u64 = 8 << 20;
/// The same for a file that is not root's: the state of one container, or a user's list of some hundred.
/// Parsed, it takes up to a hundred times the memory.
const OTHERS_FILE_BYTES: u64 = 256 << 10;
/// Limits on one user's files: read, in half a second, and kept. They hold for each user apart; root has
/// none.
const OTHERS: Share = Share { files: 500, file_bytes: 32 << 20, notes: 1_000, note_bytes: 1 << 20 };
/// Notes kept of all users but root together.
const OTHERS_NOTES: usize = 5_000;

/// How much of the limits one user has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    files: usize,
    file_bytes: u64,
    notes: usize,
    note_bytes: usize,
}

/// Notes of all files.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    pub(super) all: Vec<Note>,
    /// Users whose files were not all read.
    pub(super) cut: BTreeSet<u32>,
    of_others: BTreeMap<u32, Share>,
}

impl Notes {
    /// Counts a file of a user that is to be read; false if it is over the limits.
    fn takes_file(&mut self, owner: u32, bytes: u64) -> bool {
        if owner == 0 {
            return bytes <= FILE_BYTES;
        }
        let share = self.of_others.entry(owner).or_default();
        share.files += 1;
        share.file_bytes = share.file_bytes.saturating_add(bytes);
        let is_much = share.files > OTHERS.files || share.file_bytes > OTHERS.file_bytes;
        if is_much || bytes > OTHERS_FILE_BYTES {
            self.cut.insert(owner);
            return false;
        }
        true
    }

    fn add(&mut self, note: Note) {
        let owner = note.owner;
        if owner != 0 {
            let all: usize = self.of_others.values().map(|share| share.notes).sum();
            let share = self.of_others.entry(owner).or_default();
            let bytes = share.note_bytes + note.bytes();
            if share.notes == OTHERS.notes || bytes > OTHERS.note_bytes || all == OTHERS_NOTES {
                self.cut.insert(owner);
                return;
            }
            share.notes += 1;
            share.note_bytes = bytes;
        }
        self.all.push(note);
    }
}

/// A container as one file describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Note {
    /// Owner of the file: a file of a user other than root counts only for that user's own containers.
    pub(super) owner: u32,
    pub(super) id: String,
    pub(super) name: Vec<String>,
    /// Path of its group, in a hierarchy that the file does not name.
    pub(super) group: Option<String>,
    pub(super) directories: Vec<PathBuf>,
    /// Process number of its first process, if it still lives.
    pub(super) process: Option<u32>,
}

impl Note {
    /// Bytes of its texts, and of the structures that hold them.
    fn bytes(&self) -> usize {
        let names = self.name.iter().map(|name| name.len() + size_of::<String>());
        let directories = self.directories.iter().map(|path| path.as_os_str().len() + size_of::<PathBuf>());
        self.id.len() + self.group.as_ref().map_or(0, String::len) + names.chain(directories).sum::<usize>()
    }
}

/// A kind of file: where it may lie, and what is read from it.
type Kind = (&'static [&'static str], fn(&Path, &Path, &Value) -> Vec<Note>);

const KINDS: [Kind; 5] = [
    (&["var/lib/docker/containers/*/config.v2.json"], docker),
    (
        &[
            "var/lib/containers/storage/*/containers.json",
            "var/lib/containers/storage/*/volatile-containers.json",
            "root/.local/share/containers/storage/*/containers.json",
            "home/*/.local/share/containers/storage/*/containers.json",
        ],
        podman,
    ),
    (
        &[
            "run/runc/*/state.json",
            "run/docker/runtime-runc/*/*/state.json",
            "run/containerd/runc/*/*/state.json",
            "run/user/*/runc/*/state.json",
        ],
        runc,
    ),
    (&["run/crun/*/status", "run/user/*/crun/*/status"], crun),
    (
        &[
            "run/containerd/io.containerd.runtime.v2.task/*/*/config.json",
            "run/containers/storage/*/*/userdata/config.json",
        ],
        bundle,
    ),
];

/// The notes of all files found.
pub(super) fn notes(root: &Path) -> Notes {
    let mut notes = Notes::default();
    for (places, read) in KINDS {
        for place in places {
            for place in expand(root, place, &mut notes.cut) {
                let Some((owner, value)) = json(&place, &mut notes) else { continue };
                for note in read(root, &place.path, &value) {
                    if is_number_or_name(&note.id) && note.name.iter().all(|name| is_plain(name)) {
                        notes.add(Note { owner, ..note });
                    }
                }
            }
        }
    }
    for note in &mut notes.all {
        let owner = note.owner;
        note.process = note.process.filter(|&pid| owner == 0 || is_of(root, pid, owner));
    }
    notes
}

/// Whether a text is on one line and gives a terminal no orders: engines allow letters, digits and a few
/// signs.
fn is_plain(text: &str) -> bool {
    !text.chars().any(|c| c.is_whitespace() || untrusted::is_unsafe(c))
}

fn is_number_or_name(id: &str) -> bool {
    !id.is_empty() && is_plain(id)
}

/// The value in a file, and the user who controls it: the owner of the file, or of its folder, since names of
/// folders are reported as well.
fn json(place: &Place, notes: &mut Notes) -> Option<(u32, Value)> {
    let file = guarded::open_no_link(&place.path).ok()?;
    let metadata = file.metadata().ok()?;
    let owner = if place.owner == 0 { metadata.uid() } else { place.owner };
    if !notes.takes_file(owner, metadata.len()) {
        return None;
    }
    let mut text = String::new();
    file.take(metadata.len()).read_to_string(&mut text).ok()?;
    Some((owner, serde_json::from_str(&text).ok()?))
}

/// Whether a process is this user's: its user is this one, or it lives in a user namespace that the user
/// made, as rootless containers do, whose processes run as other users.
pub(super) fn is_of(root: &Path, pid: u32, uid: u32) -> bool {
    let process = root.join(format!("proc/{pid}"));
    let runs_as = fs::metadata(&process).is_ok_and(|metadata| metadata.uid() == uid);
    runs_as || File::open(process.join("ns/user")).ok().and_then(|file| namespace_owner(&file)) == Some(uid)
}

/// The user who made a user namespace (ioctl_ns(2)).
fn namespace_owner(namespace: &File) -> Option<u32> {
    const NS_GET_OWNER_UID: libc::Ioctl = 0xb704;
    let mut uid: libc::uid_t = 0;
    // SAFETY: the kernel writes one number to where the pointer leads, which lives across the call.
    let told = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_OWNER_UID, &raw mut uid) };
    (told == 0).then_some(uid)
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// The name of the folder that a file lies in.
fn folder(path: &Path) -> String {
    let name = path.parent().and_then(Path::file_name).unwrap_or_default();
    name.shown().stored().to_owned()
}

fn docker(_: &Path, _: &Path, value: &Value) -> Vec<Note> {
    let name = text(value, "Name").trim_start_matches('/').to_owned();
    vec![Note { id: text(value, "ID"), name: vec![name], ..Note::default() }]
}

fn podman(_: &Path, _: &Path, value: &Value) -> Vec<Note> {
    let containers = value.as_array().into_iter().flatten();
    let names = |container: &Value| -> Vec<String> {
        let names = container["names"].as_array().into_iter().flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    containers
        .map(|container| Note { id: text(container, "id"), name: names(container), ..Note::default() })
        .collect()
}

/// Time limit: a process answers at once, or may block the reader.
const ANSWER: Duration = Duration::from_millis(200);

/// The process, if it still lives: a runtime's state outlives a killed container, and its process's number
/// may be reused by then.
fn living(root: &Path, pid: &Value, started: &Value) -> Option<u32> {
    let pid = u32::try_from(pid.as_u64()?).ok().filter(|&pid| pid > 0)?;
    let path = root.join(format!("proc/{pid}/stat"));
    // A user's file may name a process of that user that blocks the reader.
    let read = move || Stat::read_at(&path).ok();
    let ticks = patient::answer(ANSWER, read).ok()??.born;
    started.as_u64().is_none_or(|started| started == ticks).then_some(pid)
}

fn runc(root: &Path, path: &Path, value: &Value) -> Vec<Note> {
    let id = Some(text(value, "id")).filter(|id| !id.is_empty()).unwrap_or_else(|| folder(path));
    let process = living(root, &value["init_process_pid"], &value["init_process_start"]);
    let groups = value["cgroup_paths"].as_object().into_iter().flatten();
    let directories = groups.filter_map(|(_, path)| path.as_str()).map(PathBuf::from).collect();
    vec![Note { id, directories, process, ..Note::default() }]
}

fn crun(root: &Path, path: &Path, value: &Value) -> Vec<Note> {
    let process = living(root, &value["pid"], &value["process-start-time"]);
    let group = Some(text(value, "cgroup-path")).filter(|group| group.len() > 1);
    vec![Note { id: folder(path), group, process, ..Note::default() }]
}

/// Kubernetes' and nerdctl's names stand in the annotations.
fn bundle(_: &Path, path: &Path, value: &Value) -> Vec<Note> {
    let annotation = |key: &str| value["annotations"][key].as_str().filter(|name| !name.is_empty());
    let either = |keys: [&str; 2]| keys.into_iter().find_map(annotation);
    let container = either(["io.kubernetes.cri.container-name", "io.kubernetes.container.name"]);
    let pod = either(["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]);
    let mut name: Vec<String> =
        [container, annotation("nerdctl/name")].into_iter().flatten().map(str::to_owned).collect();
    if let (Some(container), Some(pod)) = (container, pod) {
        name.push(format!("{pod}/{container}"));
    }
    // CRI-O's is in a separate folder below the container's.
    let within = path.parent().filter(|folder| folder.ends_with("userdata"));
    let id = folder(within.unwrap_or(path));
    vec![Note { id, name, ..Note::default() }]
}
