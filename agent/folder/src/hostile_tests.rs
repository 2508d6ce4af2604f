//! What a program may do to its own run's folder, which belongs to its user: nothing is lost silently, no
//! file of others is read or written, and nothing waits.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{MetadataExt as _, symlink},
    path::{Path, PathBuf},
};

use nix::{sys::stat::Mode, unistd::mkfifo};
use rstest::rstest;

use super::{
    tests::{close, folder, manifest, read},
    *,
};
use crate::{
    guarded::Owner,
    phase::{Accounts, Counts, Ending, Helpers, Phase, PhaseKind, Request, ThreadId, TraceIds},
};

const REQUESTS: u64 = 20;

fn request(id: u64) -> Request {
    let mut accounts = Accounts::default();
    accounts.0[0] = 1_000 + id;
    let phase = Phase {
        id,
        parent: None,
        root: id,
        kind: PhaseKind::Request,
        name: "infer".into(),
        name_damaged: false,
        source: guestscope_contract::Source::Marker,
        status: None,
        request: id,
        thread: ThreadId { tid: 11, tgid: 10, born_ns: 1 },
        comm: "".into(),
        start_ns: id * 1_000_000,
        duration_ns: 1_000 + id,
        suspended_ns: 0,
        accounts,
        counts: Counts::default(),
        helpers: Helpers::default(),
        trace: TraceIds::default(),
        ending: Ending::Ended,
        edges_lost: 0,
        pause_ns: 0,
        holder: None,
    };
    Request { phases: vec![phase] }
}

/// Another run's folder, which only its owner may read.
fn victim(parent: &Path) -> PathBuf {
    let mut folder = folder(&parent.join("private"));
    (1_000..1_003).for_each(|id| folder.append_request(&request(id)));
    close(folder).path
}

fn swap(path: &Path, plant: impl FnOnce(&Path)) {
    fs::remove_file(path).unwrap_or_default();
    plant(path);
}

