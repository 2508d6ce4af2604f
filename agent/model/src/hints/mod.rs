//! Hints for a run without marks or requests: which option would have given it phases.
//!
//! Yields [`Hint`]s from observations of processes, which are gathered elsewhere.

use crate::{sources::Kind, untrusted::Untrusted};

/// Maximum number of hints: more would not help.
const MOST: usize = 3;
/// Most ports named of one program.
const PORTS: usize = 3;

/// A library whose calls can be phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Library {
    /// ONNX Runtime.
    OnnxRuntime,
    /// llama.cpp.
    Llama,
    /// TensorFlow.
    TensorFlow,
    /// A library that uses NVTX: NVIDIA's own library, or CUDA's.
    Nvtx,
}

impl Library {
    /// Begins of file names; a version or a hash follows.
    const FILES: [(&str, Library); 9] = [
        ("libonnxruntime.so", Library::OnnxRuntime),
        ("libllama.so", Library::Llama),
        ("libtensorflow.so", Library::TensorFlow),
        ("libtensorflow_cc.so", Library::TensorFlow),
        ("libtensorflow_framework.so", Library::TensorFlow),
        ("libnvToolsExt.so", Library::Nvtx),
        ("libnvToolsExt-", Library::Nvtx),
        ("libtorch_cuda.so", Library::Nvtx),
        ("libcuda.so", Library::Nvtx),
    ];

    /// The library with this file name.
    pub fn by_file(name: &str) -> Option<Self> {
        Self::FILES.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, library)| *library)
    }

    /// Display name of the library, and its preset for `--phase`.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Library::OnnxRuntime => ("ONNX Runtime", "onnxruntime"),
            Library::Llama => ("llama.cpp", "llama.cpp"),
            Library::TensorFlow => ("TensorFlow", "tensorflow"),
            Library::Nvtx => ("NVTX", ""),
        }
    }
}

/// Observations of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Name by the kernel (comm).
    pub name: Untrusted,
    /// TCP ports on which it listens.
    pub ports: Vec<u16>,
    /// Whether it runs Python.
    pub is_python: bool,
    /// Whether it was built by Go.
    pub is_go: bool,
    /// Libraries that it has loaded.
    pub libraries: Vec<Library>,
}

/// The options in use, and what is possible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Whether the program was started by the agent, not attached to.
    pub is_started: bool,
    /// Whether there is a kernel side.
    pub sees_kernel: bool,
    /// Ports whose connections were watched.
    pub ports: Vec<u16>,
    /// Sources that were on.
    pub on: Vec<Kind>,
    /// A Python option that keeps its packages from being marked.
    pub python_option: Option<char>,
    /// Something was marked, but no request.
    pub has_phases: bool,
}

/// One suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The program's name.
    pub program: Untrusted,
    /// Observation on which the hint rests.
    pub saw: String,
    /// Advice.
    pub advice: String,
    /// The option that does it, if there is one.
    pub option: Option<String>,
}

impl Hint {
    fn new(program: &Untrusted, saw: &str, advice: &str, option: Option<&str>) -> Self {
        let option = option.map(str::to_owned);
        Self { program: program.clone(), saw: saw.to_owned(), advice: advice.to_owned(), option }
    }
}

/// Hints, the most helpful first.
pub fn hints(seen: &[Seen], asked: &Asked) -> Vec<Hint> {
    let mut ports = ports(seen, asked);
    if asked.has_phases {
        ports.truncate(MOST);
        return ports;
    }
    let python = seen.iter().find(|one| one.is_python).and_then(|one| python(one, asked));
    let mut all: Vec<Hint> = ports.into_iter().chain(python).collect();
    for library in [Library::Nvtx, Library::OnnxRuntime, Library::Llama, Library::TensorFlow] {
        let has = seen.iter().find(|one| one.libraries.contains(&library));
        all.extend(has.and_then(|one| loaded(one, library, asked)));
    }
    let is_go = seen.iter().find(|one| one.is_go && one.ports.is_empty());
    all.extend(is_go.filter(|_| all.is_empty() && asked.sees_kernel).map(|one| {
        let advice = "its requests show by `--requests port:NUMBER` once it listens";
        Hint::new(&one.name, "was built by Go", advice, Some("--requests port:NUMBER"))
    }));
    all.truncate(MOST);
    all
}

/// A hint on processes that outlive the program that was started: they are no longer observed.
pub fn left(program: &Untrusted, processes: &[u32]) -> Option<Hint> {
    let (first, more) = (processes.first()?, processes.len() - 1);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    let saw = format!("ended, and what it has started continues unobserved (pid {first}{rest})");
    let advice = "start it so that it stays in the foreground, or use `guestscope attach` on the processes that it started";
    Some(Hint::new(program, &saw, advice, None))
}

/// Ports that were not watched. Processes that share one are workers of one server.
fn ports(seen: &[Seen], asked: &Asked) -> Vec<Hint> {
    let mut told = asked.ports.clone();
    let mut hints = Vec::new();
    for one in seen.iter().filter(|_| asked.sees_kernel) {
        let mut new: Vec<u16> = one.ports.iter().copied().filter(|port| !told.contains(port)).collect();
        new.sort_unstable();
        new.dedup();
        told.extend(&new);
        let Some(&first) = new.first() else { continue };
        let more = new.len().saturating_sub(PORTS);
        new.truncate(PORTS);
        let list: Vec<String> = new.iter().map(ToString::to_string).collect();
        let ports = if list.len() == 1 { "port" } else { "ports" };
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        let saw = format!("listens on {ports} {}{rest}", list.join(", "));
        let option = format!("--requests port:{first}");
        let advice = format!("`{option}` shows its requests");
        hints.push(Hint::new(&one.name, &saw, &advice, Some(&option)));
    }
    hints
}

fn python(one: &Seen, asked: &Asked) -> Option<Hint> {
    if !asked.is_started {
        let advice =
            "under `guestscope run` its packages are marked by themselves, with `attach` they cannot be";
        return Some(Hint::new(&one.name, "runs Python", advice, Some("guestscope run")));
    }
    if let Some(option) = asked.python_option {
        let saw = format!("ran with -{option}, which keeps its packages from being marked");
        return Some(Hint::new(&one.name, &saw, &format!("leave -{option} out"), None));
    }
    let is_off = !asked.on.contains(&Kind::Python);
    is_off.then(|| {
        let advice = "`--sources python` marks its packages";
        Hint::new(&one.name, "runs Python", advice, Some("--sources python"))
    })
}

fn loaded(one: &Seen, library: Library, asked: &Asked) -> Option<Hint> {
    let (name, preset) = library.words();
    let saw = format!("has loaded {name}");
    if library == Library::Nvtx {
        let (advice, option) = if asked.is_started {
            ("`--sources nvtx` makes phases of its ranges", "--sources nvtx")
        } else {
            ("under `guestscope run` its ranges are phases", "guestscope run")
        };
        let can_help = !asked.is_started || !asked.on.contains(&Kind::Nvtx);
        let saw = "has loaded what NVTX ranges come from";
        return can_help.then(|| Hint::new(&one.name, saw, advice, Some(option)));
    }
    asked.sees_kernel.then(|| {
        let option = format!("--phase {preset}");
        Hint::new(&one.name, &saw, &format!("`{option}` makes phases of its calls"), Some(&option))
    })
}

#[cfg(test)]
mod tests;
