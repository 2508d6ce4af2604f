//! Source `function`: makes calls of functions that the user names phases, and the time between two USDT
//! probes.
//!
//! It takes files as programs map them, finds functions by their symbols, and has the kernel put probes
//! there. The edges are made in the kernel. Yields what was found and what was not.

mod code;
mod error;
mod found;
mod golang;
mod names;
mod pclntab;
mod place;
mod placed;
mod presets;
mod registers;
mod scheduler;
mod soname;
mod spec;
mod state;
mod symbols;
mod table;
mod unwind;
mod usdt;
mod wanted;

use std::{
    collections::HashSet,
    fs::{File, OpenOptions},
    os::unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use guestscope_contract::calls::GOROUTINES;

pub use self::spec::{Asked, parse};
pub(crate) use self::{code::cheap_entry, found::SymbolError, symbols::exported};
use self::{
    error::FunctionError,
    place::Place,
    placed::{Placed, Probed},
    soname::has_name,
    state::State,
    wanted::{Wanted, What},
};
use super::Kind;
use crate::{
    guarded,
    loader::{FunctionProbes, functions::Carrier},
    untrusted::{Shown as _, Untrusted},
    wildcard,
};

/// Most files looked at for each phase: a program may make any number with one name.
const MOST_FILES: usize = 64;
/// Most files looked at to find Go programs among them.
const MOST_SEEN: usize = 16_384;
/// Index in place of a phase for probes on Go's scheduler.
const FOLLOWED: usize = usize::MAX;
/// Calls that no phase shows, or whose phase has no end.
const LEFT_OUT: [&str; 3] = [
    "not shown: more than 10,000 a second",
    "not shown: more than 32 within each other, or in more than 1,024 goroutines",
    "ended without a return",
];
/// Folders of libraries that are named without a folder.
pub(crate) const FOLDERS: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/usr/local/lib", "/usr/lib"];

/// The phases asked for, and the files that were searched for them.
pub struct Functions {
    wanted: Vec<Wanted>,
    /// Whether requests come from the source `socket`: those of a Go program follow its goroutines.
    has_requests: bool,
    probes: FunctionProbes,
    files: Mutex<Files>,
}

#[derive(Default)]
struct Files {
    /// Phases and the files that were searched for them.
    seen: HashSet<(usize, State)>,
    placed: Vec<Placed>,
    /// Go programs whose goroutines are not followed, and why.
    unfollowed: Vec<String>,
    /// There were more files than are looked at, to find Go programs among them.
    is_full: bool,
    /// Phases not found in a file with their library's name, and why.
    failures: Vec<(usize, String)>,
}

impl Functions {
    /// Source for these phases, with or without requests of the source `socket`.
    pub fn new(asked: &[Asked], has_requests: bool, probes: FunctionProbes) -> Self {
        let mut wanted: Vec<Wanted> = asked.iter().flat_map(|asked| asked.0.iter().cloned()).collect();
        // Mapped files are listed by their whole paths.
        for wanted in wanted.iter_mut().filter(|wanted| wanted.library.contains('/')) {
            let whole = Path::new(&wanted.library).canonicalize().ok();
            if let Some(whole) = whole.and_then(|whole| whole.into_os_string().into_string().ok()) {
                wanted.library = whole;
            }
        }
        Self { wanted, has_requests, probes, files: Mutex::default() }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a file of this path may be wanted, and is worth opening.
    pub fn is_wanted(&self, path: &Path) -> bool {
        self.has_requests || self.wanted.iter().any(|wanted| Named::of(&wanted.library, path) != Named::No)
    }

    /// Puts probes into this program, if it is wanted, and into files given by path, before they are mapped:
    /// so that the first call is seen. Returns problems.
    pub fn put_ahead(&self, program: &Path) -> Vec<String> {
        let mut problems = Vec::new();
        let mut paths: Vec<PathBuf> = vec![program.to_owned()];
        for wanted in &self.wanted {
            if wanted.library.contains('/') {
                paths.push(PathBuf::from(&wanted.library));
            } else {
                paths.extend(FOLDERS.iter().map(|folder| Path::new(folder).join(&wanted.library)));
            }
        }
        for path in paths {
            let mut to_look = OpenOptions::new();
            to_look.read(true).custom_flags(libc::O_PATH);
            let whole = path.canonicalize().unwrap_or(path);
            if let Ok(file) = to_look.open(&whole) {
                problems.extend(self.attach(&file, &whole));
            }
        }
        problems
    }

    /// Puts probes into a file that a program has mapped under this path, if it is wanted. `found` was opened
    /// with `O_PATH`: that very file is read and probed. Returns problems.
    pub fn attach(&self, found: &File, path: &Path) -> Vec<String> {
        let Ok(metadata) = found.metadata() else { return Vec::new() };
        let state = State::of(&metadata);
        let probed = Probed { found, path, state };
        let mut problems = Vec::new();
        for (index, wanted) in self.wanted.iter().enumerate() {
            // Before the soname is read: a program's files come again at each look.
            if !metadata.is_file() || self.files().seen.contains(&(index, state)) {
                continue;
            }
            let is_own_name =
                || guarded::open_found(found).is_ok_and(|file| has_name(&file, &wanted.library));
            match Named::of(&wanted.library, path) {
                Named::Yes => {}
                Named::Perhaps if is_own_name() => {}
                Named::Perhaps | Named::No => continue,
            }
            {
                let mut files = self.files();
                let of_it = files.seen.iter().filter(|(phase, _)| *phase == index).count();
                if of_it >= MOST_FILES || !files.seen.insert((index, state)) {
                    continue;
                }
            }
            if let Err(error) = self.place(index, probed) {
                let text = format!("`{}` {error}", path.shown());
                if !wanted.is_preset {
                    problems.push(format!("phase {}: {text}", shown(&wanted.name)));
                }
                self.files().failures.push((index, text));
            }
        }
        if self.has_requests && metadata.is_file() {
            self.follow(probed);
        }
        problems
    }

    /// Follows the goroutines of this file, if it is a Go program.
    fn follow(&self, probed: Probed<'_>) {
        let Probed { found, path, state } = probed;
        {
            let mut files = self.files();
            let programs = files.placed.iter().filter(|placed| placed.wanted == FOLLOWED).count();
            let is_known = files.placed.iter().any(|placed| placed.follows(state));
            let has_room = programs + files.unfollowed.len() < MOST_FILES && files.seen.len() < MOST_SEEN;
            files.is_full |= !is_known && !has_room;
            if is_known || !has_room || !files.seen.insert((FOLLOWED, state)) {
                return;
            }
        }
        // Read errors are reported elsewhere.
        let Some(file) = guarded::open_found(found).ok().filter(golang::is_program) else { return };
        let scheduler = scheduler::scheduler(&file).map_err(FunctionError::from);
        let put = scheduler.and_then(|place| self.put(None, place, FOLLOWED, probed));
        if let Err(error) = put {
            let text = format!("`{}` {error}: requests do not follow its goroutines", path.shown());
            self.files().unfollowed.push(text);
        }
    }

    fn put(
        &self,
        wanted: Option<&Wanted>,
        place: Place,
        index: usize,
        probed: Probed<'_>,
    ) -> Result<(), FunctionError> {
        let placed = Placed::put(&self.probes, wanted, place, index, probed)?;
        self.files().placed.push(placed);
        Ok(())
    }

    fn place(&self, index: usize, probed: Probed<'_>) -> Result<(), FunctionError> {
        let Probed { found, path, state } = probed;
        let wanted = &self.wanted[index];
        let file = guarded::open_found(found)?;
        let (places, left_out) = match &wanted.what {
            What::Function(symbol) => Place::of_functions(&file, symbol, wanted.argument)?,
            What::Probes { provider, begin, end } => {
                (usdt::find(&file, provider, begin, end.as_deref(), wanted.argument)?, Vec::new())
            }
        };
        let left_out = left_out.into_iter().map(|why| (index, format!("`{}` {why}", path.shown())));
        self.files().failures.extend(left_out);
        let is_go = places.iter().any(|place| place.on == Carrier::Goroutine);
        if is_go && !self.files().placed.iter().any(|placed| placed.follows(state)) {
            self.put(None, scheduler::scheduler(&file)?, FOLLOWED, probed)?;
        }
        for place in places {
            self.put(Some(wanted), place, index, probed)?;
        }
        Ok(())
    }

    /// Takes probes out of changed files, and out of functions that are called too often. Returns messages.
    pub fn look(&self) -> Vec<String> {
        let mut files = self.files();
        let mut told = Vec::new();
        for placed in &mut files.placed {
            told.extend(placed.look(&self.probes));
        }
        // Without probes on the scheduler a goroutine cannot be seen to leave its thread.
        let schedulers =
            files.placed.iter().filter(|placed| placed.on == Carrier::Scheduler && placed.is_closing());
        let unfollowed: Vec<State> = schedulers.map(|placed| placed.state).collect();
        for placed in files.placed.iter_mut().filter(|placed| unfollowed.contains(&placed.state)) {
            placed.close(&self.probes);
        }
        if files.placed.iter().any(|placed| placed.on == Carrier::Scheduler) {
            self.probes.forget_goroutines();
        }
        let away: Vec<_> = files.placed.iter_mut().flat_map(Placed::due).collect();
        drop(files);
        // This waits for all CPUs.
        FunctionProbes::take_out(away);
        told
    }

    /// The result of each phase asked for, in the form of sources' messages: `+` and what was found, `!` and
    /// what could not be.
    pub fn told(&self) -> Vec<(Kind, Untrusted)> {
        let files = self.files();
        let mut told = Vec::new();
        for (index, wanted) in self.wanted.iter().enumerate() {
            let kind = if matches!(wanted.what, What::Function(_)) { Kind::Function } else { Kind::Usdt };
            let name = shown(&wanted.name);
            let placed: Vec<&Placed> = files.placed.iter().filter(|placed| placed.wanted == index).collect();
            let mut say = |text: String| told.push((kind, Untrusted::from(text)));
            // Presets are treated like patterns.
            let alike =
                |other: &Wanted| other.is_preset && wanted.is_preset && other.library == wanted.library;
            let all = files
                .placed
                .iter()
                .filter(|one| one.wanted == index || self.wanted.get(one.wanted).is_some_and(alike));
            let all_calls: u64 = all.map(|placed| placed.counts(&self.probes)[0]).sum();
            for placed in &placed {
                let [calls, left_out @ ..] = placed.counts(&self.probes);
                // A pattern matches many functions, most of which may never be called.
                if calls == 0 && all_calls > 0 {
                    continue;
                }
                say(format!("+{name}: {placed}, {calls} calls"));
                for (count, what) in left_out.into_iter().zip(LEFT_OUT).filter(|(count, _)| *count > 0) {
                    say(format!("!{name}: {count} calls of {placed} {what}"));
                }
            }
            // Some functions of a preset may be missing.
            let is_enough = wanted.is_preset && !placed.is_empty();
            let failures = files.failures.iter().filter(|(phase, _)| *phase == index && !is_enough);
            let mut failures = failures.peekable();
            if placed.is_empty() && failures.peek().is_none() {
                say(format!("!{name}: no program has mapped `{}`", shown(&wanted.library)));
            }
            failures.for_each(|(_, why)| say(format!("!{name}: {why}")));
        }
        told.extend(self.told_of_goroutines(&files));
        told
    }

    /// Reports why requests do not follow goroutines.
    fn told_of_goroutines(&self, files: &Files) -> Vec<(Kind, Untrusted)> {
        let mut told: Vec<String> = files.unfollowed.iter().map(|why| format!("!{why}")).collect();
        if files.is_full {
            told.push("!there are too many files to look for Go programs in all of them".to_owned());
        }
        let not_carried = self.probes.not_carried();
        if not_carried > 0 {
            told.push(format!(
                "!{not_carried} requests do not follow their goroutines: more than {GOROUTINES} others were open"
            ));
        }
        told.iter().map(|text| (Kind::Socket, Untrusted::from(text.as_str()))).collect()
    }
}

impl Drop for Functions {
    fn drop(&mut self) {
        let probes = self.files().placed.iter_mut().flat_map(Placed::take_probes).collect();
        FunctionProbes::take_out(probes);
    }
}

fn shown(text: &str) -> Untrusted {
    Untrusted::from(text)
}

/// Whether the name of a library matches a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// By its path, or by its file name, with or without a version; `*` matches any text.
    Yes,
    /// Another version: its soname decides. `libcuda.so.580.1` calls itself `libcuda.so.1`.
    Perhaps,
    No,
}

impl Named {
    pub(crate) fn of(library: &str, path: &Path) -> Self {
        let path = path.as_os_str().as_bytes();
        let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
        if library.contains('/') {
            return if wildcard::matches(library, path) { Self::Yes } else { Self::No };
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let without_version =
            name.strip_prefix(library.as_bytes()).is_some_and(|rest| rest.starts_with(b"."));
        if without_version || wildcard::matches(library, name) {
            return Self::Yes;
        }
        let stem = library.split_once(".so.").map(|(stem, _)| format!("{stem}.so."));
        if stem.is_some_and(|stem| name.starts_with(stem.as_bytes())) { Self::Perhaps } else { Self::No }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("libllama.so", "/x/lib/libllama.so", Named::Yes)]
    #[case("libllama.so", "/x/lib/libllama.so.0.1", Named::Yes)]
    #[case("libllama.so", "/x/lib/libllama.so (deleted)", Named::Yes)]
    #[case("libllama", "/x/lib/libllama.so.0", Named::Yes)]
    #[case("libllama.so", "/x/lib/libllama.sox", Named::No)]
    #[case("libllama.so", "/x/lib/notlibllama.so", Named::No)]
    #[case("libcuda.so.1", "/usr/lib/libcuda.so.1", Named::Yes)]
    #[case("libcuda.so.1", "/usr/lib/libcuda.so.580.159.04", Named::Perhaps)]
    #[case("libcuda.so.1", "/usr/lib/libcudart.so.13", Named::No)]
    #[case("libtriton_*.so", "/x/libtriton_onnxruntime.so", Named::Yes)]
    #[case("serve", "/opt/serve", Named::Yes)]
    #[case("serve", "/opt/serve/libx.so", Named::No)]
    #[case("/opt/serve", "/opt/serve", Named::Yes)]
    #[case("/opt/*/libx.so", "/opt/a/b/libx.so", Named::Yes)]
    #[case("/opt/serve", "/srv/opt/serve", Named::No)]
    fn files_are_meant_by_path_or_name(#[case] library: &str, #[case] path: &str, #[case] named: Named) {
        assert_eq!(Named::of(library, Path::new(path)), named);
    }
}
