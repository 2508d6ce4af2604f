//! Sources of a run, the files they put beside a program, and the messages about them.

use std::{ffi::OsString, path::Path};

use rstest::rstest;

use super::{Kind, Selected, Wish, Wishes, report, wish};
use crate::phase::{Made, Sources, Told};

fn wishes(words: &[&str]) -> Wishes {
    let sources = words.iter().filter_map(|word| wish(word).unwrap()).collect();
    Wishes { sources: Some(sources), ..Wishes::default() }
}

fn nothing(_: &str) -> Option<OsString> {
    None
}

#[rstest]
#[case("python", Ok(Some((Kind::Python, None))))]
#[case("otel:all", Ok(Some((Kind::Otel, Some("all")))))]
#[case("marker", Ok(Some((Kind::Marker, None))))]
#[case("none", Ok(None))]
#[case("pythons", Err(()))]
#[case("socket", Err(()))]
#[case("", Err(()))]
fn words_of_the_option(#[case] word: &str, #[case] expected: Result<Option<(Kind, Option<&str>)>, ()>) {
    let expected =
        expected.map(|wish| wish.map(|(kind, detail)| Wish { kind, detail: detail.map(str::to_owned) }));
    assert_eq!(wish(word).map_err(|_| ()), expected);
}

#[test]
fn what_is_not_asked_for_puts_nothing_beside_the_program() {
    let variables = |wishes: &Wishes| {
        let mut selected = Selected::for_program(wishes);
        let variables = selected.environment(Path::new("/files"), &nothing);
        let names: Vec<_> = variables.into_iter().map(|variable| variable.0).collect();
        let files: Vec<_> = selected.files().unwrap().into_iter().map(|file| file.path).collect();
        assert!(files.iter().any(|path| path == "python/guestscope.py"), "{files:?}");
        let has_wrappers = files.iter().any(|path| path == "python/sitecustomize.py");
        assert_eq!(has_wrappers, names.contains(&"GUESTSCOPE_PYTHON"), "{names:?} {files:?}");
        has_wrappers
    };
    assert!(variables(&Wishes::default()) && variables(&wishes(&["python"])));
    assert!(!variables(&wishes(&["none"])) && !variables(&wishes(&["otel"])));
}

#[test]
fn the_module_stands_before_the_programs_own_path() {
    let mut selected = Selected::for_program(&Wishes::default());
    let theirs = |name: &str| (name == "PYTHONPATH").then(|| OsString::from("/theirs"));
    let variables = selected.environment(Path::new("/files"), &theirs);
    assert!(variables.contains(&("PYTHONPATH", "/files/python:/theirs".into())));
}

#[test]
fn nvtx_and_itt_share_one_file_and_a_variable_of_another_tool_stays() {
    let theirs = |name: &str| (name == "NVTX_INJECTION64_PATH").then(|| OsString::from("/nsight.so"));
    let mut selected = Selected::for_program(&wishes(&["nvtx", "itt:all"]));
    let is_injection = |file: &super::Unpacked| file.path == "libguestscope-inject.so";
    assert_eq!(selected.files().unwrap().iter().filter(|file| is_injection(file)).count(), 1);
    let variables = selected.environment(Path::new("/files"), &theirs);
    assert!(variables.contains(&("INTEL_LIBITTNOTIFY64", "/files/libguestscope-inject.so".into())));
    assert!(variables.contains(&("GUESTSCOPE_ITT", "all".into())));
    assert!(variables.iter().all(|variable| variable.0 != "NVTX_INJECTION64_PATH"), "{variables:?}");
    let reports = report(&selected, &Sources::default());
    let nvtx = reports.iter().find(|report| report.kind == Kind::Nvtx).expect("it was asked for");
    assert!(nvtx.off.as_ref().is_some_and(|why| why.starts_with("another tool holds the injection")));
}

#[test]
fn a_report_says_what_was_on_what_came_and_what_could_not() {
    let selected = Selected::for_program(&wishes(&["python"]));
    let mut sources = Sources::default();
    sources.made[Kind::Python as usize] = Made { requests: 3, phases: 7, alone: 0 };
    let told = |source, text: &str| Told { source, text: text.into(), times: 1 };
    sources.told = vec![
        told(Kind::Python, "+torch 2.13"),
        told(Kind::Python, "!grpc 9: no such thing"),
        told(Kind::Python, "neither"),
        told(Kind::Nvtx, "+nvtx"),
    ];
    let reports = report(&selected, &sources);
    let shown: Vec<_> = reports
        .iter()
        .map(|one| (one.kind, one.off.is_none(), one.made.requests, one.found.len(), one.missed.len()))
        .collect();
    let expected = [
        (Kind::Marker, true, 0, 0, 0),
        (Kind::Python, true, 3, 1, 1),
        (Kind::Otel, false, 0, 0, 0),
        (Kind::Nvtx, true, 0, 1, 0),
        (Kind::Itt, false, 0, 0, 0),
    ];
    assert_eq!(shown, expected);
}
