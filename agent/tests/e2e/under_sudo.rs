//! The first use: an ordinary user starts the agent by sudo, doas or su, all real. The program runs as that
//! user, finds the marker, and its phases are seen.

use std::{os::unix::fs::MetadataExt as _, path::PathBuf, process::Command};

use insta::assert_snapshot;
use rstest::rstest;

use crate::{
    folder::{Seen, only_folder},
    ground::{Ground, file, skipped, subject},
    mounts::{cover, in_private_mounts},
    person::Person,
    refusals::refusal,
    running::{Done, Start},
};

const ENDED: &str = "request:ended work:ended rest:ended";
const MARKED: &str = "classify:ended preprocess:ended inference:ended";
/// `run` into a folder of the user.
const RUN: [&str; 5] = ["run", "--json", "--output", "runs", "--"];
const DEBIANS: &str = "/usr/bin/python3";

/// The agent, started by this command of the user.
fn through(person: &Person, ground: &Ground, words: &[&str]) -> Start {
    let start = person.start(guestscope::child::resolve(words[0]).expect("it was tried out"));
    start.words(&words[1..]).word(ground.agent())
}

fn sudo(person: &Person, ground: &Ground) -> Start {
    through(person, ground, &["sudo", "-n"])
}

fn check(done: &Done, person: &Person, endings: &[&str]) -> Seen {
    let seen = done.seen();
    assert_eq!(done.losses(), []);
    assert_eq!(seen.endings(), endings, "{}", done.stderr);
    assert_eq!(seen.manifest.child.as_ref().map(|child| child.uid), Some(person.user.uid.as_raw()));
    let theirs = std::fs::metadata(&seen.path).expect("it is there");
    assert_eq!(theirs.uid(), person.user.uid.as_raw());
    assert!(!done.stderr.contains("warning"), "{}", done.stderr);
    seen
}

/// A pyenv Python whose folders are closed to others, moved to a place that is open to all. In private
/// mounts.
fn pyenvs(ground: &Ground, test: &str) -> Option<PathBuf> {
    let root = std::env::var_os("PYENV_ROOT").map_or_else(|| PathBuf::from("/root/.pyenv"), PathBuf::from);
    let versions = std::fs::read_dir(root.join("versions")).into_iter().flatten().flatten();
    let last = versions.map(|entry| entry.path()).filter(|path| path.join("bin/python3").exists()).max();
    let Some(last) = last else {
        skipped(test, "no Python of pyenv's");
        return None;
    };
    std::fs::create_dir(ground.path("pyenv")).expect("the folder is ours");
    cover(&ground.path("pyenv").to_string_lossy(), &last);
    Some(ground.path("pyenv/bin/python3"))
}

fn debians(test: &str) -> Option<PathBuf> {
    let found = PathBuf::from(DEBIANS);
    if !found.exists() {
        skipped(test, "no /usr/bin/python3");
        return None;
    }
    Some(found)
}

fn virtual_environments(ground: &Ground, test: &str) -> Option<PathBuf> {
    let python = debians(test)?;
    let made = Command::new(python).args(["-m", "venv", "--without-pip"]).arg(ground.path("venv")).output();
    if !made.is_ok_and(|made| made.status.success()) {
        skipped(test, "no module venv");
        return None;
    }
    Some(ground.path("venv/bin/python"))
}

/// sudo removes PYTHONPATH and everything else that the user may have set.
#[rstest]
#[case::debians("debians", &[])]
#[case::pyenvs("pyenvs", &[])]
#[case::virtual_environments("virtual_environments", &[])]
#[case::without_the_users_packages("debians", &["-s"])]
#[case::optimised("debians", &["-OO", "-u"])]
fn a_python_program_finds_the_module(#[case] whose: &str, #[case] options: &[&str]) {
    let test = "under_sudo::a_python_program_finds_the_module";
    let Some(ground) = Ground::new(test) else { return };
    let Some(person) = Person::new(&ground, test).and_then(|person| person.with_sudo(test)) else { return };
    in_private_mounts(test, || {
        let python = match whose {
            "pyenvs" => pyenvs(&ground, test),
            "virtual_environments" => virtual_environments(&ground, test),
            _ => debians(test),
        };
        let Some(python) = python else { return };
        let program = file("tests/data/e2e/python_marks.py");
        let text = std::fs::read_to_string(program).expect("it is there");
        let script = person.file("serve.py", &text);
        // After the move the loader does not find its library by itself.
        let libraries = format!("LD_LIBRARY_PATH={}", ground.path("pyenv/lib").display());
        let start = sudo(&person, &ground).words(&RUN).words(&["env", &libraries]);
        let start = start.word(python).words(options).word(script);
        check(&start.finish().expect(0), &person, &[MARKED; 3]);
    });
}

