//! `guestscope report`: a page with the numbers of `compare --json`, and its texts.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command};

use serde_json::Value;
use tempfile::TempDir;

use super::{Made, clean, folders, json, slow, text};

pub(super) fn report(directory: &TempDir, words: &[&str]) -> (PathBuf, String) {
    let file = directory.path().join("page.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_guestscope"));
    command.arg("report").args(words).arg("--output").arg(&file).current_dir(directory.path());
    text(command.output().unwrap(), 0);
    let page = fs::read_to_string(&file).unwrap();
    (file, page)
}

/// Numbers in the cells of the table with this mark, row by row.
fn numbers(page: &str, table: &str) -> Vec<Vec<f64>> {
    let table =
        page.split("<table ").find(|part| part.starts_with(table)).unwrap().split("</table>").next().unwrap();
    let cells = |row: &str| -> Vec<f64> {
        row.split("data-value=\"")
            .skip(1)
            .map(|cell| cell.split('"').next().unwrap().parse().unwrap())
            .collect()
    };
    table.split("<tbody>").nth(1).unwrap().split("<tr").skip(1).map(cells).collect()
}

/// Equal except for the last digits, because JSON readers may round the last one differently.
#[track_caller]
pub(super) fn assert_same(found: &[Vec<f64>], expected: &[Vec<f64>]) {
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= b.abs() * 1e-12;
    let same = |(a, b): (&Vec<f64>, &Vec<f64>)| a.len() == b.len() && a.iter().zip(b).all(is_near);
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(same), "{found:?}\n{expected:?}");
}

