//! Configurations: what they mean, and what is wrong with others.

use rstest::rstest;

use super::*;

fn read(text: &str) -> Result<Config, ConfigError> {
    let place = tempfile::tempdir().expect("a folder can be made");
    let path = place.path().join("watch.toml");
    std::fs::write(&path, text).expect("the place is ours");
    Config::read(&path)
}

/// The error without its path, and the hint.
fn refused(text: &str) -> (String, Option<String>) {
    let error = read(text).expect_err("it is wrong");
    let told = error.to_string();
    let what = told.split_once("watch.toml: ").map_or(told.as_str(), |(_, what)| what);
    (what.to_owned(), error.hint())
}

const PROGRAM: &str = "[[programs]]\ncommand = '*uvicorn*'\n";

#[test]
fn a_configuration_is_told_in_words() {
    let text = format!(
        "name = 'llm'\n{PROGRAM}port = 8000\n[[programs]]\ncontainer = 'web'\n\
         [observe]\nrequests = ['port:8000']\nwait_threshold = '1ms'\n\
         [recorder]\nwindow = '10m'\nkeep = '2GiB'\n\
         [[triggers]]\nrequest = 'GET *'\nbeyond = 'p99'\ntimes = 3\ncause = 'throttled'\n\
         [[triggers]]\npressure = 'memory'\nabove_percent = 25\n\
         [incidents]\nbefore = '30s'\nper_hour = 2\n"
    );
    let config = read(&text).expect("it is right");
    insta::assert_snapshot!(config.told());
    let observed = config.observed().expect("it stands for options");
    assert_eq!((observed.requests.len(), observed.wait_threshold), (1, Duration::from_millis(1)));
}

#[test]
fn the_least_configuration_has_a_trigger() {
    insta::assert_snapshot!(read(PROGRAM).expect("it is right").told());
}

#[test]
fn a_configuration_without_rows_has_no_trigger() {
    let config = read(&format!("{PROGRAM}[recorder]\nrows = false\n")).expect("it is right");
    assert!(config.triggers().is_empty());
    insta::assert_snapshot!(config.told(), @r"
    observes programs that fit any of these:
      command *uvicorn*
    keeps no rows and no incidents: metrics, `ctl status` and `top` alone
    may take 1 % of the guest's CPU time
    ");
}

#[rstest]
#[case::empty("", "selects no program")]
#[case::unknown("[[programs]]\nexecutible = 'a'\n", "line 2: unknown field `executible`")]
#[case::no_toml("[[programs", "line 1: ")]
#[case::no_time("[recorder]\nwindow = '5'\n", "line 2: not a time")]
#[case::no_bytes("[recorder]\nkeep = '5GB'\n", "line 2: not a number of bytes")]
#[case::nothing_selected("[[programs]]\n", "programs: a table without any of")]
#[case::empty_pattern("[[programs]]\ncommand = ''\n", "programs: an empty value")]
fn what_is_wrong_is_told(#[case] text: &str, #[case] expected: &str) {
    let (what, _) = refused(text);
    assert!(what.starts_with(expected), "{what}");
}

#[rstest]
#[case::short("[recorder]\nwindow = '20s'\n", "recorder.window: shorter")]
#[case::segment("[recorder]\nsegment = '100ms'\n", "recorder.segment: not between")]
#[case::no_rows(
    "[recorder]\nrows = false\n[[triggers]]\nslower_than = '1s'\n",
    "triggers: nothing can be kept"
)]
#[case::small("[recorder]\nkeep = '1MiB'\n", "recorder.keep, incidents.keep: less")]
#[case::none("[incidents]\nper_hour = 0\n", "incidents.per_hour: must be")]
#[case::requests("[observe]\nrequests = ['8000']\n", "observe.requests: 8000: neither port:NUMBER")]
#[case::phases("[observe]\nphases = ['=x']\n", "observe.phases: =x: ")]
#[case::threads("[observe]\nmax_threads = 1\n", "observe.max_threads: not between")]
#[case::threshold("[observe]\nwait_threshold = '5s'\n", "observe.wait_threshold: more than 4s")]
#[case::trigger("[[triggers]]\nrequest = '*'\n", "triggers: give pressure, or any of")]
fn what_does_not_work_is_told(#[case] text: &str, #[case] expected: &str) {
    let (what, _) = refused(&format!("{PROGRAM}{text}"));
    assert!(what.starts_with(expected), "{what}");
}