/// The module is there but cannot be imported; the agent says so before the program fails.
#[rstest]
#[case::isolated("-I")]
#[case::without_the_environment("-E")]
fn a_python_that_ignores_the_environment_is_warned_of(#[case] option: &str) {
    let test = "under_sudo::a_python_that_ignores_the_environment_is_warned_of";
    let (Some(ground), Some(python)) = (Ground::new(test), debians(test)) else { return };
    let run = ground.run().program(python).words(&[option, "-c", "import guestscope"]);
    let done = run.finish().expect(1);
    let warning = format!("warning: with {option} Python ignores PYTHONPATH");
    assert!(done.stderr.contains(&warning), "{}", done.stderr);
    assert!(done.stderr.contains("No module named 'guestscope'"), "{}", done.stderr);
}

/// The program gets the user's environment, not root's.
#[rstest]
#[case::sudo(&["sudo", "-n"])]
#[case::keeping_the_environment(&["sudo", "-n", "-E"])]
#[case::as_root_by_name(&["sudo", "-n", "-u", "root"])]
#[case::by_a_shell_of_roots(&["sudo", "-n", "sh", "-c", "umask 077; exec \"$0\" \"$@\""])]
#[case::doas(&["doas", "-n"])]
fn the_program_is_the_callers(#[case] way: &[&str]) {
    let test = "under_sudo::the_program_is_the_callers";
    let Some(ground) = Ground::new(test) else { return };
    let person = Person::new(&ground, test);
    let person = if way[0] == "doas" {
        person.and_then(|person| person.with_doas(test))
    } else {
        person.and_then(|person| person.with_sudo(test))
    };
    let Some(person) = person else { return };
    person.file("book", "");
    let script = format!("{0} view; exec {0} requests 3", subject().display());
    let book = format!("E2E_BOOK={}", person.path("book").display());
    let start = through(&person, &ground, way).words(&RUN).words(&["env", &book, "sh", "-c", &script]);
    check(&start.finish().expect(0), &person, &[ENDED; 3]);
    let book = std::fs::read_to_string(person.path("book")).expect("it is there");
    let (uid, gid, name) = (person.user.uid, person.user.gid, &person.user.name);
    for line in [
        format!("status.Uid={uid} {uid} {uid} {uid}"),
        format!("status.Gid={gid} {gid} {gid} {gid}"),
        format!("status.Groups={}", person.groups()),
        "status.CapEff=0000000000000000".to_owned(),
        "status.NoNewPrivs=0".to_owned(),
        format!("env.HOME={}", person.path("").display().to_string().trim_end_matches('/')),
        format!("env.USER={name}"),
        format!("env.LOGNAME={name}"),
        "env.SHELL=/bin/sh".to_owned(),
    ] {
        assert!(book.lines().any(|other| other == line), "{line}: {book}");
    }
}

/// As far as the file system allows: a program that is linked with the library finds it without a variable.
#[test]
fn a_program_that_is_linked_against_the_library_finds_it() {
    let test = "under_sudo::a_program_that_is_linked_against_the_library_finds_it";
    let Some(ground) = Ground::new(test) else { return };
    let Ok(compiler) = guestscope::child::resolve("cc") else { return skipped(test, "no C compiler") };
    let Some(person) = Person::new(&ground, test).and_then(|person| person.with_sudo(test)) else { return };
    let source = person.file(
        "linked.c",
        "#include <guestscope.h>\nint main(void) {\n    for (int i = 1; i < 4; i++)\n        \
         guestscope_end(guestscope_request(\"linked\", 6, i, 0));\n    return 0;\n}\n",
    );
    // The first run provides the library to link with.
    let include = file("marker/include");
    let compile = "\"$0\" -o linked -I \"$1\" \"$2\" \"$GUESTSCOPE_LIBRARY\"";
    let run = sudo(&person, &ground).words(&RUN).words(&["sh", "-c", compile]).word(compiler);
    run.word(include).word(source).finish().expect(0);
    std::fs::remove_dir_all(person.path("runs")).expect("it is there");
    let done = sudo(&person, &ground).words(&RUN).word("./linked").finish().expect(0);
    check(&done, &person, &["linked:ended"; 3]);
}

