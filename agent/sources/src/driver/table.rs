//! The table of drivers' libraries and functions. It stands in `drivers.toml`, so that it can be read and
//! disputed without reading code.

use std::sync::LazyLock;

use guestscope_contract::driver::Does;
use serde::Deserialize;

/// The JSON that build.rs made of `drivers.toml`.
static TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/drivers.json"));

/// Ends of names that tell a version, or which default stream is meant.
const SUFFIXES: [&str; 3] = ["_ptds", "_ptsz", "_spt"];

#[derive(Deserialize)]
struct Table {
    driver: Vec<Driver>,
}

/// A driver's library.
#[derive(Deserialize)]
pub(super) struct Driver {
    /// What people call it.
    pub(super) name: String,
    /// Its file, and its soname, without versions.
    pub(super) library: String,
    waits: Vec<String>,
    copies_in: Vec<String>,
    copies_out: Vec<String>,
    copies: Vec<String>,
}

static TABLE: LazyLock<Vec<Driver>> = LazyLock::new(|| {
    // A test parses the same text.
    serde_json::from_str::<Table>(TEXT).map(|table| table.driver).unwrap_or_default()
});

/// All of them.
pub(super) fn all() -> &'static [Driver] {
    &TABLE
}

impl Driver {
    /// What the exported function with this name does; none for functions that neither wait nor copy.
    pub(super) fn does(&self, exported: &str) -> Option<Does> {
        let name = stem(exported);
        let lists = [&self.waits, &self.copies_in, &self.copies_out, &self.copies];
        Does::ALL
            .into_iter()
            .zip(lists)
            .find(|(_, list)| list.iter().any(|one| one == name))
            .map(|(does, _)| does)
    }
}

/// `cuMemcpyHtoDAsync` for `cuMemcpyHtoDAsync_v2_ptsz`.
fn stem(exported: &str) -> &str {
    let name = SUFFIXES.iter().find_map(|suffix| exported.strip_suffix(suffix)).unwrap_or(exported);
    let version = name
        .rsplit_once("_v")
        .filter(|(_, number)| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()));
    version.map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn each_library_has_functions_and_each_function_is_listed_once() {
        assert_eq!(
            all().iter().map(|driver| driver.name.as_str()).collect::<Vec<_>>(),
            ["CUDA", "HIP", "Level Zero"]
        );
        for driver in all() {
            let Driver { waits, copies_in, copies_out, copies, .. } = driver;
            let mut names: Vec<&String> =
                waits.iter().chain(copies_in).chain(copies_out).chain(copies).collect();
            assert!(!waits.is_empty() && names.iter().all(|name| stem(name) == **name), "{}", driver.name);
            let listed = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), listed, "{}", driver.name);
        }
    }

    #[rstest]
    #[case("cuCtxSynchronize", Some(Does::Wait))]
    #[case("cuCtxSynchronize_v2", Some(Does::Wait))]
    #[case("cuStreamSynchronize_ptsz", Some(Does::Wait))]
    #[case("cuMemcpyHtoDAsync_v2_ptsz", Some(Does::CopyIn))]
    #[case("cuMemcpyDtoH_v2_ptds", Some(Does::CopyOut))]
    #[case("cuMemcpyPeer", Some(Does::Copy))]
    #[case("cuMemcpyHtoD_vx", None)]
    #[case("cuLaunchKernel", None)]
    #[case("cuStreamSynchronizeX", None)]
    #[case("_v2", None)]
    #[case("", None)]
    fn spellings_of_a_function_do_the_same(#[case] exported: &str, #[case] does: Option<Does>) {
        assert_eq!(all()[0].does(exported), does);
    }
}
