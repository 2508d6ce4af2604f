//! Libraries whose threads busy-wait: how their files are recognized, and how to make them sleep.
//!
//! Yields [`Spinner`]s from a table, `spinners.toml`. No process is examined here.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

/// The table, as the build script wrote it.
const TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/spinners.json"));

/// Parsed once. The text is part of the program and its test reads it: an error cannot get here.
static TABLE: LazyLock<BTreeMap<String, Spinner>> =
    LazyLock::new(|| serde_json::from_str(TEXT).unwrap_or_default());

/// A library whose threads busy-wait.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spinner {
    /// How the names of its files begin.
    files: Vec<String>,
    /// Its code works as well: a sample in it is one of waiting only beside an instruction that pauses.
    pub computes: bool,
    /// The library in words.
    pub what: String,
    /// What its threads wait for.
    pub waits_for: String,
    /// What to do about it.
    pub stop: String,
    /// Who says so.
    pub source: String,
}

/// The library that a file belongs to, with its number, by the file's name: `libgomp.so.1` and
/// `libgomp-98b21ff3.so.1` are libgomp's, `libgompsomething.so` is not.
pub fn of_file(name: &str) -> Option<(u32, &'static Spinner)> {
    let is_one = |begin: &String| {
        let next = name.strip_prefix(begin.as_str()).and_then(|rest| rest.chars().next());
        next.is_some_and(|next| !next.is_alphanumeric())
    };
    let number = TABLE.values().position(|spinner| spinner.files.iter().any(is_one))?;
    Some((number as u32, TABLE.values().nth(number)?))
}

/// Names of the libraries, in the order of their numbers.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.keys().map(String::as_str)
}

/// A library by its name.
pub fn by_name(name: &str) -> Option<&'static Spinner> {
    TABLE.get(name)
}

#[cfg(test)]
mod tests {
    use guestscope_contract::SPIN_LIBRARIES;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::system("libgomp.so.1.0.0", Some("libgomp"))]
    #[case::wheel("libgomp-98b21ff3.so.1", Some("libgomp"))]
    #[case::llvm("libomp.so", Some("libomp"))]
    #[case::intel("libiomp5.so", Some("libiomp5"))]
    #[case::tbb("libtbb.so.12", Some("libtbb"))]
    #[case::module_of_python(
        "onnxruntime_pybind11_state.cpython-311-x86_64-linux-gnu.so",
        Some("libonnxruntime")
    )]
    #[case::onnx("libonnxruntime.so.1.19.2", Some("libonnxruntime"))]
    #[case::llama("libggml-cpu-haswell.so", Some("libggml"))]
    #[case::numpy("libscipy_openblas64_-32a4b2a6.so", Some("libopenblas"))]
    #[case::debian("libopenblasp-r0.3.26.so", Some("libopenblas"))]
    #[case::mkl("libmkl_core.so.2", Some("libmkl"))]
    #[case::tensorflow("libtensorflow_framework.so.2", Some("libtensorflow"))]
    #[case::driver("libcuda.so.1", Some("libcuda"))]
    #[case::not_the_driver("libcudart.so.12", None)]
    #[case::other_name("libompstub.so", None)]
    #[case::begin("libgomp", None)]
    #[case::torch("libtorch_cpu.so", None)]
    fn a_library_is_known_by_the_names_of_its_files(#[case] file: &str, #[case] expected: Option<&str>) {
        let found = of_file(file);
        assert_eq!(found.and_then(|(number, _)| names().nth(number as usize)), expected);
        assert_eq!(found.map(|(_, spinner)| spinner), expected.and_then(by_name));
    }

    #[test]
    fn every_library_says_what_to_do_and_who_says_so() {
        let table: BTreeMap<String, Spinner> = serde_json::from_str(TEXT).expect("the table is ours");
        assert!(!table.is_empty() && table.len() as u32 <= SPIN_LIBRARIES);
        for (name, Spinner { files, computes: _, what, waits_for, stop, source }) in &table {
            assert!(!files.is_empty(), "{name}");
            for (text, most) in [(what, 30), (waits_for, 60), (stop, 130), (source, 160)] {
                let is_whole = !text.is_empty() && !text.ends_with('.');
                assert!(is_whole && text.len() <= most && text.is_ascii(), "{name}: {text}");
            }
        }
    }
}
