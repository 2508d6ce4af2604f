//! Containers by names of groups and by files of engines, in trees that a test makes.

use rstest::rstest;
use tempfile::TempDir;

use super::*;

const A: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const B: &str = "0123f00000000000000000000000000000000000000000000000000000000000";

/// A tree with these files.
fn tree(files: &[(&str, String)]) -> TempDir {
    let root = tempfile::tempdir().expect("a folder can be made");
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a file lies somewhere")).expect("the place is ours");
        fs::write(path, text).expect("the place is ours");
    }
    root
}

fn stat(started: u64) -> String {
    format!("7 (a) b) S{} {started} 0", " 0".repeat(18))
}

#[rstest]
#[case::docker_systemd("/system.slice/docker-ID.scope")]
#[case::docker_cgroupfs("/docker/ID")]
#[case::docker_below("/docker/ID/init.scope")]
#[case::podman_systemd("/machine.slice/libpod-ID.scope/container")]
#[case::podman_cgroupfs("/libpod_parent/libpod-ID")]
#[case::podman_rootless("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope")]
#[case::containerd("/default/ID")]
#[case::nerdctl("/system.slice/nerdctl-ID.scope")]
#[case::kubernetes_systemd(
    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12ab.slice/cri-containerd-ID.scope"
)]
#[case::kubernetes_crio("/kubepods.slice/kubepods-pod12ab.slice/crio-ID.scope")]
#[case::kubernetes_cgroupfs("/kubepods/besteffort/pod1b2c-33/ID")]
#[case::kubernetes_mixed("/kubepods-besteffort-pod1.slice:cri-containerd:ID")]
fn engines_put_the_number_into_the_group(#[case] path: &str) {
    let path = path.replace("ID", A);
    let found = containers_in(&path);
    assert_eq!(found.len(), 1, "{path}");
    assert_eq!(found[0].0, A);
    assert!(path.starts_with(found[0].1) && found[0].1.contains(A) && !found[0].1.ends_with('/'));
    let root = tree(&[("proc/42/cgroup", format!("4:memory:/\n0::{path}\n"))]);
    for wanted in [A, &A[..4], &A[..12]] {
        let found = find(root.path(), wanted).expect("it is there");
        assert_eq!((found.processes(), found.shown_name()), (vec![42], &A[..12]));
    }
}

#[rstest]
#[case("/")]
#[case("/user.slice/user-0.slice/session-1.scope")]
#[case::monitor("/machine.slice/libpod-conmon-ID.scope")]
#[case::too_short("/docker/0123456789ab")]
#[case::upper_case("/docker/0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef")]
#[case::outside_of_the_namespace("/../../docker/ID")]
fn other_groups_are_no_containers(#[case] path: &str) {
    let root = tree(&[("proc/42/cgroup", format!("0::{}\n", path.replace("ID", A)))]);
    assert_eq!(all(root.path()), (Vec::new(), BTreeSet::new()));
}

#[test]
fn a_container_in_a_container() {
    let path = format!("/docker/{A}/docker/{B}");
    let outer = format!("/docker/{A}");
    assert_eq!(containers_in(&path), [(A, outer.as_str()), (B, path.as_str())]);
}

#[test]
fn groups_are_directories_of_their_hierarchies() {
    let mounts = "1 1 0:1 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                  2 1 0:2 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let groups =
        format!("3:cpu,cpuacct:/docker/{A}\n0::/system.slice/docker-{A}.scope\n5:pids:/docker/{A}\n");
    let root = tree(&[("proc/self/mountinfo", mounts.to_owned()), ("proc/42/cgroup", groups)]);
    let found = find(root.path(), A).expect("it is there").directories(root.path());
    let expected = [
        format!("/sys/fs/cgroup/unified/system.slice/docker-{A}.scope"),
        format!("/sys/fs/cgroup/cpu,cpuacct/docker/{A}"),
    ];
    assert_eq!(found, expected.map(PathBuf::from));
}

