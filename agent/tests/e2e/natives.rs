//! Servers in Go and Java, built for a test.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::ground::{Ground, file, skipped};

fn source(name: &str) -> PathBuf {
    file(&format!("tests/data/e2e/servers/{name}"))
}

/// Builds a Go program with these compiler arguments; none, with a note on stdout, without Go.
pub(crate) fn go(test: &str, ground: &Ground, name: &str, words: &[&str]) -> Option<PathBuf> {
    let go = found("go", test)?;
    let program = ground.path("program");
    let mut build = Command::new(go);
    build.arg("build").args(words).arg("-o").arg(&program).arg(source(name));
    // Without a cache each test would compile Go's library, for 20 s.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
    build.env("GOCACHE", cache).env("HOME", ground.path("home"));
    build.env("GOFLAGS", "").env("GO111MODULE", "off");
    made(&mut build);
    Some(program)
}

/// Java and its first arguments; none, with a note on stdout, without Java.
pub(crate) fn java(test: &str, ground: &Ground) -> Option<Vec<PathBuf>> {
    let (java, javac) = (found("java", test)?, found("javac", test)?);
    made(Command::new(javac).arg("-d").arg(ground.path("")).arg(source("Server.java")));
    Some(vec![java, "-cp".into(), ground.path(""), "Server".into()])
}

fn found(program: &str, test: &str) -> Option<PathBuf> {
    let found = guestscope::child::resolve(program).ok();
    if found.is_none() {
        skipped(test, &format!("no {program}"));
    }
    found
}

fn made(build: &mut Command) {
    let done = build.output().expect("it can be run");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
