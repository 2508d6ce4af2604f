//! What came of each source of a run.

use std::path::Path;

use guestscope_ebpf::SOURCES;

use super::{Inherited, Kind, Selected, Wishes};
use crate::{
    phase::{Made, Sources},
    untrusted::Untrusted,
};

/// Whether a source was on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It could make phases.
    On,
    /// It could not, and why.
    Off(String),
}

/// A source, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which.
    pub kind: Kind,
    /// Whether it was on.
    pub state: State,
    /// Its requests and phases.
    pub made: Made,
    /// What it said that it found.
    pub found: Vec<Untrusted>,
    /// What it said that it could not do, and why.
    pub missed: Vec<Untrusted>,
}

/// What a program that would be started in this environment could have.
pub fn possible(inherited: Inherited<'_>) -> Vec<Report> {
    let mut selected = Selected::for_program(&Wishes::default());
    selected.environment(Path::new("/"), inherited);
    report(&selected, &Sources::default())
}

/// One for each source that was on, that was left out, or of which something came all the same.
pub fn report(selected: &Selected, sources: &Sources) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::with_capacity(SOURCES);
    for kind in Kind::ALL {
        let off = selected.off.iter().find(|(off, _)| *off == kind).map(|(_, why)| why.clone());
        let is_on = selected.on.iter().any(|source| source.kind() == kind);
        let made = sources.made(kind);
        let told = |sign: u8| {
            let of_kind = sources.told.iter().filter(move |told| told.source == kind);
            let with_sign = move |text: &Untrusted| {
                let rest = text.stored().strip_prefix(char::from(sign));
                rest.map(|rest| Untrusted::from(rest.to_owned()))
            };
            of_kind.filter_map(move |told| with_sign(&told.text)).collect::<Vec<_>>()
        };
        let (found, missed) = (told(b'+'), told(b'!'));
        let has_come = made != Made::default() || !found.is_empty() || !missed.is_empty();
        if is_on || off.is_some() || has_come {
            let state = off.filter(|_| !has_come).map_or(State::On, State::Off);
            reports.push(Report { kind, state, made, found, missed });
        }
    }
    reports
}