fn attack(mode: &str, here: &Path, victim: &Path) {
    let at = |name: &str| here.join(name);
    let fifo = |path: &Path| mkfifo(path, Mode::S_IRWXU).unwrap();
    let filled = |path: &Path| {
        fs::create_dir(path).unwrap();
        fs::write(path.join("x"), "theirs").unwrap();
    };
    match mode {
        "fifo" => swap(&at("phases.arrows"), fifo),
        "fifowaits" => swap(&at("waits.arrows"), fifo),
        "fifoparquet" => fifo(&at("phases.parquet")),
        "fifomanifest" => swap(&at("manifest.json"), fifo),
        "zero" => swap(&at("phases.arrows"), |path| symlink("/dev/zero", path).unwrap()),
        "link" => symlink(victim.join("phases.parquet"), at("phases.parquet")).unwrap(),
        "linkstream" => {
            swap(&at("phases.arrows"), |path| symlink(victim.join("phases.parquet"), path).unwrap());
        }
        "dirlink" => {
            fs::rename(here, here.with_extension("moved")).unwrap();
            symlink(victim, here).unwrap();
        }
        "tmpdir" => {
            for name in ["phases.parquet.tmp", "manifest.json.tmp", "histograms.tmp"] {
                filled(&at(name));
            }
        }
        "directories" => {
            for name in ["phases.parquet", "manifest.json", "histograms"] {
                swap(&at(name), filled);
            }
        }
        "directorystream" => swap(&at("phases.arrows"), filled),
        "histo" => symlink(victim, at("histograms")).unwrap(),
        "sparse" => swap(&at("phases.arrows"), |path| File::create(path).unwrap().set_len(8 << 40).unwrap()),
        "grown" => {
            OpenOptions::new().write(true).open(at("phases.arrows")).unwrap().set_len(8 << 40).unwrap();
        }
        "removed" => fs::remove_file(at("phases.arrows")).unwrap(),
        "shut" => fs::set_permissions(here, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap(),
        mode => panic!("{mode}"),
    }
}

/// All files below with their sizes and times.
fn state(path: &Path) -> Vec<(PathBuf, u64, i64, i64)> {
    let mut all: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    let mut state = Vec::new();
    for path in all {
        let found = fs::symlink_metadata(&path).unwrap();
        state.push((path.clone(), found.len(), found.mtime_nsec(), found.ctime_nsec()));
        if found.is_dir() {
            state.extend(self::state(&path));
        }
    }
    state
}

#[rstest]
fn a_program_can_do_nothing_with_the_folder_of_its_run(
    #[values(
        "fifo",
        "fifowaits",
        "fifoparquet",
        "fifomanifest",
        "zero",
        "link",
        "linkstream",
        "dirlink",
        "tmpdir",
        "directories",
        "directorystream",
        "histo",
        "sparse",
        "grown",
        "removed",
        "shut"
    )]
    mode: &str,
    #[values(false, true)] goes_on: bool,
) {
    let parent = tempfile::tempdir().unwrap();
    let victim = victim(parent.path());
    let before = state(&victim);
    let mut folder = folder(parent.path());
    (1..=REQUESTS).for_each(|id| folder.append_request(&request(id)));
    folder.flush();
    attack(mode, folder.path(), &victim);
    let mut expected: Vec<Request> = (1..=REQUESTS).map(request).collect();
    if goes_on {
        folder.append_request(&request(REQUESTS + 1));
        expected.push(request(REQUESTS + 1));
        folder.flush();
        folder.update_manifest(|manifest| "changed".clone_into(&mut manifest.fidelity));
    }
    let seen: Vec<Request> = folder.requests().unwrap().map(Result::unwrap).collect();
    assert_eq!(seen, expected);
    assert_eq!(folder.waits().unwrap().count(), 0);
    let here = folder.current_path();
    let closed = close(folder);
    assert_eq!(
        closed.errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        match mode {
            "removed" | "fifo" | "zero" | "sparse" | "linkstream" | "directorystream" if !goes_on =>
                vec!["cannot write to the run folder: phases.arrows: removed during the run"],
            "fifowaits" if !goes_on =>
                vec!["cannot write to the run folder: waits.arrows: removed during the run"],
            _ => vec![],
        }
    );
    assert_eq!(read(&here), expected, "the rows are all there");
    let manifest = Folder::open(&here).unwrap().manifest().clone();
    assert_eq!((manifest.rows.phases, manifest.rows_lost.phases), (expected.len() as u64, 0));
    assert_eq!(manifest.state, State::Closed);
    let histogram = Folder::open(&here).unwrap().histogram(PhaseKind::Request, "infer").unwrap();
    assert_eq!(histogram.map(|histogram| histogram.len()), Some(expected.len() as u64));
    assert_eq!(state(&victim), before, "nothing of others is touched");
}

/// A program may destroy its own file. That is reported, and no other file is taken for it.
#[rstest]
#[case::cut(0)]
#[case::cut_in_the_middle(3_000)]
fn what_a_program_cuts_off_is_said(#[case] bytes: u64) {
    let parent = tempfile::tempdir().unwrap();
    let mut folder = folder(parent.path());
    (1..=REQUESTS).for_each(|id| {
        folder.append_request(&request(id));
        folder.flush();
    });
    let stream = folder.path().join("phases.arrows");
    OpenOptions::new().write(true).open(&stream).unwrap().set_len(bytes).unwrap();
    assert!(folder.requests().unwrap().count() < REQUESTS as usize);
    let closed = close(folder);
    let errors: Vec<String> = closed.errors.iter().map(ToString::to_string).collect();
    assert!(
        matches!(&errors[..], [error] if error.starts_with("damaged file in the run folder: ")),
        "{errors:?}"
    );
    assert!(stream.exists(), "the evidence stays");
}

#[expect(clippy::print_stdout, reason = "a test says what it skips")]
fn is_root(test: &str) -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        println!("skipped: {test}: only root may take another user's rights");
    }
    is_root
}

