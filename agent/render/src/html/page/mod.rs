//! The page: first the verdict, then the parts of a difference, then the evidence.
//!
//! Yields HTML. Bars and lines have tables with their numbers; the template escapes names that come from
//! programs.

mod circumstances;
mod latency;
mod numbers;
mod parts;
mod requests;
mod sizes;
mod time;
mod verdict;
mod why;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    charts::{self, ChartError},
    report::Report,
};
use crate::untrusted;

/// Content security policy: nothing is fetched and no script runs, even if a name in a folder holds markup.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The page.
#[derive(Debug)]
pub struct Page;

impl Page {
    /// Renders the page of a report.
    ///
    /// # Errors
    /// A chart cannot be drawn.
    pub fn of(report: &Report) -> Result<String, ChartError> {
        let request = &report.compared.comparison.request;
        let sections = [
            ("verdict", "Verdict", Some(verdict::verdict(report))),
            ("time", "Where the time goes", Some(time::time(report)?)),
            ("why", "What the difference is made of", why::why(report)),
            ("latency", "Latency", Some(latency::latency(report)?)),
            ("requests", "Single requests", Some(requests::requests(report)?)),
            ("moves", "From CPU to CPU", requests::moves(report)?),
            ("runs", "What this rests on", Some(circumstances::circumstances(report))),
        ];
        let sections: Vec<(&str, &str, Markup)> =
            sections.into_iter().filter_map(|(id, title, body)| Some((id, title, body?))).collect();
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="generator" content={ "guestscope " (env!("CARGO_PKG_VERSION")) };
                    title { "guestscope: " (request) }
                    style { (PreEscaped(include_str!("style.css"))) (PreEscaped(charts::classes())) }
                }
                body {
                    header { p class="what" { "guestscope report on " code { (request) } } (verdict::headline(report)) }
                    nav aria-label="Sections" { @for (id, title, _) in &sections { a href={ "#" (id) } { (title) } } }
                    main { @for (id, title, body) in &sections { section id=(id) { h2 { (title) } (body) } } }
                    footer { p { "Time of a request is that of its own thread, in accounts that add up to the wall clock to the nanosecond. Intervals are of 95 %, the runs being the sample. guestscope " (env!("CARGO_PKG_VERSION")) "." } }
                }
            }
        };
        // Browsers obey characters that change the writing direction, and the file is read elsewhere, too.
        Ok(untrusted::plain_lines(&page.into_string()).into_owned())
    }
}
