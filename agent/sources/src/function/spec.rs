//! Arguments of `--phase`: a function or two USDT probes of a library, under a name; or a preset of several.
//!
//! It looks at no file.

use guestscope_contract::NAME_BYTES;

use super::{presets, table::Way};

/// Most arguments in registers: those of Go. C has fewer.
const ARGUMENTS: u8 = 9;

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

/// One `--phase`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked(pub(crate) Vec<Wanted>);

/// Parses the argument.
///
/// # Errors
/// What is wrong with it, for people.
pub fn parse(text: &str) -> Result<Asked, String> {
    let Some((name, place)) = text.split_once('=') else {
        return presets::named(text).map(Asked);
    };
    if name.is_empty() || name.len() > NAME_BYTES {
        return Err(format!("the phase's name must have 1 to {NAME_BYTES} bytes"));
    }
    wanted(name, place).map(|wanted| Asked(vec![wanted]))
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
fn argument(place: &str) -> Result<(&str, Option<u8>), String> {
    let Some((before, number)) = place.rsplit_once(":arg") else { return Ok((place, None)) };
    if before.ends_with(':') || number.is_empty() || !number.bytes().all(|digit| digit.is_ascii_digit()) {
        return Ok((place, None));
    }
    match number.parse() {
        Ok(number @ 1..=ARGUMENTS) => Ok((before, Some(number))),
        _ => Err(format!("argN must be one of arg1 to arg{ARGUMENTS}: later arguments are not in registers")),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn function(symbol: &str) -> What {
        What::Function(symbol.to_owned())
    }

    fn probes(begin: &str, end: Option<&str>) -> What {
        What::Probes { provider: "python".to_owned(), begin: begin.to_owned(), end: end.map(str::to_owned) }
    }

    #[rstest]
    #[case("a=libx.so:run", "libx.so", function("run"), None)]
    #[case("a=/opt/x/libx.so:run:arg2", "/opt/x/libx.so", function("run"), Some(2))]
    #[case("a=libx.so:ns::Type::run", "libx.so", function("ns::Type::run"), None)]
    #[case("a=libx.so:ns::Type::run:arg3", "libx.so", function("ns::Type::run"), Some(3))]
    #[case("a=libx.so:ns::arg3", "libx.so", function("ns::arg3"), None)]
    #[case("a=libx.so:get()[0]()[9]:arg1", "libx.so", function("get()[0]()[9]"), Some(1))]
    #[case("a=libx.so:*::operator=", "libx.so", function("*::operator="), None)]
    #[case("a=serve:net/http.(*conn).serve", "serve", function("net/http.(*conn).serve"), None)]
    #[case("a=usdt:python3:python:gc", "python3", probes("gc", None), None)]
    #[case(
        "a=usdt:python3:python:gc__start/gc__done:arg1",
        "python3",
        probes("gc__start", Some("gc__done")),
        Some(1)
    )]
    fn what_is_asked_for(
        #[case] text: &str,
        #[case] library: &str,
        #[case] what: What,
        #[case] argument: Option<u8>,
    ) {
        let expected =
            Wanted { name: "a".to_owned(), library: library.to_owned(), what, argument, is_preset: false };
        assert_eq!(parse(text), Ok(Asked(vec![expected])));
    }

    #[rstest]
    #[case::no_name("=libx.so:run")]
    #[case::no_symbol("a=libx.so")]
    #[case::empty_symbol("a=libx.so:")]
    #[case::all_of_it("a=libx.so:*")]
    #[case::no_entry("a=libx.so:get()[]")]
    #[case::half_an_entry("a=libx.so:get()[0]()")]
    #[case::signed_entry("a=libx.so:get()[+1]")]
    #[case::far_entry("a=libx.so:get()[4096]")]
    #[case::far_away("a=libx.so:get()[0]()[0]()[0]()[0]()[0]")]
    #[case::no_library("a=:run")]
    #[case::argument_on_the_stack("a=libx.so:run:arg10")]
    #[case::no_argument("a=libx.so:run:arg0")]
    #[case::no_probe("a=usdt:libx.so:provider")]
    #[case::no_end("a=usdt:libx.so:provider:begin/")]
    #[case::unknown_preset("nonsense")]
    fn what_cannot_be_asked_for(#[case] text: &str) {
        assert!(parse(text).is_err());
        assert!(parse(&format!("{}=x:y", "n".repeat(65))).is_err());
    }

    #[test]
    fn an_unknown_preset_names_those_that_there_are() {
        let error = parse("nonsense").unwrap_err();
        assert!(error.contains("llama.cpp") && error.contains("onnxruntime"), "{error}");
    }
}
