//! The PyTorch of this machine, for workloads on a GPU: what is downloaded for the others has no part for
//! CUDA, and the machine's goes with its driver.
//!
//! Yields [`Pytorch`], or why it cannot be built against: each tch goes with one libtorch. It installs
//! nothing.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};

use crate::{
    Xtask, apt,
    command::{self, tail},
    failure::failure,
};

/// The version of tch, and of torch-sys, in Cargo.toml.
pub(crate) const TCH: &str = "0.26";
/// The libtorch that each tch goes with, by tch's own list of changes: tch is generated from the functions of
/// one libtorch, and does not compile against another's.
const PAIRS: [(&str, &str); 6] = [
    ("0.26", "2.13"),
    ("0.25", "2.12"),
    ("0.24", "2.11"),
    ("0.23", "2.10"),
    ("0.21", "2.8"),
    ("0.20", "2.7"),
];
const ASK: &str = "import os, torch\n\
                   print(torch.__version__)\n\
                   print(torch.version.cuda or '')\n\
                   print(os.path.dirname(os.path.abspath(torch.__file__)))";
/// The part of libtorch for CUDA.
const LIBRARY: &str = "libtorch_cuda.so";

/// A PyTorch with CUDA that goes with our tch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pytorch {
    python: PathBuf,
    version: String,
    cuda: String,
    /// The package `torch`.
    folder: PathBuf,
}

/// What a Python says of its PyTorch.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    version: String,
    /// Version of CUDA; empty without.
    cuda: String,
    folder: PathBuf,
}

impl Pytorch {
    /// Asks a Python, or the first `python3` on PATH.
    pub(crate) fn find(python: Option<PathBuf>) -> Result<Self> {
        let python = python.or_else(|| command::find("python3"));
        let python = python.ok_or_else(|| {
            failure("no Python is on PATH: python3", "name the one that has PyTorch with --python")
        })?;
        let told = ask(&python)?;
        check(&told, told.folder.join("lib").join(LIBRARY).exists())?;
        let Told { version, cuda, folder } = told;
        Ok(Self { python, version, cuda, folder })
    }

    /// Folder of the packages that programs against it load libraries from.
    pub(crate) fn packages(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
    }

    /// Everything that programs against it depend on: torch-sys does not notice another Python on PATH.
    pub(crate) fn identity(&self) -> [String; 2] {
        [self.version.clone(), self.folder.display().to_string()]
    }

    /// What it is, for people.
    pub(crate) fn text(&self) -> String {
        let Self { python, version, cuda, .. } = self;
        format!("PyTorch {version} with CUDA {cuda}, of {}; it goes with tch {TCH}", python.display())
    }

    /// Gives a cargo command what torch-sys asks for.
    pub(crate) fn apply<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        for other in ["LIBTORCH", "LIBTORCH_INCLUDE", "LIBTORCH_LIB", "LIBTORCH_STATIC", "VIRTUAL_ENV"] {
            command.env_remove(other);
        }
        // It asks the `python3` on PATH, and wants the very version that it was made with: what compiles
        // against one patch of it compiles against the next.
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = self.python.parent().map(Path::to_owned).into_iter().chain(env::split_paths(&path));
        if let Ok(path) = env::join_paths(folders) {
            command.env("PATH", path);
        }
        command.env("LIBTORCH_USE_PYTORCH", "1").env("LIBTORCH_BYPASS_VERSION_CHECK", "1")
    }
}

fn ask(python: &Path) -> Result<Told> {
    let asked = Command::new(python).args(["-c", ASK]).stdin(Stdio::null()).output();
    let output = asked.with_context(|| format!("could not start: `{}`", python.display()))?;
    let told = Told::parse(&String::from_utf8_lossy(&output.stdout));
    told.filter(|_| output.status.success()).ok_or_else(|| {
        let said = tail(&String::from_utf8_lossy(&output.stderr));
        let last = said.lines().next_back().map(|line| format!(" ({})", line.trim_start_matches([' ', '|'])));
        failure(
            format!("no PyTorch in this Python: {}{}", python.display(), last.unwrap_or_default()),
            format!(
                "`{} -m pip install 'torch=={}.*'`, or name another one with --python",
                python.display(),
                wanted()
            ),
        )
    })
}

