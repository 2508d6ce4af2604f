//! The sources of a run, and what each may do.

use std::path::Path;

use guestscope_model::sources::Kind;

use super::{
    itt, marker, nvtx, otel, python,
    source::{Inherited, Source, Unpacked, Variable, Wishes},
};

/// Sources that can be switched on for a program that is started.
pub const SWITCHED: [Kind; 4] = [Kind::Python, Kind::Otel, Kind::Nvtx, Kind::Itt];

/// The source that is on only if asked for: it shows the inside of libraries, hundreds of phases per request.
const ASKED_FOR: Kind = Kind::Itt;

/// The sources of a run, and what each may do.
#[derive(Debug, Default)]
pub struct Selected {
    is_started: bool,
    pub(super) on: Vec<Box<dyn Source>>,
    pub(super) off: Vec<(Kind, String)>,
}

impl Selected {
    /// Sources for a program that is started.
    pub fn for_program(wishes: &Wishes) -> Self {
        let mut selected = Self { is_started: true, on: vec![Box::new(marker::Marker)], off: Vec::new() };
        for kind in SWITCHED {
            let wish = wishes.sources.as_ref().map(|all| all.iter().find(|wish| wish.kind == kind));
            let is_wanted = wish.map_or(kind != ASKED_FOR, |wish| wish.is_some());
            if !is_wanted {
                selected.off.push((kind, "not asked for".to_owned()));
                continue;
            }
            selected.on.extend(switched(kind, wishes));
        }
        selected
    }

    /// Sources for running programs: no files can be put beside them.
    pub fn for_attached() -> Self {
        let why = "only under `guestscope run`".to_owned();
        let off = SWITCHED.into_iter().map(|kind| (kind, why.clone())).collect();
        Self { is_started: false, on: vec![Box::new(marker::Marker)], off }
    }

    /// Whether a program was started with them.
    pub fn is_for_a_program(&self) -> bool {
        self.is_started
    }

    /// Sources that are on.
    pub fn on(&self) -> impl Iterator<Item = Kind> + '_ {
        self.on.iter().map(|source| source.kind())
    }

    /// All files to unpack.
    ///
    /// # Errors
    /// The agent's binary is damaged.
    pub fn files(&self) -> std::io::Result<Vec<Unpacked>> {
        let mut files: Vec<Unpacked> = Vec::new();
        for source in &self.on {
            for file in source.files()? {
                // Two sources may share a file.
                if files.iter().all(|other| other.path != file.path) {
                    files.push(file);
                }
            }
        }
        Ok(files)
    }

    /// Variables of the sources that can be on. The others are off from now on.
    pub fn environment(&mut self, folder: &Path, inherited: Inherited<'_>) -> Vec<Variable> {
        let mut variables = Vec::new();
        let off = &mut self.off;
        self.on.retain(|source| match source.environment(folder, inherited) {
            Ok(own) => {
                variables.extend(own);
                true
            }
            Err(why) => {
                off.push((source.kind(), why));
                false
            }
        });
        variables
    }
}

/// The source of this kind, if it can be switched on.
fn switched(kind: Kind, wishes: &Wishes) -> Option<Box<dyn Source>> {
    match kind {
        Kind::Python => Some(Box::new(python::Python::new(wishes))),
        Kind::Otel => Some(Box::new(otel::Otel)),
        Kind::Nvtx => Some(Box::new(nvtx::Nvtx)),
        Kind::Itt => Some(Box::new(itt::Itt::new(wishes))),
        Kind::Marker | Kind::Function | Kind::Usdt | Kind::Socket => None,
    }
}
