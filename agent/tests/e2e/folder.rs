//! Reads a run folder back with the agent's own reader, and checks what must hold for every run.
//!
//! Yields [`Seen`]. Reading checks the invariants: accounts add up, children lie in their parents, a
//! request's rows stand together. It does not know what the program did.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use guestscope::{
    folder::{Folder, Manifest},
    phase::{Ending, Mark, Phase, PhaseKind, Request, Thread, Wait},
};

use crate::running::Done;

/// Everything in a run folder.
pub(crate) struct Seen {
    pub(crate) path: PathBuf,
    pub(crate) manifest: Manifest,
    /// Marked requests, in the order of their ends.
    pub(crate) requests: Vec<Request>,
    pub(crate) processes: Vec<Phase>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) marks: Vec<Mark>,
}

/// The only run folder in `runs`.
pub(crate) fn only_folder(runs: &Path) -> PathBuf {
    let entries = std::fs::read_dir(runs).unwrap_or_else(|error| panic!("{}: {error}", runs.display()));
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders.remove(0)
}

impl Done {
    /// The run folder, read back.
    pub(crate) fn seen(&self) -> Seen {
        Seen::read(&only_folder(&self.folder.join("runs")))
    }
}

impl Seen {
    pub(crate) fn read(path: &Path) -> Self {
        let folder = Folder::open(path).expect("it is a run folder");
        let all: Vec<Request> = folder
            .requests()
            .expect("phases can be read")
            .map(|request| request.expect("and are whole"))
            .collect();
        all.iter().for_each(check);
        let (processes, requests): (Vec<Request>, Vec<Request>) =
            all.into_iter().partition(|request| request.root().kind == PhaseKind::Process);
        Self {
            path: path.to_owned(),
            manifest: folder.manifest().clone(),
            requests,
            processes: processes.into_iter().flat_map(|request| request.phases).collect(),
            threads: folder
                .threads()
                .expect("threads can be read")
                .map(|row| row.expect("and are whole"))
                .collect(),
            marks: folder
                .marks()
                .expect("marks can be read")
                .map(|row| row.expect("and are whole"))
                .collect(),
        }
    }

    /// The long waits.
    pub(crate) fn waits(&self) -> Vec<Wait> {
        let folder = Folder::open(&self.path).expect("it is a run folder");
        let rows = folder.waits().expect("waits can be read");
        rows.map(|row| row.expect("and are whole")).collect()
    }

    /// The cause that the folder names for each slow phase, by row number.
    pub(crate) fn causes(&self) -> HashMap<u64, String> {
        let folder = Folder::open(&self.path).expect("it is a run folder");
        let rows = folder.phases().expect("phases can be read").map(|row| row.expect("and are whole"));
        rows.filter_map(|row| Some((row.phase.id, row.cause?.to_string()))).collect()
    }

    /// The requests of this name.
    pub(crate) fn named(&self, name: &str) -> Vec<&Request> {
        self.requests.iter().filter(|request| request.root().name.stored() == name).collect()
    }

    /// The only request of this name.
    pub(crate) fn only(&self, name: &str) -> &Request {
        let all = self.named(name);
        assert_eq!(all.len(), 1, "requests named {name}");
        all[0]
    }

    /// Names and endings of all phases, request by request: `request:ended work:ended`.
    pub(crate) fn endings(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.requests.iter().map(endings).collect();
        lines.sort();
        lines
    }
}

/// `request:ended work:ended rest:ended`.
pub(crate) fn endings(request: &Request) -> String {
    let words: Vec<String> =
        request.phases.iter().map(|phase| format!("{}:{}", phase.name, phase.ending.name())).collect();
    words.join(" ")
}

/// The phase of this name in a request.
pub(crate) fn phase<'a>(request: &'a Request, name: &str) -> &'a Phase {
    request
        .phases
        .iter()
        .find(|phase| phase.name.stored() == name)
        .unwrap_or_else(|| panic!("no phase {name}: {request:#?}"))
}

/// Invariants of a request, whatever happened to the program.
fn check(request: &Request) {
    let root = request.root();
    assert_eq!((root.id, root.parent), (root.root, None), "{root:?}");
    for phase in &request.phases {
        let end_ns = phase.start_ns + phase.duration_ns;
        if phase.kind == PhaseKind::Queue {
            assert_eq!(phase.accounts.total_ns(), 0, "{phase:?}");
            continue;
        }
        assert_eq!(phase.accounts.total_ns() + phase.suspended_ns, phase.duration_ns, "{phase:?}");
        assert_eq!((phase.root, phase.trace.trace_id), (root.id, root.trace.trace_id), "{phase:?}");
        let Some(parent) = phase.parent else { continue };
        let parent =
            request.phases.iter().find(|other| other.id == parent).expect("a parent is in the request");
        if !phase.trace.parent_is_remote {
            assert_eq!(phase.trace.parent_span_id, Some(parent.trace.span_id), "{phase:?}");
        }
        let parent_end_ns = parent.start_ns + parent.duration_ns;
        let inside = parent.start_ns <= phase.start_ns && end_ns <= parent_end_ns;
        assert!(inside || phase.ending == Ending::Lost, "{phase:?} lies in {parent:?}");
    }
}
