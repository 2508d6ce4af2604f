//! What a run of which nothing was marked, or no request, could have been marked by, and the option for it.
//!
//! Yields [`Hint`]s from what processes were seen to have. It looks at nothing itself.

use crate::{sources::Kind, untrusted::Untrusted};

/// More hints than this help nobody.
const MOST: usize = 3;
/// Ports of one program that are named.
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
    /// What uses NVTX: its own library, or CUDA's.
    Nvtx,
}

impl Library {
    /// By how the names of their files begin, what a version or a hash follows.
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

    /// By the name of its file.
    pub fn by_file(name: &str) -> Option<Self> {
        Self::FILES.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, library)| *library)
    }

    /// What it is called, and the word of `--phase` for it.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Library::OnnxRuntime => ("ONNX Runtime", "onnxruntime"),
            Library::Llama => ("llama.cpp", "llama.cpp"),
            Library::TensorFlow => ("TensorFlow", "tensorflow"),
            Library::Nvtx => ("NVTX", ""),
        }
    }
}

/// What a process was seen to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// What the kernel calls it.
    pub name: Untrusted,
    /// TCP ports on which it listens.
    pub ports: Vec<u16>,
    /// It runs Python.
    pub is_python: bool,
    /// It was built by Go.
    pub is_go: bool,
    /// What it has loaded.
    pub libraries: Vec<Library>,
}

/// What was asked for, and what can be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The program was started, not attached to.
    pub is_started: bool,
    /// The kernel side is there.
    pub sees_kernel: bool,
    /// Ports whose connections were watched.
    pub ports: Vec<u16>,
    /// Sources that were on.
    pub on: Vec<Kind>,
    /// An option of Python's that keeps its packages from being marked.
    pub python_option: Option<char>,
    /// Something was marked, and no request.
    pub has_phases: bool,
}

/// One suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The program's name.
    pub program: Untrusted,
    /// What it was seen to have or do.
    pub saw: String,
    /// What to do.
    pub advice: String,
    /// The option that does it, where one does.
    pub option: Option<String>,
}

impl Hint {
    fn new(program: &Untrusted, saw: &str, advice: &str, option: Option<&str>) -> Self {
        let option = option.map(str::to_owned);
        Self { program: program.clone(), saw: saw.to_owned(), advice: advice.to_owned(), option }
    }
}

/// What to suggest, what helps most first.
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

/// Processes that go on after the program that was started has ended: nobody looks at them any more.
pub fn left(program: &Untrusted, processes: &[u32]) -> Option<Hint> {
    let (first, more) = (processes.first()?, processes.len() - 1);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    let saw = format!("ended, and what it has started goes on unobserved (pid {first}{rest})");
    let advice = "start it so that it stays in the foreground, or `guestscope attach` to what goes on";
    Some(Hint::new(program, &saw, advice, None))
}

/// Ports that nobody watched. Processes that share one are workers of one server.
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
