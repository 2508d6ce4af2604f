//! `guestscope doctor`: what this guest allows, found by trying, and how to enable what is missing.
//!
//! Loads the programs as `run` would and takes them out again. It observes nothing and changes nothing.

mod arguments;

pub use arguments::DoctorArguments;

use guestscope_base::Hint;

use crate::out;
use crate::{
    descriptors,
    facts::{btf::BtfError, formats::FormatError, permission},
    gpu,
    health::{Fidelity, Outcome, Verdict},
    loader::{self, LoadError, LoadOptions, Loaded},
    platform::{Guest, Root},
    privileges,
    probes::FAMILIES,
    procfs::{self, Procfs},
    restore,
    sinks::terminal::{self, Doctor, Stream, Style},
    sources,
};

/// Why nothing was found out about this guest.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum DoctorError {
    /// What was supplied cannot be used.
    Load(#[from] LoadError),
    /// The answer cannot be written.
    Answer(#[from] std::io::Error),
}

impl Hint for DoctorError {
    fn hint(&self) -> Option<String> {
        match self {
            DoctorError::Load(error) => error.hint(),
            DoctorError::Answer(_) => None,
        }
    }
}

/// Tries each hook and prints the result. The exit code is 0 if all accounts can be measured, else 1.
pub fn run(arguments: &DoctorArguments) -> Result<i32, DoctorError> {
    let options = LoadOptions {
        knowledge: arguments.btf.clone().into(),
        driver: gpu::may_be_waited_for(&Root::system()),
        ..LoadOptions::default()
    };
    descriptors::raise();
    let (fidelity, hooks) = match load(&options) {
        Ok(mut loaded) => {
            if !permission::may_probe() {
                loaded.marker_failed("kernels refuse probes in programs without CAP_SYS_ADMIN");
            }
            (loaded.fidelity, loaded.verdicts.clone())
        }
        // Nothing was found out about this guest.
        Err(error @ LoadError::Supplied { .. }) => return Err(error.into()),
        Err(error) if procfs::is_refused(&error) && Procfs::new(2, 1).is_ok() => {
            (Fidelity::Procfs, refused(&error).into_iter().chain(procfs::sources()).collect())
        }
        Err(error) => (Fidelity::None, refused(&error)),
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let signs = restore::find(&Root::system()).into();
    let gpu = gpu::find(&Root::system()).map(|driver| (driver.evidence.clone(), gpu::look(&driver)));
    let sources = sources::possible(&|name| std::env::var_os(name));
    let layers = privileges::layers();
    let doctor = Doctor { version, guest: Guest::here(), fidelity, hooks, sources, signs, layers, gpu };
    let text = if arguments.json {
        terminal::render_doctor_json(&doctor)
    } else {
        terminal::render_doctor(&doctor, Style::detect(Stream::Stdout))
    };
    out::answer(&text)?;
    Ok(i32::from(!fidelity.is_whole()))
}

fn load(options: &LoadOptions) -> Result<Loaded, LoadError> {
    descriptors::check_for_kernel_side()?;
    loader::load(options)
}

/// Verdicts after a refusal: every hook needs what was refused; the hook that failed itself gives the reason.
fn refused(error: &LoadError) -> Vec<Verdict> {
    let (outcome, remedy) = remedy(error);
    let failed = match error {
        LoadError::Program { hook, .. } => Some(*hook),
        LoadError::Permission(_)
        | LoadError::Descriptors(_)
        | LoadError::Btf(_)
        | LoadError::Formats(_)
        | LoadError::Supplied { .. }
        | LoadError::Object(_)
        | LoadError::Map(_)
        | LoadError::Missing(_)
        | LoadError::Damaged(_) => None,
    };
    let verdict = |hook: &crate::probes::Hook| {
        let concerns = failed.is_none_or(|failed| failed == hook.id);
        Verdict {
            hook: hook.id.to_owned(),
            outcome: if concerns { outcome } else { Outcome::Off },
            consequence: if concerns { error.to_string() } else { hook.purpose.to_owned() },
            remedy: concerns.then(|| remedy.to_owned()),
        }
    };
    FAMILIES.iter().copied().flatten().map(verdict).collect()
}

fn remedy(error: &LoadError) -> (Outcome, &'static str) {
    match error {
        LoadError::Permission(_) => {
            (Outcome::Off, "run it as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN")
        }
        LoadError::Descriptors(_) => (Outcome::Off, descriptors::HINT),
        LoadError::Formats(FormatError::NoTracefs) => (
            Outcome::Unsupported,
            "mount -t tracefs tracefs /sys/kernel/tracing, or give the kernel's BTF with --btf FILE",
        ),
        LoadError::Formats(_) | LoadError::Btf(BtfError::Read { .. }) => (
            Outcome::Unsupported,
            "a kernel with CONFIG_DEBUG_INFO_BTF=y has /sys/kernel/btf/vmlinux; else give its BTF with --btf FILE",
        ),
        LoadError::Btf(BtfError::Damaged(_) | BtfError::NoMember(_)) | LoadError::Supplied { .. } => {
            (Outcome::Unsupported, "this kernel lacks what the ledger needs; please report it")
        }
        LoadError::Object(_) | LoadError::Program { .. } | LoadError::Map(_) => (
            Outcome::Broken,
            "look for lockdown (/sys/kernel/security/lockdown), a seccomp filter of the container, or a lack of memory",
        ),
        LoadError::Missing(_) | LoadError::Damaged(_) => {
            (Outcome::Broken, "this binary is damaged; build it anew")
        }
    }
}
