//! Kernels and rows of the matrix, from `xtask/kernels.toml`.
//!
//! Yields a [`Matrix`] whose rows name known kernels. It does not know where kernels come from.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::failure::failure;

const FILE: &str = "xtask/kernels.toml";
const TEXT: &str = include_str!("../../kernels.toml");

/// The content of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Matrix {
    #[serde(rename = "kernel")]
    pub(crate) kernels: Vec<Kernel>,
    #[serde(rename = "row")]
    pub(crate) rows: Vec<Row>,
}

/// Architecture of a guest, as Debian names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Architecture {
    #[default]
    Amd64,
    Arm64,
}

impl Architecture {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The architecture of this machine; none if no guest has it.
    pub(crate) fn here() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::Amd64),
            "aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }
}

/// A kernel of the matrix.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// Suites of Debian, in order of preference.
    pub(crate) suites: Vec<String>,
    /// Name of the package, with one `*` for the version.
    pub(crate) package: String,
    #[serde(default)]
    pub(crate) architecture: Architecture,
}

/// A line of the report.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of the file")]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Name of the kernel; none for this machine's.
    pub(crate) kernel: Option<String>,
    #[serde(default)]
    pub(crate) hide_btf: bool,
    #[serde(default)]
    pub(crate) unprivileged: bool,
    /// What is done to it from outside; only tests of that run.
    #[serde(default)]
    pub(crate) outside: Outside,
    /// The fidelity that `guestscope doctor` must find.
    pub(crate) fidelity: String,
    /// Virtual CPUs.
    #[serde(default = "two")]
    pub(crate) cpus: u8,
    /// Hooks that this kernel does not have or refuses, and programs of hooks that only some runs use; all
    /// others must be attached.
    #[serde(default)]
    pub(crate) lacks: Vec<String>,
    /// Whether its failure fails the verb.
    pub(crate) supported: bool,
    /// Whether its tests are known to pass: if not, failures of the long form are only reported, and the
    /// short form decides.
    #[serde(default)]
    pub(crate) tested: bool,
}

/// What is done to a guest from outside when it asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outside {
    #[default]
    Nothing,
    /// It is stopped for a while. Its clocks are real, so that it notices.
    Stop,
    /// It is saved, and restored by another QEMU; in the long form alone.
    Restore,
    /// It may start anew, with its disk as it was then; in the long form alone.
    Reboot,
}

impl Outside {
    /// Variable that tells programs in the guest, and where they ask.
    pub(crate) fn variable(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Nothing => None,
            Self::Stop => Some(("GUESTSCOPE_STOPPER", "/dev/ttyS2")),
            Self::Restore => Some(("GUESTSCOPE_RESTORER", "/dev/ttyS2")),
            Self::Reboot => Some(("GUESTSCOPE_REBOOTS", "1")),
        }
    }

    /// The tests that run, where these are not all.
    pub(crate) fn tests(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Stop => Some("pauses"),
            Self::Restore => Some("restored"),
            Self::Reboot => Some("a_reboot"),
        }
    }

    /// Whether it takes so long that the short form leaves it out.
    pub(crate) fn is_long(self) -> bool {
        matches!(self, Self::Restore | Self::Reboot)
    }
}

fn two() -> u8 {
    2
}

impl Row {
    /// Whether BPF programs are expected to load, so that its tests mean something.
    pub(crate) fn is_full(&self) -> bool {
        self.fidelity == "full"
    }
}

impl Matrix {
    /// Reads this checkout's file, with only the rows of these names; all if `names` is empty.
    pub(crate) fn load(names: &[String]) -> Result<Self> {
        let mut matrix = Self::parse(TEXT).context(FILE)?;
        let known: Vec<String> = matrix.rows.iter().map(|row| row.name.clone()).collect();
        if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
            return Err(failure(
                format!("no such row of the matrix: {unknown}"),
                format!("one of: {}", known.join(", ")),
            ));
        }
        matrix.rows.retain(|row| names.is_empty() || names.contains(&row.name));
        Ok(matrix)
    }

    fn parse(text: &str) -> Result<Self> {
        let matrix: Self = toml::from_str(text)?;
        for row in &matrix.rows {
            let kernel = row.kernel.as_deref();
            ensure!(
                kernel.is_none_or(|name| matrix.kernel(name).is_some()),
                "row {}: no such kernel: {}",
                row.name,
                kernel.unwrap_or_default()
            );
            let same = matrix.rows.iter().filter(|other| other.name == row.name);
            ensure!(same.count() == 1, "two rows of one name: {}", row.name);
            ensure!(
                kernel.is_some() || !(row.hide_btf || row.unprivileged || row.outside != Outside::Nothing),
                "row {}: the machine that runs this is left as it is",
                row.name
            );
        }
        for kernel in &matrix.kernels {
            ensure!(kernel.package.matches('*').count() == 1, "kernel {}: one `*`", kernel.name);
        }
        Ok(matrix)
    }

    pub(crate) fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::Matrix;

    const KERNEL: &str = "[[kernel]]\nname = 'a'\nsuites = ['s']\npackage = 'l-*-c'\n";

    #[test]
    fn the_file_of_this_checkout_is_a_matrix() {
        let all = Matrix::load(&[]).unwrap();
        assert!(all.kernels.len() >= 4 && all.rows.iter().any(|row| row.kernel.is_none()));
        let some = Matrix::load(&["6.12".to_owned(), "5.10".to_owned()]).unwrap();
        assert_eq!(some.rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["5.10", "6.12"]);
        assert!(Matrix::load(&["2.4".to_owned()]).is_err());
    }

    #[rstest]
    #[case::whole("[[row]]\nname = 'r'\nkernel = 'a'\nfidelity = 'full'\nsupported = true\n", true)]
    #[case::here("[[row]]\nname = 'r'\nfidelity = 'full'\nsupported = true\n", true)]
    #[case::no_such_kernel("[[row]]\nname = 'r'\nkernel = 'b'\nfidelity = 'full'\nsupported = true\n", false)]
    #[case::unknown_word("[[row]]\nname = 'r'\nfidelity = 'full'\nsupported = true\nfast = 1\n", false)]
    #[case::here_with_btf_hidden(
        "[[row]]\nname = 'r'\nhide-btf = true\nfidelity = 'none'\nsupported = true\n",
        false
    )]
    #[case::here_restored(
        "[[row]]\nname = 'r'\noutside = 'restore'\nfidelity = 'full'\nsupported = true\n",
        false
    )]
    fn rows_name_kernels_and_nothing_unknown(#[case] row: &str, #[case] good: bool) {
        assert_eq!(Matrix::parse(&format!("{KERNEL}{row}")).is_ok(), good);
    }

    #[test]
    fn names_are_not_used_twice() {
        let row = "[[row]]\nname = 'r'\nfidelity = 'full'\nsupported = true\n";
        assert!(Matrix::parse(&format!("{KERNEL}{row}{row}")).is_err());
    }
}