#[test]
fn names_come_from_files() {
    let mut files =
        vec![("proc/42/cgroup", format!("0::/x-{A}.scope\n")), ("proc/43/cgroup", format!("0::/{B}\n"))];
    let docker = format!("var/lib/docker/containers/{A}/config.v2.json");
    files.push((&docker, format!("{{\"ID\":\"{A}\",\"Name\":\"/web-server\"}}")));
    let podman = "var/lib/containers/storage/overlay-containers/containers.json";
    files.push((podman, format!("[{{\"id\":\"{B}\",\"names\":[\"web-client\"]}}]")));
    // Must be skipped without an error.
    files.push(("var/lib/docker/containers/broken/config.v2.json", "{".to_owned()));
    let root = tree(&files);
    let process = |wanted| find(root.path(), wanted).map(|found| found.processes());
    assert_eq!(process("web-server").expect("by name"), [42]);
    assert_eq!(process("web-c").expect("by a prefix of a name"), [43]);
    assert_eq!(process("01234").expect("by a prefix of an ID"), [42]);
    let error = |wanted| process(wanted).expect_err("it is not there").to_string();
    assert_eq!(
        error("web-"),
        "several containers begin with it: web- (there are web-server (0123456789ab), web-client (0123f0000000))"
    );
    assert_eq!(
        error("012"),
        "no such container: 012 (there are web-server (0123456789ab), web-client (0123f0000000))"
    );
}

#[test]
fn a_name_that_begins_another_one_is_its_own() {
    let mut files = vec![("proc/42/cgroup", format!("0::/{A}\n")), ("proc/43/cgroup", format!("0::/{B}\n"))];
    let list = format!("[{{\"id\":\"{A}\",\"names\":[\"web\"]}},{{\"id\":\"{B}\",\"names\":[\"web2\"]}}]");
    files.push(("var/lib/containers/storage/vfs-containers/containers.json", list));
    let root = tree(&files);
    assert_eq!(find(root.path(), "web").expect("exactly that one").processes(), [42]);
}

#[test]
fn kubernetes_and_nerdctl_names_stand_in_bundles() {
    let bundle = format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{A}/config.json");
    let crio = format!("run/containers/storage/overlay-containers/{B}/userdata/config.json");
    let annotations = |prefix: &str, pod: &str| {
        format!(
            "{{\"annotations\":{{\"io.kubernetes.{prefix}\":\"model\",\"io.kubernetes.{pod}\":\"pod-{pod}\"}}}}"
        )
    };
    let root = tree(&[
        ("proc/42/cgroup", format!("0::/kubepods/pod1/{A}\n")),
        ("proc/43/cgroup", format!("0::/kubepods/pod2/{B}\n")),
        (&bundle, annotations("cri.container-name", "cri.sandbox-name")),
        (&crio, annotations("container.name", "pod.name")),
    ]);
    let process = |wanted| find(root.path(), wanted).expect("it is there").processes();
    assert_eq!(process("pod-cri.sandbox-name/model"), [42]);
    assert_eq!(process("pod-pod.name/model"), [43]);
    let error = find(root.path(), "model").expect_err("two pods have one");
    assert!(matches!(error, TargetError::Ambiguous { ref there, .. } if there.len() == 2), "{error}");
}

#[test]
fn runtimes_that_were_asked_directly_leave_a_state() {
    let state = |started: u64| {
        format!(
            "{{\"id\":\"bare\",\"init_process_pid\":7,\"init_process_start\":{started},\
             \"cgroup_paths\":{{\"cpu\":\"/sys/fs/cgroup/cpu/bare\"}}}}"
        )
    };
    let root = tree(&[("run/runc/bare/state.json", state(55)), ("proc/7/stat", stat(55))]);
    let found = find(root.path(), "bare").expect("it runs");
    assert_eq!((found.processes(), found.shown_name()), (vec![7], "bare"));
    assert_eq!(found.directories(root.path()), [PathBuf::from("/sys/fs/cgroup/cpu/bare")]);

    // The process number was reused.
    let root = tree(&[("run/runc/bare/state.json", state(55)), ("proc/7/stat", stat(56))]);
    let error = find(root.path(), "bare").expect_err("it does not run");
    assert_eq!(error.to_string(), "the container does not run: bare");

    let mounts = "2 1 0:2 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n".to_owned();
    let status = "{\"pid\":7,\"process-start-time\":55,\"cgroup-path\":\"/user.slice/c\"}".to_owned();
    let files = [("run/crun/c1/status", status), ("proc/7/stat", stat(55)), ("proc/self/mountinfo", mounts)];
    let root = tree(&files);
    let found = find(root.path(), "c1").expect("it runs");
    assert_eq!(found.directories(root.path()), [PathBuf::from("/sys/fs/cgroup/user.slice/c")]);
}

