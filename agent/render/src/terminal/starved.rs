//! What keeps a graphics processor waiting: a sentence with the two numbers that show it, and advice.

use serde::Serialize;

use super::{
    findings::path_name,
    health_lines,
    page::{Emphasis, Page},
    units::percent,
};
use crate::analyze::{Group, Starved, Starver, advice, starved};

/// The same in JSON.
#[derive(Serialize)]
pub(super) struct StarvedJson {
    /// `launch` or `input`.
    by: &'static str,
    busy_percent: u64,
    share: f64,
    text: String,
    advice: Option<String>,
}

/// The sentence, if the device waits; returns what it says. `serving_percent`: how busy it was while
/// requests ran.
pub(super) fn line(page: &mut Page, group: &Group, serving_percent: Option<u64>) -> Option<Starved> {
    let found = starved(group, serving_percent)?;
    let unicode = page.style().unicode;
    page.sentence(&sentence(&found, unicode), Emphasis::Warning);
    Some(found)
}

/// The same with advice.
pub(super) fn line_and_advice(page: &mut Page, group: &Group, serving_percent: Option<u64>) {
    let found = line(page, group, serving_percent);
    if let Some(advice) = found.and_then(|found| advice::for_cause(key(&found))) {
        health_lines::advice(page, "advice", &advice.text, &advice.source);
    }
}

/// See [`StarvedJson`].
pub(super) fn json(group: &Group, serving_percent: Option<u64>) -> Option<StarvedJson> {
    let found = starved(group, serving_percent)?;
    let by = match found.by {
        Starver::Launch => "launch",
        Starver::Input(_) => "input",
    };
    let Starved { busy_percent, share, .. } = found;
    let advice = advice::for_cause(key(&found)).map(|advice| advice.text);
    Some(StarvedJson { by, busy_percent, share, text: sentence(&found, true), advice })
}

const fn key(found: &Starved) -> &'static str {
    match found.by {
        Starver::Launch => advice::LAUNCH,
        Starver::Input(_) => advice::INPUT,
    }
}

fn sentence(found: &Starved, unicode: bool) -> String {
    let (busy, share) = (found.busy_percent, percent(found.share));
    let idle = format!("the GPU was busy for {busy} % of the time in which requests ran");
    match &found.by {
        Starver::Launch => {
            format!(
                "launch-bound: {idle}, and these computed or launched, without waiting for it, for {share} of \
                 theirs"
            )
        }
        Starver::Input(path) => {
            format!(
                "input-bound: {idle}, and these waited in {} for {share} of theirs",
                path_name(path, unicode)
            )
        }
    }
}
