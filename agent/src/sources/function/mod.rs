//! Source `function`: calls of functions that somebody names are phases, and so is what lies between two USDT
//! probes.
//!
//! It is handed files as programs map them, looks functions up by their symbols, and has the kernel put
//! probes there. The edges are made in the kernel. It yields what it found and could not, and knows nothing
//! of what becomes of the edges.

mod code;
mod golang;
mod names;
mod pclntab;
mod placed;
mod presets;
mod soname;
mod spec;
mod symbols;
mod table;
mod unwind;
mod usdt;

use std::{
    collections::HashSet,
    fs::{File, Metadata, OpenOptions},
    os::{
        fd::AsRawFd as _,
        unix::{
            ffi::OsStrExt as _,
            fs::{MetadataExt as _, OpenOptionsExt as _},
        },
    },
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

pub use self::spec::{Asked, parse};
use self::{
    placed::{On, Place, Placed},
    soname::has_name,
    spec::{Wanted, What},
};
use super::Kind;
use crate::{
    guarded,
    loader::FunctionProbes,
    untrusted::{Shown as _, Untrusted},
};

/// Files that are looked at for each phase: a program may make any number of a name.
const MOST_FILES: usize = 64;
/// Files that are looked at to find Go programs among them.
const MOST_SEEN: usize = 16_384;
/// Stands for the phase where Go's scheduler is probed.
const FOLLOWED: usize = usize::MAX;
/// Calls that no phase shows, or whose phase has no end.
const LEFT_OUT: [&str; 3] = [
    "not shown: more than 10,000 a second",
    "not shown: more than 32 within each other, or in more than 1,024 goroutines",
    "ended without a return",
];
/// Where libraries lie that programs name without a folder.
const FOLDERS: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/usr/local/lib", "/usr/lib"];

/// A file as it is now: by number, time of change and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    number: (u64, u64),
    changed: (i64, i64),
    bytes: u64,
}

impl State {
    fn of(metadata: &Metadata) -> Self {
        let number = (metadata.dev(), metadata.ino());
        Self { number, changed: (metadata.ctime(), metadata.ctime_nsec()), bytes: metadata.size() }
    }
}

/// The phases that are wanted, and the files that they were looked for in.
pub struct Functions {
    wanted: Vec<Wanted>,
    /// Requests are known by their sockets: those of a Go program follow its goroutines.
    has_requests: bool,
    probes: FunctionProbes,
    files: Mutex<Files>,
}

#[derive(Default)]
struct Files {
    /// Which phase was looked for in which file.
    seen: HashSet<(usize, State)>,
    placed: Vec<Placed>,
    /// Go programs whose goroutines are not followed, and why.
    unfollowed: Vec<String>,
    /// Which phase was not found in a file with its library's name, and why.
    failures: Vec<(usize, String)>,
}

