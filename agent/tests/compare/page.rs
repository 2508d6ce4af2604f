//! The page of `guestscope report` in Chromium: on a screen, on a phone, on paper, and by the keyboard alone.

use std::path::PathBuf;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    Made,
    browser::Browser,
    clean, folders, json,
    report::{all, assert_same, report},
    slow,
};

/// Size of an A4 page without Chromium's margins, CSS pixels.
const PAPER: [u32; 2] = [718, 1_045];

/// Twelve platforms, half of them emulated and a hundred times as slow, some with long names without a place
/// for a line break.
fn dozen() -> TempDir {
    const NAMES: [&str; 12] = [
        "machine-1-pinned",
        "machine-2-free",
        "container-1-pinned",
        "container-1-free",
        "podman-in-a-network-namespace-of-its-own-1-pinned",
        "podman-in-a-network-namespace-of-its-own-1-free",
        "vm-1-free",
        "vm-1-pinned",
        "microvm-1-free",
        "microvm-1-pinned",
        "container_in_a_virtual_machine_with_a_name_without_end_1_free",
        "container_in_a_virtual_machine_with_a_name_without_end_1_pinned",
    ];
    let made = |(index, scenario): (usize, &'static str)| {
        let is_guest = index >= 6;
        Made {
            scenario,
            hypervisor: if is_guest { "QEMU on TCG" } else { "" },
            cpu_ns: if is_guest { 2_000_000_000 } else { 20_000_000 },
            waits: if is_guest { 400 } else { 9 },
            requests: 20,
            ..if index % 2 == 0 { clean() } else { slow() }
        }
    };
    let platforms: Vec<Made> = NAMES.into_iter().enumerate().map(made).collect();
    folders(2, &platforms)
}

/// A browser with the report of these folders, if there is a browser.
fn opened(test: &str, directory: &TempDir) -> Option<(Browser, PathBuf)> {
    // The browser lives for a minute, so the report is made first.
    let (file, _) = report(directory, &["."]);
    let mut browser = Browser::start(&format!("page::{test}"))?;
    browser.open(file.display());
    Some((browser, file))
}

fn size(browser: &mut Browser, [width, height]: [u32; 2], is_phone: bool) {
    let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone });
    browser.call("Emulation.setDeviceMetricsOverride", &metrics);
}

/// Asserts that a JavaScript expression gives an empty list, and shows the list otherwise.
#[track_caller]
fn assert_none(browser: &mut Browser, expression: &str) {
    let found = browser.evaluate(expression);
    assert_eq!(found, json!([]), "{expression}");
}

#[test]
fn it_opens_without_a_complaint_and_shows_the_numbers_of_the_json() {
    let directory = folders(10, &[clean(), slow()]);
    let test = "it_opens_without_a_complaint_and_shows_the_numbers_of_the_json";
    let Some((mut browser, file)) = opened(test, &directory) else { return };
    let json = json(directory.path(), &["."]);
    let shown = browser.evaluate(
        "[...document.querySelectorAll('#metrics tbody td:nth-child(6)')].map(cell => +cell.dataset.value)",
    );
    let row = |values: Vec<&Value>| vec![values.into_iter().map(|one| one.as_f64().unwrap()).collect()];
    let ratios = all(&json["platforms"][0]["metrics"]).iter().map(|one| &one["ratio"]["value"]).collect();
    assert_same(&row(all(&shown).iter().collect()), &row(ratios));
    // Charts have their size and colours: bars their causes' colours, hatches the white of their class.
    let bars = browser.evaluate("[...document.querySelectorAll('figure rect')].filter(bar => bar.getAttribute('class').startsWith('fill-cause') && getComputedStyle(bar).fill !== 'rgb(0, 0, 0)' && bar.getBoundingClientRect().width > 0).length");
    assert!(bars.as_u64().unwrap() > 10, "{bars}");
    let strokes = "[...document.querySelectorAll('figure .hatch, .legend .hatch')].map(path => getComputedStyle(path).stroke)";
    assert_none(&mut browser, &format!("{strokes}.filter(stroke => stroke !== 'rgb(255, 255, 255)')"));
    assert!(browser.evaluate(&format!("{strokes}.length")).as_u64().unwrap() > 4);
    browser.assert_quiet(&file);
}

#[test]
fn the_keyboard_opens_what_can_be_opened() {
    let directory = folders(5, &[clean(), slow()]);
    let Some((mut browser, file)) = opened("the_keyboard_opens_what_can_be_opened", &directory) else {
        return;
    };
    let mut opened = false;
    for _ in 0..40 {
        browser.press("Tab", 9, "");
        if browser.evaluate(
            "document.activeElement.tagName === 'SUMMARY' && !document.activeElement.parentElement.open",
        ) == true
        {
            browser.press("Enter", 13, "\r");
            opened = browser.evaluate("document.activeElement.parentElement.open") == true;
            break;
        }
    }
    assert!(opened, "no part of the page can be opened by the keyboard");
    // The focus is visible.
    assert_eq!(browser.evaluate("getComputedStyle(document.activeElement).outlineStyle"), "solid");
    browser.assert_quiet(&file);
}

