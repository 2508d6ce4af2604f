//! For benchmarks: `made_folders DIR RUNS REQUESTS WAITS` makes run folders, every second one of a slower
//! platform, with WAITS long waits in each request; `made_folders --open PAGE` opens a report in a browser
//! and prints the times that this took as JSON.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what measures may stop at once, and says what it measured"
)]

#[expect(dead_code, reason = "tests do more with a browser")]
mod browser;
mod made;

use browser::Browser;
use made::Made;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--open", page] => open(page),
        [directory, numbers @ ..] if numbers.len() == 3 => {
            let number = |at: usize| numbers[at].parse().expect("a number");
            make(directory, number(0), number(1), number(2));
        }
        _ => panic!("made_folders DIR RUNS REQUESTS WAITS, or --open PAGE"),
    }
}

fn make(directory: &str, runs: u64, requests: u64, waits: u64) {
    for turn in 0..runs {
        let slow = turn % 2 == 1;
        let made = Made {
            scenario: if slow { "CN/2/VNL/CPU" } else { "BM/2/VNL/CPU" },
            runq_ns: if slow { 900_000 } else { 0 },
            throttled_ns: if slow { 23_000_000 } else { 0 },
            requests,
            waits,
            ..Made::default()
        };
        made.write(directory.as_ref(), turn);
    }
}

/// Opens a report where its charts begin. Times in ms after the start of navigation: first paint, the whole
/// page loaded, and the first charts on the screen.
const OPENED: &str = "(async () => {
    const frame = () => new Promise(requestAnimationFrame);
    const paint = () => performance.getEntriesByName('first-contentful-paint')[0];
    await frame();
    // The start of the next frame means that this one has been drawn.
    await frame();
    const charts_ms = performance.now();
    while (!paint()) await frame();
    const { top, bottom } = document.querySelector('#time figure svg').getBoundingClientRect();
    const load_ms = performance.getEntriesByType('navigation')[0].loadEventEnd;
    return { first_paint_ms: paint().startTime, load_ms, charts_ms, is_seen: top < innerHeight && bottom > 0 };
})()";

fn open(page: &str) {
    let page = std::path::absolute(page).unwrap();
    let mut browser = Browser::start("opening").expect("there is a browser");
    browser.open(format_args!("{}#time", page.display()));
    let opened = browser.evaluate(OPENED);
    assert_eq!(opened["is_seen"], true, "no chart is on the screen: {opened}");
    println!("{opened}");
}
