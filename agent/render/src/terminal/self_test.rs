//! Results of self-tests, one line per platform.

use crate::analyze::compare::{ENOUGH_RUNS, SelfTest};

use super::{
    page::{Emphasis, Page},
    style::Style,
    units::{percent, thousands},
};

/// One line per platform.
pub fn render_self_test(tests: &[SelfTest], style: Style) -> String {
    let mut page = Page::new(style);
    for test in tests {
        let label = page.name(&test.label, 40);
        if test.splits == 0 {
            let text = format!("{label}: {} runs, too few for two halves of {ENOUGH_RUNS}", test.runs);
            page.sentence(&text, Emphasis::Warning);
            continue;
        }
        let share = |count: u32| percent(f64::from(count) / f64::from(test.splits));
        let (word, emphasis) = if test.passes() == Some(true) {
            ("passed", Emphasis::Strong)
        } else {
            ("FAILED", Emphasis::Bad)
        };
        let text = format!(
            "{label}: {word}: halves of its {} runs called different in {} of {} ways to deal them (about 5 % is what chance may do), \
             alike in {}",
            test.runs,
            share(test.different),
            thousands(test.splits.into()),
            share(test.alike),
        );
        page.sentence(&text, emphasis);
    }
    let metrics = |test: &SelfTest| {
        let all: Vec<String> =
            test.metrics.iter().map(|(metric, margin)| format!("{metric} ({})", percent(*margin))).collect();
        all.join(", ")
    };
    // Platforms with fewer requests are judged by fewer metrics.
    for (index, test) in tests.iter().enumerate() {
        let by = metrics(test);
        let like = |other: &&SelfTest| metrics(other) == by;
        if tests[..index].iter().any(|other| like(&other)) {
            continue;
        }
        let of: Vec<String> = tests.iter().filter(like).map(|test| page.name(&test.label, 40)).collect();
        let whose = if of.len() == tests.len() { String::new() } else { format!("{}: ", of.join(", ")) };
        page.sentence(&format!("{whose}by {by}"), Emphasis::None);
    }
    page.finish()
}
