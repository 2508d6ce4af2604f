//! The command line's own texts, word by word, without what depends on the machine.

use insta::assert_snapshot;
use rstest::rstest;
use serde_json::Value;

use crate::ground::Ground;

#[rstest]
#[case("help", &["--help"], 0)]
#[case("help_run", &["run", "--help"], 0)]
#[case("help_attach", &["attach", "--help"], 0)]
#[case("help_watch", &["watch", "--help"], 0)]
#[case("help_ctl", &["ctl", "--help"], 0)]
#[case("help_top", &["top", "--help"], 0)]
#[case("short_help_attach", &["attach", "-h"], 0)]
#[case("attach_to_nothing", &["attach"], 2)]
#[case("attach_to_two_kinds", &["attach", "--pid", "1", "--cgroup", "a"], 2)]
#[case("help_compare", &["compare", "--help"], 0)]
#[case("help_explain", &["explain", "--help"], 0)]
#[case("help_ranks", &["ranks", "--help"], 0)]
#[case("explain_nothing", &["explain"], 2)]
#[case("help_export", &["export", "--help"], 0)]
#[case("help_doctor", &["doctor", "--help"], 0)]
#[case("short_help_run", &["run", "-h"], 0)]
#[case("nothing", &[], 2)]
#[case("unknown_command", &["observe"], 2)]
#[case("unknown_option", &["run", "--jsn", "true"], 2)]
#[case("no_program", &["run"], 2)]
fn words(#[case] name: &str, #[case] arguments: &[&str], #[case] code: i32) {
    let Some(ground) = Ground::new("texts::words") else { return };
    let done = ground.command(arguments).without("COLUMNS").finish().expect(code);
    // Requested help goes to standard output, help after a mistake to standard error.
    let (said, other) = if code == 0 { (done.stdout, done.stderr) } else { (done.stderr, done.stdout) };
    assert_eq!(other, "");
    assert_snapshot!(name, said);
}

#[test]
fn version() {
    let Some(ground) = Ground::new("texts::version") else { return };
    let done = ground.command(&["--version"]).finish().expect(0);
    assert_eq!(done.stdout, format!("guestscope {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn doctor() {
    let Some(ground) = Ground::new("texts::doctor") else { return };
    let text = ground.command(&["doctor"]).finish().expect(0).stdout;
    let json = ground.command(&["doctor", "--json"]).finish().expect(0).stdout;
    let json: Value = serde_json::from_str(&json).expect("the doctor prints JSON");

    let scenario = json["scenario"].as_str().expect("a text");
    assert!(text.starts_with(&format!("{scenario}: ")), "{text}");
    let (_, rest) = text.split_once('\n').expect("more than one line");
    let (hooks, rest) = rest.split_once("evidence\n").expect("evidence");
    // The signs of restores depend on the hypervisor.
    let (hooks, signs) = hooks.split_once("\nsource   state        what it shows\n").expect("signs");
    assert_snapshot!("doctor_hooks", hooks);
    assert!(signs.starts_with("vmgenid  ") && signs.contains("\nvmclock  "), "{signs}");
    let headings: Vec<&str> = rest
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(headings, ["", "host", "gpu", "limits", "cgroup", "agent"]);

    let keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
    insta::assert_compact_debug_snapshot!("doctor_keys", keys);
    let outcomes = json["hooks"].as_array().expect("a list").iter().map(|hook| &hook["outcome"]);
    assert!(outcomes.into_iter().all(|outcome| outcome == "ok"), "{json}");
    assert_eq!(json["fidelity"], "full");
}

/// Banner and summary of a small run for people: only lines that do not depend on the machine.
#[test]
fn a_small_run() {
    let Some(ground) = Ground::new("texts::a_small_run") else { return };
    let run =
        ground.command(&["run", "--output"]).word(ground.path("runs")).program(crate::ground::subject());
    let done = run.words(&["requests", "3", "1000"]).finish().expect(0);
    let banner: Vec<&str> = done.stderr.lines().collect();
    assert_eq!(banner.len(), 1, "{}", done.stderr);
    assert!(banner[0].starts_with(concat!("guestscope ", env!("CARGO_PKG_VERSION"), "  ")), "{banner:?}");
    assert!(banner[0].contains("fidelity full") && banner[0].contains("attached in "), "{banner:?}");
    // Which lines there are, by their first words.
    let first = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    // How much time the program spends outside its phases depends on the machine.
    let is_the_same = |word: &String| !word.is_empty() && word != "outside";
    let mut firsts: Vec<String> = done.stdout.lines().map(first).filter(is_the_same).collect();
    firsts.dedup();
    assert_snapshot!("small_run", firsts.join("\n"));
}