/// The libtorch that our tch goes with.
fn wanted() -> &'static str {
    PAIRS.iter().find(|(tch, _)| *tch == TCH).map_or("", |(_, torch)| torch)
}

impl Told {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut next = || lines.next().map(str::to_owned);
        let (version, cuda, folder) = (next()?, next()?, next()?);
        Some(Self { version, cuda, folder: folder.into() })
    }
}

/// Whether our tch can be built against it, for a GPU.
fn check(told: &Told, has_library: bool) -> Result<()> {
    let Told { version, cuda, folder } = told;
    let public = version.split('+').next().unwrap_or_default();
    let minor: Vec<&str> = public.split('.').take(2).collect();
    let minor = minor.join(".");
    if minor != wanted() {
        let other = PAIRS.iter().find(|(_, torch)| *torch == minor).map(|(tch, _)| {
            format!(", or take tch and torch-sys {tch} in Cargo.toml, which go with PyTorch {minor}")
        });
        return Err(failure(
            format!("tch {TCH} goes with PyTorch {}, and here is: {version}", wanted()),
            format!("install PyTorch {}{}", wanted(), other.unwrap_or_default()),
        ));
    }
    if cuda.is_empty() || !has_library {
        return Err(failure(
            format!("this PyTorch has no CUDA: {version} ({})", folder.display()),
            "install the one with CUDA: on PyPI that is the plain `torch` for x86-64",
        ));
    }
    Ok(())
}

/// Whether the linker kept libtorch's part for CUDA in a program: without it, that knows of no GPU.
pub(crate) fn check_linked(xtask: &Xtask, program: &Path) -> Result<()> {
    if command::find("readelf").is_none() {
        apt::need(xtask, &["binutils"])?;
    }
    let mut read = Command::new("readelf");
    let output = command::output(read.args(["--dynamic", "--wide"]).arg(program))?;
    if needs(&String::from_utf8_lossy(&output.stdout), LIBRARY) {
        return Ok(());
    }
    Err(failure(
        format!("the linker left {LIBRARY} out: {}", program.display()),
        "workloads/build.rs asks it to keep that; see which linker .cargo/config.toml and RUSTFLAGS choose",
    ))
}

