//! The file of spans that wait, and the lines in it.

use std::{fs, path::Path};

use opentelemetry_sdk::trace::SpanData;
use tempfile::tempdir;

use super::{OFFSET_NS, request};
use crate::sinks::otlp::{
    LiveVerdict, json, service,
    spans::Trace,
    spill::{Spill, SpillError},
    waits::Chosen,
};

const NAME: &str = "spill.otlp.jsonl";

fn size(folder: &Path) -> Option<u64> {
    fs::metadata(folder.join(NAME)).ok().map(|metadata| metadata.len())
}

fn front(spill: &mut Spill) -> Option<String> {
    let (_, line) = spill.front()?;
    Some(String::from_utf8(line.expect("it can be read")).expect("it is text"))
}

#[test]
fn spans_come_back_as_they_went() {
    let (resources, _) = service::resources("infer", Vec::new());
    let mut first = request(1, 3).as_ref().clone();
    first.phases[0].edges_lost = 4;
    first.phases[0].trace.parent_span_id = Some([9; 8]);
    first.phases[0].trace.parent_is_remote = true;
    let verdict = LiveVerdict { cause: Some("runq".into()), tail: None };
    let spans: Vec<SpanData> = Trace::new(first.into(), Chosen::default(), verdict, OFFSET_NS).collect();
    let line = json::write(spans.clone(), &(&resources.program).into()).expect("it can be written");
    assert_eq!(line.iter().position(|&byte| byte == b'\n'), Some(line.len() - 1), "one line");
    let back = json::read(&line).expect("it can be read");
    assert_eq!(back, spans);
}

#[test]
fn lines_leave_in_the_order_in_which_they_came() {
    let folder = tempdir().expect("a folder");
    let mut spill = Spill::new(Some(folder.path()), NAME, 1_000);
    assert_eq!(size(folder.path()), None, "nothing is made before it is needed");
    for line in ["one\n", "two\n", "three\n"] {
        spill.push(line.as_bytes(), 1).expect("there is room");
    }
    assert_eq!(front(&mut spill).as_deref(), Some("one\n"));
    assert_eq!(front(&mut spill).as_deref(), Some("one\n"), "it stays until it is left behind");
    spill.pop();
    spill.push(b"four\n", 1).expect("there is room");
    let rest: Vec<String> = std::iter::from_fn(|| front(&mut spill).inspect(|_| spill.pop())).collect();
    assert_eq!(rest, ["two\n", "three\n", "four\n"]);
    assert_eq!(size(folder.path()), Some(0), "what has been read takes no room");
    spill.close().expect("it can be removed");
    assert_eq!(size(folder.path()), None);
}

#[test]
fn the_end_keeps_only_what_was_not_read() {
    let folder = tempdir().expect("a folder");
    let mut spill = Spill::new(Some(folder.path()), NAME, 1_000);
    for line in ["one\n", "two\n", "three\n"] {
        spill.push(line.as_bytes(), 1).expect("there is room");
    }
    spill.pop();
    spill.close().expect("it can be copied");
    assert_eq!(fs::read_to_string(folder.path().join(NAME)).expect("it is there"), "two\nthree\n");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "no other file is left");
}

#[test]
fn the_bound_holds_and_room_comes_back() {
    let folder = tempdir().expect("a folder");
    let mut spill = Spill::new(Some(folder.path()), NAME, 10);
    for _ in 0..2 {
        spill.push(b"1234\n", 1).expect("there is room");
    }
    let full = spill.push(b"1234\n", 1);
    assert!(matches!(full, Err(SpillError::Full { bytes: 10, .. })), "{full:?}");
    assert_eq!(size(folder.path()), Some(10));
    spill.pop();
    spill.push(b"12345\n", 1).expect_err("half of it is not enough to be worth a copy");
    let mut spill = Spill::new(Some(folder.path()), "other", 15);
    for line in ["1234567\n", "abc\n"] {
        spill.push(line.as_bytes(), 1).expect("there is room");
    }
    spill.pop();
    spill.push(b"12345678\n", 1).expect("the part that was read made room");
    assert_eq!(front(&mut spill).as_deref(), Some("abc\n"));
}

#[test]
fn what_cannot_be_used_says_why() {
    let folder = tempdir().expect("a folder");
    let none = Spill::new(None, NAME, 1_000).push(b"x\n", 1);
    assert!(matches!(none, Err(SpillError::NoFolder)), "{none:?}");
    let gone = Spill::new(Some(&folder.path().join("gone")), NAME, 1_000).push(b"x\n", 1);
    assert!(matches!(gone, Err(SpillError::Io { .. })), "{gone:?}");
    fs::write(folder.path().join(NAME), "of another run\n").expect("a file");
    let other = Spill::new(Some(folder.path()), NAME, 1_000).push(b"x\n", 1);
    assert!(matches!(other, Err(SpillError::Io { .. })), "{other:?}");
    assert_eq!(size(folder.path()), Some(15), "it is unharmed");
}

#[test]
fn lines_of_others_are_refused() {
    for line in ["", "{}x", r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{}]}]}]}"#] {
        json::read(line.as_bytes()).expect_err(line);
    }
}
