//! `guestscope report`: run folders as one page that needs nothing but a browser.
//!
//! Gathers what `compare` gathers and looks at single requests; [`html`](crate::sinks::html) draws the page.
//! Changes nothing in the folders.

mod arguments;
mod moments;

pub use arguments::ReportArguments;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    sync::Arc,
};

use guestscope_base::Hint;

use crate::out;
use crate::untrusted::Shown as _;
use crate::{
    analyze::compare::{Platform, Quantile, breakdowns},
    child,
    compare::{CompareError, Member, Refusal, gather},
    folder::limits::REPORT_BYTES,
    sinks::{
        html::{self, ChartError, Page, Report, View},
        terminal::{Sentences, units::bytes},
    },
};

/// Why there is no report. `Display` gives `what: value`.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file cannot be made; one that is there already is not written over.
    #[error("cannot create the file: {}: {source}", path.shown())]
    Create {
        /// Path as given.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The report could not be written.
    #[error("cannot write the report: {0}")]
    Write(#[from] io::Error),
    /// A page is not text for a terminal.
    #[error("a page is not for a terminal: {0}")]
    Terminal(&'static str),
    /// The page is too large for a browser.
    #[error("the page is too large: {0} bytes, at most {most}", most = REPORT_BYTES.most)]
    TooLarge(usize),
    /// A chart could not be drawn.
    #[error(transparent)]
    Chart(#[from] ChartError),
    /// Nothing was gathered.
    #[error(transparent)]
    Gather(#[from] CompareError),
}

impl Hint for ReportError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            ReportError::Create { .. } => "name a file that is not there yet: --output FILE",
            ReportError::Terminal(_) => "name a file to write to: --output report.html",
            ReportError::TooLarge(_) => {
                "name fewer runs or platforms, or compare them in text: guestscope compare"
            }
            ReportError::Write(_) => "free space on that file system, or write elsewhere: --output FILE",
            ReportError::Gather(error) => return error.hint(),
            ReportError::Chart(_) => "this is a mistake of guestscope: please report it with the folders",
        };
        Some(hint.to_owned())
    }
}

/// Writes the report. Exit code 0, or an error.
///
/// # Errors
/// Nothing can be read or compared, or the page cannot be written.
pub fn run(arguments: &ReportArguments) -> Result<i32, ReportError> {
    if arguments.output.is_none() && out::is_terminal() {
        return Err(ReportError::Terminal("html"));
    }
    let text = Page::of(&report(arguments)?)?;
    if text.len() as u64 > REPORT_BYTES.most {
        return Err(ReportError::TooLarge(text.len()));
    }
    match &arguments.output {
        Some(path) => {
            let made = child::create_file(path);
            let mut file = made.map_err(|source| ReportError::Create { path: path.clone(), source })?;
            file.write_all(text.as_bytes())?;
            out::say(&format!("{}: {}\n", path.shown(), bytes(text.len() as u64)));
        }
        None => out::answer(&text)?,
    }
    Ok(0)
}

fn report(arguments: &ReportArguments) -> Result<Report, ReportError> {
    if arguments.choice.jaeger.is_some() {
        return Err(CompareError::from(Refusal::TracesInReport).into());
    }
    let mut gathered = gather(&arguments.choice, 1, false)?;
    let members = std::mem::take(&mut gathered.members);
    let platforms: Vec<&Platform> = std::iter::once(&gathered.baseline).chain(&gathered.platforms).collect();
    let sides: Vec<(&Platform, &[Member])> =
        platforms.iter().zip(&members).map(|(platform, members)| (*platform, members.as_slice())).collect();
    let looked = moments::look(&sides, gathered.is_process);
    let broken_down = breakdowns(&platforms, gathered.declared.fold.is_some());
    let quantiles: Vec<Vec<Quantile>> = platforms.iter().map(|platform| platform.quantiles()).collect();
    let views = broken_down.into_iter().zip(quantiles).zip(members).zip(looked);
    let views = views
        .map(|(((breakdown, quantiles), members), looked)| View {
            breakdown,
            quantiles,
            members: members.iter().map(shown).collect(),
            looked,
        })
        .collect();
    let compared = gathered.compare();
    let sentences = Sentences::of(&compared);
    Ok(Report { views, compared, sentences, jaeger: arguments.jaeger_ui.clone() })
}

fn shown(member: &Member) -> html::Member {
    html::Member { name: member.name(), manifest: Arc::clone(&member.manifest) }
}
