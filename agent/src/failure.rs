//! What a person is told when something fails: one line that says what, and a hint that says what to do next.

use crate::{
    child::ChildError,
    descriptors::{self, TooFew},
    kernel::{btf::BtfError, formats::FormatError},
    loader::{LoadError, VisitError},
};

use crate::untrusted::plain;

pub use crate::out::{say, say_lines};
pub use guestscope_kernel::failure::chain;

/// Text of the form `error: what: value`, a blank line, `hint: next action`.
pub fn text(error: &anyhow::Error) -> String {
    let what = chain(error.chain());
    match hint(error) {
        Some(hint) => format!("error: {what}\n\nhint: {}\n", plain(&hint)),
        None => format!("error: {what}\n"),
    }
}

fn hint(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        if let Some(error) = cause.downcast_ref::<LoadError>() {
            return load_hint(error).map(str::to_owned);
        }
        if let Some(error) = cause.downcast_ref::<ChildError>() {
            return Some(child_hint(error).to_owned());
        }
        if cause.is::<TooFew>() {
            return Some(descriptors::HINT.to_owned());
        }
        if let Some(error) = cause.downcast_ref::<crate::attach::TargetError>() {
            return Some(error.hint());
        }
        if let Some(error) = cause.downcast_ref::<VisitError>() {
            return visit_hint(error).map(str::to_owned);
        }
        if let Some(error) = cause.downcast_ref::<crate::compare::Refusal>() {
            return Some(error.hint().to_owned());
        }
        if let Some(error) = cause.downcast_ref::<crate::compare::JaegerError>() {
            return Some(error.hint().to_owned());
        }
        if let Some(error) = cause.downcast_ref::<crate::explain::ExplainError>() {
            return Some(error.hint());
        }
        if let Some(error) = cause.downcast_ref::<crate::export::ExportFileError>() {
            return Some(error.hint().to_owned());
        }
        if let Some(error) = cause.downcast_ref::<crate::report::ReportError>() {
            return Some(error.hint().to_owned());
        }
        if let Some(error) = cause.downcast_ref::<crate::run::Error>() {
            return Some(error.hint().to_owned());
        }
        cause.downcast_ref::<crate::sinks::otlp::ExportError>().map(|error| error.hint().to_owned())
    })
}

fn load_hint(error: &LoadError) -> Option<&'static str> {
    Some(match error {
        LoadError::Descriptors(_) => descriptors::HINT,
        LoadError::Permission(_) => "run it as root: sudo guestscope run -- CMD",
        LoadError::Formats(FormatError::NoTracefs) => {
            "mount it (`mount -t tracefs tracefs /sys/kernel/tracing`) for three accounts, or give the kernel's BTF with \
             `--btf FILE` for all"
        }
        LoadError::Formats(_) | LoadError::Btf(BtfError::Read { .. }) => {
            "this kernel was built without CONFIG_DEBUG_INFO_BTF: give its BTF with `--btf FILE`, as `pahole \
             --btf_encode_detached FILE vmlinux` or https://github.com/aquasecurity/btfhub-archive has it"
        }
        LoadError::Supplied { .. } => {
            "`--btf` takes raw BTF of exactly the running kernel (`uname -r`), as `pahole --btf_encode_detached FILE \
             vmlinux` writes it and https://github.com/aquasecurity/btfhub-archive has it"
        }
        LoadError::Btf(BtfError::Damaged(_) | BtfError::NoMember(_)) => {
            "this kernel is not like those that were tried; please report it with the output of `guestscope doctor`"
        }
        LoadError::Object(_) | LoadError::Program { .. } | LoadError::Map(_) => {
            "`guestscope doctor` tells hook by hook what this kernel allows (lockdown, a container's seccomp filter \
             or missing capabilities refuse BPF)"
        }
        LoadError::Missing(_) | LoadError::Damaged(_) => return None,
    })
}

fn visit_hint(error: &VisitError) -> Option<&'static str> {
    match error {
        VisitError::Refused(_) | VisitError::Start(_) => Some(
            "task iterators need Linux 5.8 and BTF of the kernel's own; `guestscope run -- CMD` does without them, and `guestscope doctor` tells \
             what else this kernel allows",
        ),
        VisitError::Object(error) => load_hint(error),
        VisitError::Read(_) => None,
    }
}

fn child_hint(error: &ChildError) -> &'static str {
    match error {
        ChildError::NotFound(_) => "give the program's path, or put its folder into PATH (sudo resets PATH)",
        ChildError::NotRunnable { .. } => "the file must be executable for the user that the program runs as",
        ChildError::NoInterpreter { .. } => {
            "the first line of a script, or `readelf -l` of a program, names what must be there"
        }
        ChildError::UnknownUser(_) => "unset SUDO_UID and SUDO_GID to run the program as root",
        ChildError::UnclearUser(_) => {
            "unset those that are not true: `env -u VARIABLE guestscope run -- CMD`"
        }
    }
}

#[cfg(test)]
mod tests;