/// The program uses sudo itself and becomes root: a descendant is observed whatever user it is.
#[test]
fn a_program_may_become_root_by_sudo_itself() {
    let test = "under_sudo::a_program_may_become_root_by_sudo_itself";
    let Some(ground) = Ground::new(test) else { return };
    let Some(person) = Person::new(&ground, test).and_then(|person| person.with_sudo(test)) else { return };
    let words = ["sudo", "-n", "--preserve-env=GUESTSCOPE_NOTIFY"];
    let start = sudo(&person, &ground).words(&RUN).words(&words).word(subject()).words(&["requests", "3"]);
    check(&start.finish().expect(0), &person, &[ENDED; 3]);
}

/// Without root there are no BPF programs; phases are seen all the same.
#[rstest]
#[case::as_another_user_by_sudo(true)]
#[case::by_su(false)]
fn an_ordinary_user_sees_phases(#[case] is_by_sudo: bool) {
    let test = "under_sudo::an_ordinary_user_sees_phases";
    let Some(ground) = Ground::new(test) else { return };
    let (person, other) = (Person::new(&ground, test), Person::new(&ground, test));
    let (Some(person), Some(other)) = (person.and_then(|person| person.with_sudo(test)), other) else {
        return;
    };
    // Other users may not be able to enter the build folder.
    let agent = ground.path("guestscope");
    std::fs::copy(ground.agent(), &agent).expect("the folder is ours");
    let program = ground.path("e2e_subject");
    std::fs::copy(subject(), &program).expect("the folder is ours");
    let command = format!(
        "cd {} && {} run --json --output runs -- {} requests 3",
        other.path("").display(),
        agent.display(),
        program.display()
    );
    let name = other.user.name.clone();
    let start = if is_by_sudo {
        person.start("/usr/bin/sudo").words(&["-n", "-u", &name, "sh", "-c", &command])
    } else {
        let Ok(su) = guestscope::child::resolve("su") else { return skipped(test, "no program su") };
        Start::new(&ground.path(""), &su).words(&[&name, "-c", &command])
    };
    let done = start.finish().expect(0);
    let seen = Seen::read(&only_folder(&other.path("runs")));
    assert_eq!((&*seen.manifest.fidelity, seen.endings().len()), ("procfs", 3), "{}", done.stderr);
    assert_eq!(seen.manifest.child.as_ref().map(|child| child.uid), Some(other.user.uid.as_raw()));
}

/// Only root could have set both variables, and it is unknown which of them is true.
#[test]
fn two_callers_are_refused() {
    let Some(ground) = Ground::new("under_sudo::two_callers_are_refused") else { return };
    let run = ground.run().program("true").environment("SUDO_UID", "65534").environment("PKEXEC_UID", "1");
    assert_snapshot!(refusal(&ground, run), @r"
    error: it is unclear who called: SUDO_UID says 65534, PKEXEC_UID says 1

    hint: unset those that are not true: `env -u VARIABLE guestscope run -- CMD`
    ");
}

/// The usual places are mounted noexec.
#[test]
fn where_run_and_tmp_are_mounted_noexec_the_module_is_found() {
    let test = "under_sudo::where_run_and_tmp_are_mounted_noexec_the_module_is_found";
    let (Some(ground), Some(python)) = (Ground::new(test), debians(test)) else { return };
    in_private_mounts(test, || {
        for place in ["/run", "/dev/shm"] {
            let (none, flags) = (None::<&str>, nix::mount::MsFlags::MS_NOEXEC);
            nix::mount::mount(Some("tmpfs"), place, Some("tmpfs"), flags, none)
                .expect("a tmpfs can be mounted");
        }
        let start = ground.run().program(python).word(file("tests/data/e2e/python_marks.py"));
        let done = start.finish().expect(0);
        assert_eq!(done.seen().endings(), [MARKED; 3]);
    });
}