impl Functions {
    /// For what was asked for; with requests that are known by their sockets, or without.
    pub fn new(asked: &[Asked], has_requests: bool, probes: FunctionProbes) -> Self {
        let mut wanted: Vec<Wanted> = asked.iter().flat_map(|asked| asked.0.iter().cloned()).collect();
        // What is mapped is listed by its whole path.
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

    /// Whether a file of this path is wanted, so that it is worth opening.
    pub fn is_wanted(&self, path: &Path) -> bool {
        self.has_requests || self.wanted.iter().any(|wanted| Named::of(&wanted.library, path) != Named::No)
    }

    /// Puts probes into this program, if it is meant, and into files that are where somebody said, before
    /// they are mapped: then the first call is seen. What went wrong.
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

    /// Puts probes into a file that a program has mapped under this path, if it is one of those that are
    /// wanted. `found` was opened to look alone (`O_PATH`): what is read and probed is that very file. What
    /// went wrong.
    pub fn attach(&self, found: &File, path: &Path) -> Vec<String> {
        let Ok(metadata) = found.metadata() else { return Vec::new() };
        let state = State::of(&metadata);
        let mut problems = Vec::new();
        for (index, wanted) in self.wanted.iter().enumerate() {
            let named = if metadata.is_file() { Named::of(&wanted.library, path) } else { Named::No };
            let is_own_name =
                || guarded::open_found(found).is_ok_and(|file| has_name(&file, &wanted.library));
            if named == Named::No || named == Named::Perhaps && !is_own_name() {
                continue;
            }
            {
                let mut files = self.files();
                let of_it = files.seen.iter().filter(|(phase, _)| *phase == index).count();
                if of_it >= MOST_FILES || !files.seen.insert((index, state)) {
                    continue;
                }
            }
            if let Err(error) = self.place(index, state, found, path) {
                let text = format!("`{}` {error:#}", path.shown());
                if !wanted.is_preset {
                    problems.push(format!("phase {}: {text}", shown(&wanted.name)));
                }
                self.files().failures.push((index, text));
            }
        }
        if self.has_requests && metadata.is_file() {
            self.follow(state, found, path);
        }
        problems
    }

    /// Follows the goroutines of this file, if it is a Go program.
    fn follow(&self, state: State, found: &File, path: &Path) {
        {
            let mut files = self.files();
            let programs = files.placed.iter().filter(|placed| placed.wanted == FOLLOWED).count();
            let is_known = files.placed.iter().any(|placed| placed.follows(state));
            let has_room = programs + files.unfollowed.len() < MOST_FILES && files.seen.len() < MOST_SEEN;
            if is_known || !has_room || !files.seen.insert((FOLLOWED, state)) {
                return;
            }
        }
        // What cannot be read is said elsewhere.
        let Some(file) = guarded::open_found(found).ok().filter(golang::is_program) else { return };
        let scheduler = golang::scheduler(&file);
        let put = scheduler.and_then(|place| self.put(None, place, (FOLLOWED, state), (found, path)));
        if let Err(error) = put {
            let text = format!("`{}` {error:#}: requests do not follow its goroutines", path.shown());
            self.files().unfollowed.push(text);
        }
    }

    fn put(
        &self,
        wanted: Option<&Wanted>,
        place: Place,
        (index, state): (usize, State),
        (found, path): (&File, &Path),
    ) -> anyhow::Result<()> {
        let probed = format!("/proc/self/fd/{}", found.as_raw_fd());
        let watch = found.try_clone()?;
        let placed = Placed::put(&self.probes, wanted, place, (index, state, watch), (&probed, path))?;
        self.files().placed.push(placed);
        Ok(())
    }

    fn place(&self, index: usize, state: State, found: &File, path: &Path) -> anyhow::Result<()> {
        let wanted = &self.wanted[index];
        let file = guarded::open_found(found)?;
        let (places, left_out) = match &wanted.what {
            What::Function(symbol) => Place::of_functions(&file, symbol, wanted.argument)?,
            What::Probes { provider, begin, end } => {
                (usdt::find(&file, provider, (begin, end.as_deref()), wanted.argument)?, Vec::new())
            }
        };
        let left_out = left_out.into_iter().map(|why| (index, format!("`{}` {why}", path.shown())));
        self.files().failures.extend(left_out);
        let is_go = places.iter().any(|place| place.on == On::Goroutine);
        if is_go && !self.files().placed.iter().any(|placed| placed.follows(state)) {
            self.put(None, golang::scheduler(&file)?, (FOLLOWED, state), (found, path))?;
        }
        for place in places {
            self.put(Some(wanted), place, (index, state), (found, path))?;
        }
        Ok(())
    }

    /// Takes probes out of files that have been changed, and from functions that are called too often to be
    /// followed. What there is to tell.
    pub fn look(&self) -> Vec<String> {
        let mut files = self.files();
        let mut told = Vec::new();
        for placed in &mut files.placed {
            told.extend(placed.look(&self.probes));
        }
        // Without its scheduler no goroutine is known to have left its thread.
        let schedulers =
            files.placed.iter().filter(|placed| placed.on == On::Scheduler && placed.is_closing());
        let unfollowed: Vec<State> = schedulers.map(|placed| placed.state).collect();
        for placed in files.placed.iter_mut().filter(|placed| unfollowed.contains(&placed.state)) {
            placed.close(&self.probes);
        }
        if files.placed.iter().any(|placed| placed.on == On::Scheduler) {
            self.probes.forget_goroutines(|tgid| !Path::new(&format!("/proc/{tgid}")).exists());
        }
        let away: Vec<_> = files.placed.iter_mut().flat_map(Placed::due).collect();
        drop(files);
        // The kernel waits for all CPUs.
        FunctionProbes::take_out(away);
        told
    }

    /// What became of each phase that is wanted, as sources say it: `+` and what was found, `!` and what
    /// could not be.
    pub fn told(&self) -> Vec<(Kind, Untrusted)> {
        let files = self.files();
        let mut told = Vec::new();
        for (index, wanted) in self.wanted.iter().enumerate() {
            let kind = if matches!(wanted.what, What::Function(_)) { Kind::Function } else { Kind::Usdt };
            let name = shown(&wanted.name);
            let placed: Vec<&Placed> = files.placed.iter().filter(|placed| placed.wanted == index).collect();
            let mut say = |text: String| told.push((kind, Untrusted::from(text)));
            // Of a preset as of a pattern.
            let alike =
                |other: &Wanted| other.is_preset && wanted.is_preset && other.library == wanted.library;
            let all = files
                .placed
                .iter()
                .filter(|one| one.wanted == index || self.wanted.get(one.wanted).is_some_and(alike));
            let all_calls: u64 = all.map(|placed| placed.counts(&self.probes)[0]).sum();
            for placed in &placed {
                let [calls, left_out @ ..] = placed.counts(&self.probes);
                // Most of the many that a pattern means may never be called.
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
        told.extend(files.unfollowed.iter().map(|why| (Kind::Socket, Untrusted::from(format!("!{why}")))));
        told
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

/// Whether somebody who says `library` means a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// By its path, or by its name, of which a version may be left out; `*` is any text.
    Yes,
    /// It is another version, whose own name in the file decides: `libcuda.so.580.1` calls itself
    /// `libcuda.so.1`.
    Perhaps,
    No,
}

impl Named {
    fn of(library: &str, path: &Path) -> Self {
        let path = path.as_os_str().as_bytes();
        let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
        let is_it = |is_it| if is_it { Self::Yes } else { Self::No };
        if library.contains('/') {
            return is_it(names::matches(library, path));
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let without_version =
            name.strip_prefix(library.as_bytes()).is_some_and(|rest| rest.starts_with(b"."));
        if without_version || names::matches(library, name) {
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
