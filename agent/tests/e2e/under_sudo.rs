//! The first use: an ordinary user starts the agent by sudo, doas or su, each the real one. The program is that user's, finds the
//! marker, and its phases are seen.

use std::{os::unix::fs::MetadataExt as _, path::PathBuf, process::Command};

use rstest::rstest;

use crate::{
    folder::Seen,
    ground::{Ground, file, skipped},
    mounts::{cover, in_private_mounts},
    person::Person,
    running::{Done, Start},
};

const MARKED: &str = "classify:ended preprocess:ended inference:ended";
/// `run` into a folder of the user's.
const RUN: [&str; 5] = ["run", "--json", "--output", "runs", "--"];
const DEBIANS: &str = "/usr/bin/python3";

/// The agent through these words of the user.
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

/// A Python of pyenv's, whose folders are closed to others, at a place that is open to all. In private mounts.
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

/// sudo forgets PYTHONPATH and everything else that the user may have set.
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
        // Where it was moved to, the loader does not look for its library.
        let libraries = format!("LD_LIBRARY_PATH={}", ground.path("pyenv/lib").display());
        let start = sudo(&person, &ground).words(&RUN).words(&["env", &libraries]);
        let start = start.word(python).words(options).word(script);
        check(&start.finish().expect(0), &person, &[MARKED; 3]);
    });
}
