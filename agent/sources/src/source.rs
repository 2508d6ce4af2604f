//! What a source is to a program that is started: files beside it, and variables of its environment.

use std::{borrow::Cow, ffi::OsString, path::Path};

use guestscope_model::sources::Kind;

/// A file for the observed program to load, unpacked into a folder that other users cannot list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Path below that folder.
    pub path: Cow<'static, str>,
    /// Content.
    pub bytes: Cow<'static, [u8]>,
    /// Whether it is code that a loader maps.
    pub is_library: bool,
}

/// A variable of a program's environment.
pub type Variable = (&'static str, OsString);

/// The program's environment without the agent.
pub type Inherited<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// A source, as far as it concerns a program that is started.
pub trait Source: std::fmt::Debug + Send {
    /// Kind of the source.
    fn kind(&self) -> Kind;

    /// Files that the program must find.
    ///
    /// # Errors
    /// The agent's binary is damaged.
    fn files(&self) -> std::io::Result<Vec<Unpacked>>;

    /// The variables that make the program load them from `folder`.
    ///
    /// # Errors
    /// Why the source has to be left out, for people: another tool holds a variable.
    fn environment(&self, folder: &Path, inherited: Inherited<'_>) -> Result<Vec<Variable>, String>;
}

/// The user's choice of sources for a program that is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Sources beside the marker, each perhaps with a detail after a colon; none: all.
    pub sources: Option<Vec<Wish>>,
    /// Functions of the program that are phases, `module:function`.
    pub marked: Vec<String>,
    /// Whether requests are named by the templates of their routes.
    pub routes: bool,
}

impl Default for Wishes {
    fn default() -> Self {
        Self { sources: None, marked: Vec::new(), routes: true }
    }
}

/// A source on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Kind of the source.
    pub kind: Kind,
    /// Detail after the colon.
    pub detail: Option<String>,
}
