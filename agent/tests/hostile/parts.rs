//! Parts of hostile folders: valid folders, closed and open, requests of any shape, numbers that a seed
//! decides.

use std::path::{Path, PathBuf};

use guestscope::{
    folder::{ClockPair, CreateOptions, Manifest, RunFolder},
    phase::{Accounts, Counts, Ending, Helpers, Phase, PhaseKind, Request, ThreadId, TraceIds},
};
use guestscope_contract::{Account, Source};
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng as _, SeedableRng as _},
};

/// Random numbers of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Drawn(SplitMix64);

impl Drawn {
    /// The numbers of folder `index`.
    pub(crate) fn of(seed: u64, index: u64) -> Self {
        let mut drawn = Self(SplitMix64::seed_from_u64(seed ^ index.wrapping_mul(0xd134_2543_de82_ef95)));
        drawn.next();
        drawn
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// One of these.
    pub(crate) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A number between two sizes, evenly distributed over orders of magnitude.
    pub(crate) fn size(&mut self, least: u64, most: u64) -> u64 {
        let part = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        ((least as f64).ln() + part * ((most as f64).ln() - (least as f64).ln())).exp() as u64
    }
}

/// Shape of a folder's requests.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) requests: u64,
    /// Phases of each request, its outermost one included.
    pub(crate) phases: u64,
    pub(crate) name_bytes: usize,
    /// Whether each phase has a name of its own.
    pub(crate) is_named_apart: bool,
    /// Whether each phase lies in the one before it.
    pub(crate) is_nested: bool,
    /// Whether durations are as long as 64 bits allow.
    pub(crate) is_endless: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            requests: 40,
            phases: 4,
            name_bytes: 8,
            is_named_apart: false,
            is_nested: false,
            is_endless: false,
        }
    }
}

impl Shape {
    /// Writes a folder below `parent`: closed, or as a crash leaves it.
    pub(crate) fn write(&self, parent: &Path, is_closed: bool) -> PathBuf {
        let start = ClockPair { monotonic_ns: 5_000_000_000, wall_ns: 1_795_249_821_000_000_000 };
        let mut manifest = Manifest::new([7; 16], "hostile", start);
        manifest.scenario = "VM/2/VNL/CPU".into();
        let options = CreateOptions { parent: parent.to_owned(), owner: None };
        let mut folder = RunFolder::create(&options, manifest).expect("a folder can be made");
        for number in 0..self.requests {
            folder.append_request(&self.request(number));
        }
        folder.flush();
        let path = folder.path().to_owned();
        if is_closed {
            let closed = folder.close(|_| {}, &mut |_| (None, None), &mut |_, _| {});
            closed.expect("it can be closed");
        }
        path
    }

    fn request(&self, number: u64) -> Request {
        let first = number * self.phases + 1;
        let all = (0..self.phases).map(|at| self.phase(number, first, at));
        Request { phases: all.collect() }
    }

    fn phase(&self, number: u64, first: u64, at: u64) -> Phase {
        let parent = if self.is_nested { at.checked_sub(1) } else { (at > 0).then_some(0) };
        let duration_ns = match (at, self.is_endless) {
            (_, true) => u64::MAX - number,
            (0, false) => 1_000_000 + number * 1_000 + self.phases * 1_000,
            (_, false) => 1_000,
        };
        let mut accounts = Accounts::default();
        accounts.0[Account::Cpu as usize] = duration_ns;
        let tag = if self.is_named_apart { first + at } else { at % 3 };
        // Two processes that go through a collective, for those who put processes together.
        let is_collective = at == 3 && !self.is_named_apart;
        let name = if is_collective { "all_reduce".to_owned() } else { padded(tag, self.name_bytes) };
        Phase {
            id: first + at,
            parent: parent.map(|parent| first + parent),
            root: first,
            kind: if at == 0 { PhaseKind::Request } else { PhaseKind::Phase },
            name: name.into(),
            name_damaged: false,
            source: Source::Marker,
            status: None,
            request: number,
            thread: ThreadId { tid: 11, tgid: 10 + (number % 2) as u32, born_ns: 1 },
            comm: "".into(),
            start_ns: 5_000_000_000 + number * 10_000_000 + at * 1_000,
            duration_ns,
            suspended_ns: 0,
            accounts,
            counts: Counts::default(),
            helpers: Helpers::default(),
            trace: TraceIds::default(),
            ending: Ending::Ended,
            edges_lost: 0,
            pause_ns: 0,
            holder: None,
        }
    }
}

/// A number as text of at least this many bytes.
pub(crate) fn padded(number: u64, bytes: usize) -> String {
    let number = number.to_string();
    format!("{}{number}", "0".repeat(bytes.saturating_sub(number.len())))
}

/// Copies the files of a folder, and those of its histograms.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory can be made");
    for entry in std::fs::read_dir(from).expect("a directory can be read") {
        let entry = entry.expect("an entry can be read");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a file can be copied");
        }
    }
}