/// The folder belongs to the user with whose rights it was made.
#[rstest]
#[case::in_his_own_place(true)]
#[case::where_he_may_not(false)]
fn parents_keep_their_owner(#[case] is_his: bool) {
    if !is_root("parents_keep_their_owner") {
        return;
    }
    let owner = Owner { uid: 12_345, gid: 23_456, groups: Vec::new() };
    let parent = tempfile::tempdir().unwrap();
    fs::set_permissions(parent.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    if is_his {
        std::os::unix::fs::chown(parent.path(), Some(owner.uid), Some(owner.gid)).unwrap();
    }
    let before = fs::metadata(parent.path()).map(|found| found.uid()).unwrap();
    let options = CreateOptions { parent: parent.path().join("a/b"), owner: Some(owner.clone()) };
    if !is_his {
        // Names that he chose are not made with rights that he has not.
        let error = RunFolder::create(&options, manifest()).map(drop).unwrap_err().to_string();
        assert!(error.contains("Permission denied") && !parent.path().join("a").exists(), "{error}");
        fs::create_dir_all(&options.parent).unwrap();
    }
    let folder = RunFolder::create(&options, manifest()).unwrap();
    assert_eq!(folder.owner(), is_his.then_some(&owner));
    let expected = if is_his { owner.uid } else { 0 };
    for path in
        [&parent.path().join("a"), &options.parent, folder.path(), &folder.path().join("phases.arrows")]
    {
        assert_eq!(fs::metadata(path).unwrap().uid(), expected, "{}", path.display());
    }
    assert_eq!(fs::metadata(parent.path()).unwrap().uid(), before);
    let path = folder.path().to_owned();
    folder.discard();
    assert!(!path.exists());
}

fn deep(levels: usize) -> serde_json::Value {
    let leaf = serde_json::Value::from(vec![0_u8; 260_000]);
    (0..levels).fold(leaf, |inner, _| serde_json::json!([inner]))
}

#[rstest]
#[case::values(serde_json::Value::from(vec![0_u8; 262_033]))]
#[case::indented(deep(99))]
#[case::levels((0..126).fold(serde_json::json!(0), |inner, _| serde_json::json!([inner])))]
fn what_a_workload_says_leaves_its_folder_readable(#[case] said: serde_json::Value) {
    let parent = tempfile::tempdir().unwrap();
    let mut folder = folder(parent.path());
    folder.append_request(&request(1));
    let workload = serde_json::json!({ "said": said }).as_object().cloned();
    let finish = |manifest: &mut Manifest| manifest.workload = workload;
    let closed = folder.close(finish, &mut |_| (None, None), &mut |_, _| {}).unwrap();
    let read = Folder::open(&closed.path).unwrap();
    assert_eq!(read.manifest().workload, None);
    let told = read.manifest().health.folder_error.clone().unwrap();
    assert!(told.contains("what the workload says of itself is left out: "), "{told}");
    assert_eq!(closed.errors.len(), 1);
    assert_eq!(self::read(&closed.path).len(), 1);
}

/// A message may hold a million rows, each of which takes long: the limit of time is asked between them.
#[test]
fn time_is_over_within_a_message_as_well() {
    let parent = tempfile::tempdir().unwrap();
    let mut folder = folder(parent.path());
    (0..3_000).for_each(|id| folder.append_request(&request(id)));
    folder.flush();
    let path = folder.path().to_owned();
    drop(folder);
    let mut rows = Folder::open(path).unwrap().phases().unwrap();
    rows.next().unwrap().unwrap();
    rows.let_time_pass();
    let (read, errors): (Vec<_>, Vec<_>) = rows.partition(Result::is_ok);
    assert!(read.len() < 1_000, "{} rows", read.len());
    let told: Vec<String> = errors.into_iter().map(|error| error.unwrap_err().to_string()).collect();
    assert!(told.len() == 1 && told[0].contains("it is still being read after"), "{told:?}");
}
