//! Results of each source of a run.

use std::path::Path;

use guestscope_contract::SOURCES;

use super::{Inherited, Kind, Report, Wishes, selected::Selected};
use crate::{
    phase::{Made, Sources},
    untrusted::Untrusted,
};

/// Sources that a program started in this environment could have.
pub fn possible(inherited: Inherited<'_>) -> Vec<Report> {
    let mut selected = Selected::for_program(&Wishes::default());
    selected.environment(Path::new("/"), inherited);
    report(&selected, &Sources::default())
}

/// Reports on each source that was on, was left out, or yielded something all the same.
pub fn report(selected: &Selected, sources: &Sources) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::with_capacity(SOURCES);
    for kind in Kind::ALL {
        let off = selected.off.iter().find(|(off, _)| *off == kind).map(|(_, why)| why.clone());
        let is_on = selected.on.iter().any(|source| source.kind() == kind);
        let made = sources.made(kind);
        let told = |sign: char| {
            let own = sources.told.iter().filter(|told| told.source == kind);
            own.filter_map(|told| told.text.stored().strip_prefix(sign)).map(Untrusted::from).collect()
        };
        let (found, missed): (Vec<Untrusted>, Vec<Untrusted>) = (told('+'), told('!'));
        let has_come = made != Made::default() || !found.is_empty() || !missed.is_empty();
        if is_on || off.is_some() || has_come {
            reports.push(Report { kind, off: off.filter(|_| !has_come), made, found, missed });
        }
    }
    reports
}