/// Neither at first nor with all sections open; charts and tables may scroll sideways by themselves.
#[test]
fn a_phone_shows_it_without_being_pushed_sideways() {
    let test = "a_phone_shows_it_without_being_pushed_sideways";
    let Some((mut browser, file)) = opened(test, &dozen()) else { return };
    size(&mut browser, [360, 740], true);
    for _ in 0..2 {
        let widths = browser.evaluate("[document.documentElement.scrollWidth, visualViewport.width]");
        assert_eq!(widths, json!([360, 360]));
        // Nothing is wider than the screen unless it has a scroller of its own.
        assert_none(
            &mut browser,
            "[...document.querySelectorAll('body *')].filter(one => !one.closest('.wide, figure') && one.checkVisibility() && one.getBoundingClientRect().right > 360.5).map(one => one.outerHTML.slice(0, 200))",
        );
        browser.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })");
    }
    // Names and times of bars are visible without scrolling, wherever the bars end.
    let edge = "Math.max(...[...document.querySelectorAll('#time figure text[text-anchor=end]')].map(text => text.getBoundingClientRect().right))";
    let edge = browser.evaluate(edge).as_f64().unwrap();
    assert!(edge > 100.0 && edge < 360.0, "{edge}");
    browser.assert_quiet(&file);
}

/// Everything that the screen shows except the list of sections, complete and in dark ink, whatever the
/// reader's colour scheme is.
#[test]
fn paper_has_all_that_the_screen_shows() {
    let Some((mut browser, file)) = opened("paper_has_all_that_the_screen_shows", &dozen()) else { return };
    size(&mut browser, [1_280, 900], false);
    browser.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })");
    let seen = browser.evaluate("window.seen = [...document.querySelectorAll('body *')].filter(one => one.checkVisibility()), seen.length");
    assert!(seen.as_u64().unwrap() > 1_000, "{seen}");
    let dark = json!([{ "name": "prefers-color-scheme", "value": "dark" }]);
    browser.call("Emulation.setEmulatedMedia", &json!({ "media": "", "features": dark }));
    assert_ne!(browser.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)");
    browser.call("Emulation.setEmulatedMedia", &json!({ "media": "print", "features": dark }));
    size(&mut browser, PAPER, false);
    assert_none(
        &mut browser,
        "seen.filter(one => !one.checkVisibility() && !one.closest('nav')).map(one => one.outerHTML.slice(0, 200))",
    );
    assert_none(
        &mut browser,
        &format!(
            "seen.filter(one => one.checkVisibility() && one.getBoundingClientRect().right > {} + 0.5).map(one => one.outerHTML.slice(0, 200))",
            PAPER[0]
        ),
    );
    // What scrolls on a screen would be cut off on paper, as would a chart longer than a page.
    assert_none(
        &mut browser,
        "seen.filter(one => one.checkVisibility() && !(one instanceof SVGElement) && getComputedStyle(one).overflowX !== 'visible').map(one => one.outerHTML.slice(0, 200))",
    );
    assert_none(
        &mut browser,
        &format!(
            "[...document.querySelectorAll('figure')].map(one => one.getBoundingClientRect().height).filter(height => height === 0 || height > {})",
            PAPER[1]
        ),
    );
    // White paper, although printers omit backgrounds, and text with enough contrast on it.
    assert_none(
        &mut browser,
        "seen.filter(one => one.checkVisibility()).flatMap(one => { const style = getComputedStyle(one); return [style.backgroundColor, one.tagName === 'text' ? style.fill : style.color].map((color, index) => [color, index]) }).filter(([color, is_ink]) => { const [red, green, blue, alpha = 1] = color.match(/[0-9.]+/g).map(Number); const light = (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255; return is_ink ? light > 0.45 : alpha > 0 && light < 1 })",
    );
    browser.assert_quiet(&file);
}

/// Chromium prints fills by patterns as pictures, thousands of them: a report of 12 platforms became a PDF of
/// 196 MB.
#[test]
fn charts_are_printed_as_lines_and_not_as_pictures() {
    let test = "charts_are_printed_as_lines_and_not_as_pictures";
    let Some((mut browser, file)) = opened(test, &dozen()) else { return };
    let printed = browser.call("Page.printToPDF", &json!({ "paperWidth": 8.27, "paperHeight": 11.69 }));
    let pdf = STANDARD.decode(printed["data"].as_str().unwrap()).unwrap();
    let count = |what: &[u8]| pdf.windows(what.len()).filter(|window| window == &what).count();
    assert!(pdf.starts_with(b"%PDF") && count(b"/Type /Page\n") > 5, "{} pages", count(b"/Type /Page\n"));
    assert_eq!(count(b"/Subtype /Image"), 0);
    browser.assert_quiet(&file);
}

#[test]
fn no_text_of_a_chart_lies_over_another_or_is_cut_off() {
    let test = "no_text_of_a_chart_lies_over_another_or_is_cut_off";
    let Some((mut browser, file)) = opened(test, &dozen()) else { return };
    size(&mut browser, [1_280, 900], false);
    browser.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })");
    browser.evaluate(
        "window.charts = [...document.querySelectorAll('figure svg')].map(chart => ({
            frame: chart.getBoundingClientRect(),
            texts: [...chart.querySelectorAll('text')].map(text => ({ name: text.textContent.trim(), box: text.getBoundingClientRect() })).filter(text => text.name),
        })), charts.length",
    );
    let texts = browser.evaluate("charts.reduce((sum, chart) => sum + chart.texts.length, 0)");
    assert!(texts.as_u64().unwrap() > 300, "{texts}");
    assert_none(
        &mut browser,
        "charts.flatMap(({ frame, texts }) => texts.filter(({ box }) => box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)).map(text => text.name)",
    );
    assert_none(
        &mut browser,
        "charts.flatMap(({ texts }) => texts.flatMap((a, index) => texts.slice(index + 1).filter(b => Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left) > 1 && Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top) > 1).map(b => [a.name, b.name])))",
    );
    browser.assert_quiet(&file);
}