#[rstest]
#[case::traces("[observe]\notlp = 'ftp://collector'\n", "observe.otlp: not the URL of an OTLP collector")]
#[case::metrics("[metrics]\notlp = 'ftp://collector'\n", "metrics.otlp: not the URL of an OTLP collector")]
fn what_an_exporter_would_refuse_is_told_before(#[case] text: &str, #[case] expected: &str) {
    let config = read(&format!("{PROGRAM}{text}")).expect("it is right but for that");
    let Err(Wrong { what, hint }) = config.check_collectors() else { panic!("it is let through") };
    assert!(what.starts_with(expected), "{what}");
    assert!(hint.is_some());
}

#[test]
fn collectors_are_let_through() {
    let text = "[observe]\notlp = 'http://127.0.0.1:4317'\n[metrics]\notlp = 'http://127.0.0.1:4318'\n";
    let config = read(&format!("{PROGRAM}{text}")).expect("it is right");
    assert!(config.check_collectors().is_ok());
}

#[rstest]
#[case::incident_longer_than_the_old_window(
    "[recorder]\nwindow = '1m'\n",
    "[recorder]\nwindow = '10m'\n[incidents]\nbefore = '5m'\n",
    "recorder.window: shorter"
)]
#[case::triggers_without_rows(
    "[recorder]\nrows = false\n",
    "[[triggers]]\nslower_than = '1s'\n",
    "triggers: nothing can be kept"
)]
fn a_mix_of_two_right_ones_may_be_wrong(#[case] old: &str, #[case] new: &str, #[case] expected: &str) {
    let [old, new] = [old, new].map(|text| read(&format!("{PROGRAM}{text}")).expect("it is right"));
    assert!(old.needs_restart(&new));
    let error = old.with(new, Path::new("watch.toml")).expect_err("both do not fit together");
    let told = error.to_string();
    assert!(told.starts_with(&format!("watch.toml: {expected}")), "{told}");
}

#[test]
fn of_a_new_one_some_is_taken_over() {
    let old = read(PROGRAM).expect("it is right");
    let new = read(&format!("name = 'new'\n{PROGRAM}[incidents]\nper_hour = 1\n")).expect("it is right");
    let kept = old.with(new, Path::new("watch.toml")).expect("both fit together");
    assert_eq!((&*kept.name, kept.incidents.per_hour), ("guest", 1));
}

#[test]
fn the_nearest_key_is_named() {
    let (_, hint) = refused("[[programs]]\nexecutible = 'a'\n");
    assert_eq!(hint.as_deref(), Some("did you mean `executable`?"));
    let (_, hint) = refused("[[program]]\ncommand = 'a'\n");
    assert_eq!(hint.as_deref(), Some("did you mean `programs`?"));
    let (_, hint) = refused("weather = 1\n");
    assert_eq!(hint, None);
}

#[test]
fn what_changes_without_a_restart() {
    let before = read(PROGRAM).expect("it is right");
    let differs = |more: &str| before.needs_restart(&read(&format!("{more}{PROGRAM}")).expect("it is right"));
    assert!(!differs("incidents.per_hour = 1\n"));
    assert!(differs("observe.max_threads = 99\n"));
    assert!(differs("name = 'other'\n"));
}

/// Keys that a table of this kind may have, by what serde says of one that it does not know.
fn keys(table: &str) -> Vec<String> {
    let (what, _) = refused(&format!("{table}zzz = 1\n"));
    let quoted = what.split('`').skip(1).step_by(2).map(str::to_owned);
    quoted.filter(|key| key != "zzz").collect()
}

#[test]
fn each_key_is_documented() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/watch.md"));
    let text = text.expect("it is there");
    let mut all = 0;
    for table in [
        "",
        "[[programs]]\n",
        "[observe]\n",
        "[recorder]\n",
        "[[triggers]]\n",
        "[incidents]\n",
        "[metrics]\n",
    ] {
        let heading = table.trim_end();
        let after = text.split_once(&format!("### `{heading}`")).map_or(&*text, |(_, after)| after);
        let section = after.split_once("\n### ").map_or(after, |(section, _)| section);
        for key in keys(table) {
            assert!(section.contains(&format!("| `{key}` |")) || table.is_empty(), "{heading} {key}");
            all += 1;
        }
    }
    assert!(all > 25, "{all} keys");
    let example = text.split("```toml\n").nth(1).and_then(|text| text.split("```").next());
    assert!(read(example.expect("there is one")).is_ok());
}
