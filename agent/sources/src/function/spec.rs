//! Arguments of `--phase`: a function or two USDT probes of a library, under a name; or a preset of several.
//!
//! It looks at no file.

use guestscope_contract::NAME_BYTES;

use super::{
    presets,
    wanted::{Wanted, wanted},
};

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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{super::wanted::What, *};

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