pub(super) fn all(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

#[test]
fn numbers_are_those_of_the_json() {
    let directory = folders(10, &[clean(), slow()]);
    let json = json(directory.path(), &["."]);
    let (_, page) = report(&directory, &["."]);
    let platform = &json["platforms"][0];
    let number = |value: &Value| value.as_f64().unwrap();
    let metrics: Vec<Vec<f64>> = all(&platform["metrics"])
        .iter()
        .map(|one| vec![number(&one["baseline"]), number(&one["value"]), number(&one["ratio"]["value"])])
        .collect();
    assert_same(&numbers(&page, "id=\"metrics\""), &metrics);
    let mean = &platform["mean"];
    let parts = numbers(&page, "class=\"parts\" data-of=\"mean\"");
    let (whole, parts) = parts.split_last().unwrap();
    let sums = vec![number(&mean["baseline_ns"]), number(&mean["difference_ns"]["value"])];
    assert_same(std::slice::from_ref(whole), &[sums]);
    let (rest, parts) = parts.split_last().unwrap();
    let known: Vec<Vec<f64>> = all(&mean["parts"])
        .iter()
        .map(|one| vec![number(&one["baseline_ns"]), number(&one["difference_ns"]["value"])])
        .collect();
    assert_same(parts, &known[..parts.len()]);
    let shown: f64 = parts.iter().map(|part| part[1]).sum();
    assert!((shown + rest[0] - whole[1]).abs() < 1e-3, "{shown} {rest:?} {whole:?}");
    let curve: Vec<Vec<f64>> =
        all(&platform["curve"]).iter().map(|point| vec![number(&point["ratio"]["value"])]).collect();
    let drawn: Vec<Vec<f64>> = numbers(&page, "class=\"curve\"").iter().map(|row| vec![row[2]]).collect();
    assert_same(&drawn, &curve);
}

#[test]
fn bars_add_up_to_the_latency() {
    let directory = folders(5, &[clean(), slow()]);
    let (_, page) = report(&directory, &["."]);
    let shares = numbers(&page, "id=\"shares\"");
    let (whole, shares) = shares.split_last().unwrap();
    for (platform, whole) in whole.iter().enumerate() {
        let sum: f64 = shares.iter().map(|row| row[platform]).sum();
        // Parts below 0.2 % of the whole have no line.
        assert!((whole - sum) / whole < 0.002 && sum <= whole + 1.0, "{sum} of {whole}");
    }
}

#[test]
fn one_platform_alone_has_no_verdict() {
    let directory = folders(3, &[clean()]);
    let (_, page) = report(&directory, &["."]);
    assert!(page.contains("BM/2/VNL/CPU: a mean request takes"), "{page}");
    assert!(!page.contains("id=\"why\"") && !page.contains("id=\"metrics\""));
    assert!(page.contains("the slowest request"));
}

/// Directly below the verdict, not only at the end of the page.
#[test]
fn what_is_emulated_is_said_first() {
    let emulated = Made { hypervisor: "QEMU on TCG", ..slow() };
    let directory = folders(5, &[clean(), emulated.clone()]);
    let (_, page) = report(&directory, &["."]);
    let (header, rest) = page.split_once("</header>").unwrap();
    assert!(header.contains("<p class=\"because\">emulated by QEMU (TCG): CN/2/VNL/CPU; "), "{header}");
    assert!(rest.contains("<b>advice</b> none: "), "{rest}");
    let directory = folders(2, &[emulated]);
    let (_, page) = report(&directory, &["."]);
    assert!(page.split_once("</header>").unwrap().0.contains("emulated by QEMU (TCG): CN/2/VNL/CPU; "));
}

/// The page is the only place where its readers can see them.
#[test]
fn all_notes_are_on_the_page() {
    let directory = folders(5, &[clean(), slow()]);
    for (folder, disk) in fs::read_dir(directory.path()).unwrap().zip('a'..) {
        let manifest = folder.unwrap().path().join("manifest.json");
        let mut told: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
        told["state"] = "running".into();
        told["health"]["folder_error"] = format!("disk {disk} is full").into();
        fs::write(&manifest, told.to_string()).unwrap();
    }
    let (_, page) = report(&directory, &["."]);
    assert!(page.contains(" was never closed: "), "{page}");
    for disk in 'a'..='j' {
        assert!(page.contains(&format!(" is incomplete: disk {disk} is full</p>")), "{disk}: {page}");
    }
    assert!(!page.contains("--json"), "{page}");
}

/// Twelve lines, each with its own look and a place for its name.
#[test]
fn a_dozen_platforms_look_different() {
    const SCENARIOS: [&str; 12] =
        ["a/1", "b/1", "c/1", "d/1", "e/1", "f/1", "g/1", "h/1", "i/1", "j/1", "k/1", "l/1"];
    let directory = folders(2, &SCENARIOS.map(|scenario| Made { scenario, ..clean() }));
    let (_, page) = report(&directory, &["."]);
    let chart = page.split("id=\"latency\"").nth(1).unwrap().split("</svg>").next().unwrap();
    let height = |name: &str| -> i32 {
        let before = chart.split(&format!("\n{name}\n")).next().unwrap();
        let tag = before.rsplit("<text ").next().unwrap();
        tag.split(" y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    let mut heights = SCENARIOS.map(height);
    heights.sort_unstable();
    assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= 30), "{heights:?}");
    for index in 0..SCENARIOS.len() {
        assert!(chart.contains(&format!("\"stroke-platform{index}\"")), "{index}");
    }
}

#[test]
fn names_are_text_and_nothing_else() {
    let hostile = "<script>alert(1)</script>\"'&<b>";
    let directory = folders(2, &[Made { name: hostile, scenario: hostile, ..clean() }]);
    let (_, page) = report(&directory, &["."]);
    assert!(!page.contains("<script") && !page.contains("<b>\""), "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)"));
}

/// A report is made from folders: it does not offer traces as input, and refuses them with a hint.
#[test]
fn traces_are_no_part_of_it() {
    let said = |words: &[&str], code: i32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_guestscope"));
        text(command.args(words).env_remove("COLUMNS").output().unwrap(), code)
    };
    let help = said(&["report", "--help"], 0);
    for option in ["--jaeger ", "--service", "--lookback"] {
        assert!(!help.contains(option), "{help}");
    }
    assert!(help.contains("--jaeger-ui <URL>") && said(&["compare", "--help"], 0).contains("--lookback"));
    let refused = said(&["report", "--jaeger", "http://localhost:1", "--service", "a", "--output", "x"], 2);
    assert!(refused.starts_with("error: a report is of run folders, not of traces: --jaeger\n\nhint: "));
}

#[test]
fn what_there_is_is_not_written_over() {
    let directory = folders(2, &[clean()]);
    report(&directory, &["."]);
    let mut again = Command::new(env!("CARGO_BIN_EXE_guestscope"));
    again.args(["report", ".", "--output", "page.html"]).current_dir(directory.path());
    insta::assert_snapshot!(text(again.output().unwrap(), 2));
    let mut script = Command::new(env!("CARGO_BIN_EXE_guestscope"));
    script.args(["report", ".", "--jaeger-ui", "javascript:alert(1)"]).current_dir(directory.path());
    insta::assert_snapshot!(text(script.output().unwrap(), 2));
}