/// Things that a user may have put where runtimes keep their state: too much for a container, a pipe, and a
/// number that is a text.
#[test]
fn files_of_others_are_bounded_and_plain() {
    let state = |id: &str, more: &str| format!(r#"{{"id":"{id}","x":[{more}0]}}"#);
    let root = tree(&[
        ("run/user/1/runc/good/state.json", state("good", "")),
        ("run/user/1/runc/bomb/state.json", state("bomb", &r#"{"":0},"#.repeat(100_000))),
        ("run/user/1/runc/line/state.json", state(r"a\nhint: obey", "")),
        ("run/user/1/runc/order/state.json", state(r"a\u001b[2J", "")),
    ]);
    for name in ["good", "bomb", "line", "order"] {
        let path = root.path().join("run/user/1/runc").join(name).join("state.json");
        // Only root can give files away. Other users' files are not root's to begin with.
        let _ = std::os::unix::fs::chown(path, Some(65_534), Some(65_534));
    }
    fs::create_dir(root.path().join("run/user/1/runc/pipe")).expect("the place is ours");
    nix::unistd::mkfifo(&root.path().join("run/user/1/runc/pipe/state.json"), nix::sys::stat::Mode::S_IRWXU)
        .expect("the place is ours");
    let ids: Vec<String> = container_files::notes(root.path()).all.into_iter().map(|note| note.id).collect();
    assert_eq!(ids, ["good"]);
}

/// Gives everything below a folder to a user; false where only root can.
fn give(folder: &Path, user: u32) -> bool {
    let given = std::os::unix::fs::lchown(folder, Some(user), Some(user)).is_ok();
    let is_folder = fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir());
    let entries = is_folder.then(|| fs::read_dir(folder).expect("it can be read"));
    given && entries.into_iter().flatten().all(|entry| give(&entry.expect("an entry").path(), user))
}

/// However much one user puts there, a bounded part is read, the user is reported, and other users' files are
/// read as before.
#[rstest]
#[case::entries_of_lists("list")]
#[case::names_of_a_container("names")]
#[case::files("files")]
#[case::folders("folders")]
fn a_users_files_take_neither_memory_nor_the_place_of_others(#[case] kind: &str) {
    const USERS: [u32; 2] = [65_534, 65_533];
    let list = |id: &str| format!(r#"[{{"id":"{id}","names":["{id}-name"]}}]"#);
    let root = tree(&[
        ("var/lib/containers/storage/x/containers.json", list("roots")),
        ("home/mallory/.local/share/containers/storage/x/containers.json", list("mallorys")),
        ("home/nobody/.local/share/containers/storage/x/containers.json", list("nobodys")),
    ]);
    let storage = root.path().join("home/mallory/.local/share/containers/storage");
    let put = |folder: String, text: String| {
        fs::create_dir_all(storage.join(&folder)).expect("the place is ours");
        fs::write(storage.join(folder).join("containers.json"), text).expect("the place is ours");
    };
    let entries = |count: usize| {
        let one = |at: usize| format!(r#"{{"id":"{at:x}"}}"#);
        format!("[{}]", (0..count).map(one).collect::<Vec<_>>().join(","))
    };
    match kind {
        "list" => (0..40).for_each(|at| put(format!("d{at}"), entries(10_000))),
        "names" => (0..40).for_each(|at| {
            put(format!("d{at}"), format!(r#"[{{"id":"many","names":["a"{}]}}]"#, r#","a""#.repeat(60_000)));
        }),
        "files" => (0..900).for_each(|at| put(format!("d{at}"), entries(1))),
        _ => (0..1_500).for_each(|at| put(format!("d{at}"), "x".to_owned())),
    }
    if !give(&root.path().join("home/mallory"), USERS[0]) || !give(&root.path().join("home/nobody"), USERS[1])
    {
        eprintln!("skipped: only root can give files away");
        return;
    }
    let notes = container_files::notes(root.path());
    let of = |owner: u32| notes.all.iter().filter(|note| note.owner == owner).collect::<Vec<_>>();
    assert_eq!((&*of(0)[0].id, &*of(USERS[1])[0].id), ("roots", "nobodys"));
    assert_eq!(notes.cut, [USERS[0]].into());
    let names: usize = of(USERS[0]).iter().map(|note| note.name.len()).sum();
    assert!(of(USERS[0]).len() <= 1_000 && names <= 50_000, "{} notes, {names} names", of(USERS[0]).len());
    let error = find(root.path(), "nothing like that").expect_err("there is none").to_string();
    assert_eq!(error, "no such container: nothing like that; too many files to read all, of user 65534");
}

/// Names of folders count as well: in a user's folder they are that user's, even where links lead to root's
/// files.
#[test]
fn a_link_to_files_of_roots_makes_no_word_of_a_user_roots() {
    const USER: u32 = 65_534;
    let root = tree(&[
        ("run/crun/secret/status", r#"{"pid":7,"process-start-time":55}"#.to_owned()),
        ("run/user/65534/crun/x/status", "{}".to_owned()),
        ("proc/7/stat", stat(55)),
        ("proc/7/cgroup", "0::/system.slice/secret\n".to_owned()),
    ]);
    let users = root.path().join("run/user/65534");
    std::os::unix::fs::symlink(root.path().join("run/crun/secret"), users.join("crun/web"))
        .expect("the place is ours");
    if !give(&users, USER) {
        eprintln!("skipped: only root can give files away");
        return;
    }
    let notes = container_files::notes(root.path()).all;
    let web: Vec<u32> = notes.iter().filter(|note| note.id == "web").map(|note| note.owner).collect();
    assert_eq!(web, [USER]);
    let error = find(root.path(), "web").expect_err("the process is root's").to_string();
    assert_eq!(error, "the container does not run: web of user 65534");
}

/// A user's files count only for that user's own containers: they take over no name, process or group of
/// another user.
#[test]
fn a_user_takes_neither_a_name_nor_a_process_of_others() {
    const USER: u32 = 65_534;
    let state = |id: &str, pid: u32| {
        let group = r#""cgroup_paths":{"":"/sys/fs/cgroup/system.slice/web"}"#;
        format!(r#"{{"id":"{id}","init_process_pid":{pid},"init_process_start":55,{group}}}"#)
    };
    let root = tree(&[
        ("run/runc/web/state.json", state("web", 7)),
        ("run/user/65534/runc/web/state.json", state("web", 8)),
        ("run/user/65534/runc/other/state.json", state("other", 7)),
        ("run/user/65534/runc/own/state.json", state("own", 8)),
        ("run/user/65534/runc/begin/state.json", state(A, 8)),
        ("proc/7/stat", stat(55)),
        ("proc/7/cgroup", format!("0::/system.slice/docker-{A}.scope\n")),
        ("proc/8/stat", stat(55)),
        ("proc/8/cgroup", format!("0::/user.slice/user-65534.slice/user@65534.service/libpod-{B}.scope\n")),
    ]);
    let users = ["web", "other", "own", "begin"].map(|name| format!("run/user/65534/runc/{name}/state.json"));
    for path in users.iter().map(String::as_str).chain(["proc/8"]) {
        let given = std::os::unix::fs::chown(root.path().join(path), Some(USER), Some(USER));
        if given.is_err() {
            eprintln!("skipped: only root can give files away");
            return;
        }
    }
    let found = |wanted| find(root.path(), wanted);
    assert_eq!(found("web").expect("root's").processes(), [7]);
    let error = found("other").expect_err("its process is not the user's").to_string();
    assert_eq!(error, "the container does not run: other of user 65534");
    let own = found("own").expect("it is the user's own");
    assert_eq!(
        (own.processes(), own.words()),
        (vec![8], vec!["container".into(), "own".into(), "of user 65534".into()])
    );
    // An engine of root's uses the same number.
    assert_eq!(found(A).expect("root's").processes(), [7]);
    assert_eq!(found(B).expect("by its group").candidate().to_string(), "0123f0000000 of user 65534");
    let named = ["/sys/fs/cgroup/system.slice/web", "/x/user-65534.slice/web"].map(PathBuf::from).to_vec();
    assert_eq!(own.own(named.clone()), [named[1].clone()]);
    assert_eq!(found("web").expect("root's").own(named.clone()), named);
}

/// A rootless container's processes have other user numbers, in a user namespace that its user made.
#[test]
fn a_process_in_a_users_own_namespace_is_the_users() {
    use std::{
        io::{BufRead as _, BufReader},
        os::unix::process::CommandExt as _,
        process::{Command, Stdio},
    };
    let mut command = Command::new("unshare");
    command.args(["--user", "sh", "-c", "echo there; exec sleep 1000"]).stdout(Stdio::piped());
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let mut child = command.uid(65_534).gid(65_534).spawn().expect("util-linux is there");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it can be read");
    let is_of = |pid, uid| container_files::is_of(Path::new("/"), pid, uid);
    let (users, roots) = (is_of(child.id(), 65_534), is_of(child.id(), 65_533));
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    if line.is_empty() {
        eprintln!("skipped: users may not make user namespaces here");
        return;
    }
    assert_eq!((users, roots), (true, false));
    assert!(!is_of(std::process::id(), 65_534));
}

/// An engine's number is shown by its first twelve digits; a runtime's container may have any name of as many
/// bytes.
#[test]
fn a_name_as_long_as_a_number_is_no_number() {
    let name = format!("webserverxx\u{e9}{}", "a".repeat(51));
    let path = format!("run/crun/{name}/status");
    let root = tree(&[(&path, r#"{"pid":7,"process-start-time":55}"#.to_owned()), ("proc/7/stat", stat(55))]);
    assert_eq!(find(root.path(), "webserver").expect("it runs").shown_name(), name);
}