/// Whether a program needs a library, by what readelf says of it.
fn needs(dynamic: &str, library: &str) -> bool {
    let name = format!("[{library}]");
    dynamic.lines().any(|line| line.contains("(NEEDED)") && line.contains(&name))
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use rstest::rstest;

    use super::{Pytorch, TCH, Told, check, needs, wanted};
    use crate::{failure::render, workspace::Workspace};

    fn told(version: &str, cuda: &str) -> Told {
        Told { version: version.to_owned(), cuda: cuda.to_owned(), folder: "/p/torch".into() }
    }

    #[test]
    fn three_lines_are_an_answer() {
        let parsed = Told::parse("2.13.0+cu130\n13.0\n/p/torch\n").unwrap();
        assert_eq!(parsed, told("2.13.0+cu130", "13.0"));
        assert_eq!(Told::parse("2.13.0+cpu\n\n/p/torch\n").unwrap(), told("2.13.0+cpu", ""));
        assert_eq!(Told::parse("2.13.0\n13.0\n"), None);
    }

    #[rstest]
    #[case("2.13.0+cu130", "13.0", true)]
    #[case("2.13.1", "12.9", true)]
    fn the_pytorch_of_our_tch_is_taken(#[case] version: &str, #[case] cuda: &str, #[case] has_library: bool) {
        check(&told(version, cuda), has_library).unwrap();
    }

    #[rstest]
    #[case(
        "2.11.0+cu130",
        "13.0",
        true,
        "error: tch 0.26 goes with PyTorch 2.13, and here is: 2.11.0+cu130\n\n\
        hint: install PyTorch 2.13, or take tch and torch-sys 0.24 in Cargo.toml, which go with PyTorch 2.11"
    )]
    #[case(
        "2.1.3",
        "12.1",
        true,
        "error: tch 0.26 goes with PyTorch 2.13, and here is: 2.1.3\n\n\
        hint: install PyTorch 2.13"
    )]
    #[case(
        "2.13.0+cpu",
        "",
        false,
        "error: this PyTorch has no CUDA: 2.13.0+cpu (/p/torch)\n\n\
        hint: install the one with CUDA: on PyPI that is the plain `torch` for x86-64"
    )]
    #[case(
        "2.13.0",
        "13.0",
        false,
        "error: this PyTorch has no CUDA: 2.13.0 (/p/torch)\n\n\
        hint: install the one with CUDA: on PyPI that is the plain `torch` for x86-64"
    )]
    fn another_one_is_refused_with_what_to_do(
        #[case] version: &str,
        #[case] cuda: &str,
        #[case] has_library: bool,
        #[case] expected: &str,
    ) {
        assert_eq!(render(&check(&told(version, cuda), has_library).unwrap_err()), expected);
    }

    /// The table would be wrong for another version of tch.
    #[test]
    fn the_tch_of_the_table_is_that_of_the_workspace() {
        let manifest = fs::read_to_string(Workspace::load().unwrap().root.join("Cargo.toml")).unwrap();
        let manifest: toml::Value = toml::from_str(&manifest).unwrap();
        for name in ["tch", "torch-sys"] {
            assert_eq!(manifest["workspace"]["dependencies"][name].as_str(), Some(TCH), "{name}");
        }
        assert!(!wanted().is_empty());
    }

    #[test]
    fn a_python_without_pytorch_is_told_from_none() {
        let folder = tempfile::tempdir().unwrap();
        let python = folder.path().join("python3");
        let error = format!("{:#}", Pytorch::find(Some(python.clone())).unwrap_err());
        assert!(error.starts_with("could not start: `"), "{error}");
        std::os::unix::fs::symlink("/bin/false", &python).unwrap();
        let error = render(&Pytorch::find(Some(python.clone())).unwrap_err());
        assert!(
            error.starts_with("error: no PyTorch in this Python: ") && error.contains("hint: "),
            "{error}"
        );
    }

    #[test]
    fn cargo_asks_the_python_that_was_found() {
        let pytorch = Pytorch {
            python: "/venv/bin/python3".into(),
            version: "2.13.0".to_owned(),
            cuda: "13.0".to_owned(),
            folder: "/venv/lib/python3.12/site-packages/torch".into(),
        };
        let mut command = Command::new("cargo");
        pytorch.apply(&mut command);
        let of = |name: &str| {
            let found = command.get_envs().find(|(key, _)| *key == name).and_then(|(_, value)| value);
            found.map(|value| value.to_string_lossy().into_owned())
        };
        assert!(of("PATH").unwrap().starts_with("/venv/bin:"));
        assert_eq!((of("LIBTORCH_USE_PYTORCH").as_deref(), of("LIBTORCH")), (Some("1"), None));
        assert_eq!(pytorch.packages().to_str(), Some("/venv/lib/python3.12/site-packages"));
    }

    #[test]
    fn a_needed_library_is_told_from_a_name() {
        let dynamic = " 0x0000000000000001 (NEEDED)  Shared library: [libtorch_cpu.so]\n \
            0x000000000000001d (RUNPATH)  Library runpath: [/p/libtorch_cuda.so]\n";
        assert!(needs(dynamic, "libtorch_cpu.so") && !needs(dynamic, "libtorch_cuda.so"));
    }
}
