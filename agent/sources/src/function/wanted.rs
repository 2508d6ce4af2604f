//! A phase that was asked for, as it is written after the name.

use super::table::Way;

/// Most arguments in registers: those of Go. C has fewer.
pub(super) const ARGUMENTS: u8 = 9;

/// A phase that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Name of the phase.
    pub(crate) name: String,
    /// Path or file name of the library.
    pub(crate) library: String,
    /// Part of the library that is the phase.
    pub(crate) what: What,
    /// Argument that holds the request's number, 1 for the first.
    pub(crate) argument: Option<u8>,
    /// Whether a preset names it: a library need not have it.
    pub(crate) is_preset: bool,
}

/// Part of a library that is a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Functions of this name; `*` is any text.
    Function(String),
    /// The time from one USDT probe to another.
    Probes {
        /// Provider of the probes.
        provider: String,
        /// Probe at which the phase begins, or the common part of both names.
        begin: String,
        /// Probe at which it ends; none: the counterpart of the first.
        end: Option<String>,
    },
}

/// Parses `LIB:SYMBOL[:argN]` or `usdt:LIB:PROVIDER:PROBE[:argN]`.
pub(super) fn wanted(name: &str, place: &str) -> Result<Wanted, String> {
    const FORMS: &str = "must be NAME=LIB:SYMBOL[:argN] or NAME=usdt:LIB:PROVIDER:PROBE[:argN]";
    let (place, argument) = argument(place)?;
    let (library, what) = if let Some(place) = place.strip_prefix("usdt:") {
        let mut parts = place.splitn(3, ':');
        let (Some(library), Some(provider), Some(probe)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(FORMS.to_owned());
        };
        let (begin, end) = match probe.split_once('/') {
            Some((begin, end)) => (begin, Some(end.to_owned())),
            None => (probe, None),
        };
        if provider.is_empty() || begin.is_empty() || end.as_deref() == Some("") {
            return Err(FORMS.to_owned());
        }
        let (provider, begin) = (provider.to_owned(), begin.to_owned());
        (library, What::Probes { provider, begin, end })
    } else {
        let (library, symbol) = place.split_once(':').ok_or_else(|| FORMS.to_owned())?;
        if symbol.is_empty() || symbol.chars().all(|letter| letter == '*') {
            return Err("SYMBOL must be the name of a function, or part of one with *".to_owned());
        }
        if symbol.contains("()[") && Way::parse(symbol).is_none() {
            return Err(
                "SYMBOL must be FUNCTION()[N], perhaps with more ()[N], for entry N of a table".to_owned()
            );
        }
        (library, What::Function(symbol.to_owned()))
    };
    if library.is_empty() || library.contains('\0') {
        return Err("LIB must be a path, or the name of a file that the program has mapped".to_owned());
    }
    Ok(Wanted { name: name.to_owned(), library: library.to_owned(), what, argument, is_preset: false })
}

/// Takes `:argN` off the end.
pub(super) fn argument(place: &str) -> Result<(&str, Option<u8>), String> {
    let Some((before, number)) = place.rsplit_once(":arg") else { return Ok((place, None)) };
    if before.ends_with(':') || number.is_empty() || !number.bytes().all(|digit| digit.is_ascii_digit()) {
        return Ok((place, None));
    }
    match number.parse() {
        Ok(number @ 1..=ARGUMENTS) => Ok((before, Some(number))),
        _ => Err(format!("argN must be one of arg1 to arg{ARGUMENTS}: later arguments are not in registers")),
    }
}