/// The part of the page with this name.
fn section<'a>(page: &'a str, name: &str) -> &'a str {
    page.split(&format!("<section id=\"{name}\">")).nth(1).unwrap().split("</section>").next().unwrap()
}

/// Lengths of the bars of whole requests, chart by chart.
fn bars(page: &str) -> Vec<Vec<u32>> {
    let number = |tag: &str, name: &str| -> u32 {
        tag.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    let lengths = |figure: &str| {
        let mut rows = BTreeMap::<u32, u32>::new();
        let tags = figure.split("<rect ").skip(1).map(|tag| tag.split('>').next().unwrap());
        for tag in tags.filter(|tag| tag.contains("fill-cause")) {
            *rows.entry(number(tag, "y")).or_default() += number(tag, "width");
        }
        rows.into_values().collect()
    };
    let figures = section(page, "time").split("<figure>").skip(1);
    figures.filter(|figure| figure.contains(">whole request<")).map(lengths).collect()
}

/// Beside emulated guests, which take a hundred times as long, the bars of the others would be invisible.
#[test]
fn platforms_of_very_different_size_have_axes_of_their_own() {
    let guest =
        |scenario| Made { scenario, hypervisor: "QEMU on TCG", cpu_ns: 2_000_000_000, ..Made::default() };
    let directory = folders(5, &[clean(), guest("VM/2/VNL/CPU"), slow(), guest("VM/1/VNL/CPU")]);
    let (_, page) = report(&directory, &["."]);
    let bars = bars(&page);
    assert_eq!(bars.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    for lengths in &bars {
        let (least, most) = (lengths.iter().min().unwrap(), lengths.iter().max().unwrap());
        assert!(*most > 1_000 && least * 10 > *most, "{bars:?}");
    }
    for name in ["time", "latency"] {
        let section = section(&page, name);
        assert!(section.contains("There are 2 axes, and they differ: the same length is "), "{section}");
        let [natives, guests] =
            [": BM/2/VNL/CPU, CN/2/VNL/CPU</", ": VM/2/VNL/CPU, VM/1/VNL/CPU, emulated</"]
                .map(|title| section.find(title).unwrap());
        assert!(natives < guests);
    }
    let (_, alike) = report(&folders(5, &[clean(), slow()]), &["."]);
    assert!(!alike.contains("class=\"axes\""));
}

/// A phase whose bar would be two pixels long is named instead; where it is longer, it has a bar.
#[test]
fn phases_without_a_visible_bar_are_named() {
    let time = |cpu_ns: u64| {
        let (_, page) = report(&folders(2, &[Made { cpu_ns, ..clean() }]), &["."]);
        section(&page, "time").to_owned()
    };
    let (long, short) = (time(20_000_000), time(5_000_000));
    assert!(long.contains("too short for bars: postprocess.") && !long.contains(">postprocess</figcaption>"));
    assert!(!short.contains("too short for bars") && short.contains(">postprocess</figcaption>"), "{short}");
}

/// With many platforms, the first sentence sums up all verdicts, and a caveat that several share appears
/// once.
#[test]
fn many_answers_begin_with_what_they_come_to() {
    let guest = |scenario| Made { scenario, hypervisor: "QEMU on TCG", ..slow() };
    let same = Made { scenario: "BM/1/VNL/CPU", ..clean() };
    let directory = folders(10, &[clean(), guest("VM/1/VNL/CPU"), same, slow(), guest("VM/2/VNL/CPU")]);
    let (_, page) = report(&directory, &["."]);
    let header = page.split_once("</header>").unwrap().0;
    let first = header.split("<p class=\"answer plain\">").nth(1).unwrap().split("</p>").next().unwrap();
    let expected = "Of 2 platforms against BM/2/VNL/CPU (21.6 ms a mean request): 1 slower, 1 equivalent. Of 2 emulated: 2 slower";
    assert_eq!(first, expected);
    assert_eq!((header.matches("emulated by QEMU (TCG)").count(), header.matches("<li ").count()), (1, 4));
    let place = |text: &str| header.find(text).unwrap();
    let caveat = place("emulated by QEMU (TCG)");
    assert!(
        place("<b>CN/2/VNL/CPU</b> is slower") < caveat && place("<b>BM/1/VNL/CPU</b>") < caveat,
        "{header}"
    );
    assert!(
        caveat < place("<b>VM/1/VNL/CPU</b> is slower") && caveat < place("<b>VM/2/VNL/CPU</b> is slower")
    );
}
