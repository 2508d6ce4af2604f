//! Names of functions: mangled and demangled, by pattern, and similar ones to one that does not exist.
//!
//! Names come from files that anybody may have made: they are read up to [`MOST`], and demangled within that.

use cpp_demangle::{DemangleOptions, ParseOptions};
use guestscope_base::{bounded::Bounded, wildcard::matches};

/// Maximum length of a name, bytes. C++ has longer ones, for types that no one would type.
pub(super) const MOST: usize = 2_048;
/// Most nested types of a C++ name.
const NESTED: u32 = 64;

/// A demangled name: C++ without its parameters, Rust without its hash. None for a name that is so already.
pub(super) fn demangled(name: &str) -> Option<String> {
    if name.len() > MOST {
        return None;
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return Some(format!("{rust:#}"));
    }
    if !name.starts_with("_Z") {
        return None;
    }
    let parse = ParseOptions::default().recursion_limit(NESTED);
    let symbol = cpp_demangle::Symbol::new_with_options(name, &parse).ok()?;
    let options = DemangleOptions::default().no_params().no_return_type().recursion_limit(NESTED);
    let mut readable = Bounded::new(MOST);
    symbol.structured_demangle(&mut readable, &options).ok()?;
    Some(readable.into_text())
}

/// A pattern for functions' names; `*` is any text.
#[derive(Debug)]
pub(super) struct Pattern<'a> {
    text: &'a str,
    /// A word that a matching name contains in any form: a name without it need not be demangled.
    word: &'a str,
}

impl<'a> Pattern<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        // Namespaces of the standard library are abbreviated; the last word hardly ever is.
        let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let word = words.filter(|word| !["std", "operator", "anonymous", "namespace"].contains(word));
        Self { text, word: word.max_by_key(|word| word.len()).unwrap_or_default() }
    }

    /// The name to show of a matching function.
    pub(super) fn shown(&self, name: &str) -> Option<String> {
        // The cold part of a function, which is jumped to.
        let is_part = name.contains(".cold");
        if is_part || name.len() > MOST || !name.contains(self.word) {
            return None;
        }
        if name == self.text || matches(self.text, name) {
            return Some(name.to_owned());
        }
        let readable = demangled(name)?;
        (readable == self.text || matches(self.text, &readable)).then_some(readable)
    }

    /// Similarity of a name, 1 for the same.
    pub(super) fn nearness(&self, name: &str) -> f64 {
        const ENOUGH: usize = 128;
        if name.len() > ENOUGH {
            return 0.0;
        }
        strsim::jaro_winkler(self.text, name).max(strsim::normalized_damerau_levenshtein(self.text, name))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::cpp(
        "_ZN11onnxruntime16InferenceSession3RunERKNS_10RunOptionsE",
        Some("onnxruntime::InferenceSession::Run")
    )]
    #[case::cpp_template("_ZN2ns3runIiEEvT_", Some("ns::run<int>"))]
    #[case::rust("_ZN4core3fmt5write17h0123456789abcdefE", Some("core::fmt::write"))]
    #[case::rust_v0("_RNvCs4fqI2P2rA04_7mycrate3foo", Some("mycrate::foo"))]
    #[case::plain("llama_decode", None)]
    #[case::damaged("_ZN99999999999999x", None)]
    fn names_are_read(#[case] name: &str, #[case] readable: Option<&str>) {
        assert_eq!(demangled(name).as_deref(), readable);
    }

    #[rstest]
    #[case("llama_decode", "llama_decode", true)]
    #[case("llama_*", "llama_decode", true)]
    #[case("llama_decode", "llama_decode_extra", false)]
    #[case("ns::*::run", "_ZN2ns1T3runEv", true)]
    #[case("ns::T::run", "_ZN2ns1T3runEv", true)]
    #[case("ns::T::run", "_ZN2ns1T3runEi", true)]
    #[case("ns::T::ru", "_ZN2ns1T3runEv", false)]
    #[case("_ZN2ns1T3runEv", "_ZN2ns1T3runEv", true)]
    #[case("run", "run.cold", false)]
    #[case("net/http.(*conn).serve", "net/http.(*conn).serve", true)]
    fn patterns_mean_functions(#[case] pattern: &str, #[case] name: &str, #[case] is_meant: bool) {
        assert_eq!(Pattern::new(pattern).shown(name).is_some(), is_meant);
    }

    proptest! {
        #[test]
        fn a_star_is_any_text(before in "[ab]{0,4}", middle in "[ab]{0,4}", after in "[ab]{0,4}") {
            let text = format!("{before}{middle}{after}");
            let pattern = format!("{before}*{after}");
            prop_assert!(matches(&pattern, &text));
            prop_assert!(matches("*", &text));
        }

        #[test]
        fn no_name_is_too_odd(name in "(_ZN?|_R)?[a-zA-Z0-9_.$]{0,300}") {
            let _ = demangled(&name);
        }
    }
}
