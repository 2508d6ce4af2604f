//! State of a thread: its ordinal, the number of its last edge, and the roots that it is inside. Yields
//! tokens and numbered edges; every call of the library passes through `with`, which also notices a fork. It
//! deliberately keeps no list of open phases: nesting is counted per root, and the agent finds which phase
//! was innermost.

use core::{
    cell::Cell,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::{
    edge::{self, Operation},
    ids, process,
    reading::{self, Myself},
    ring, syscall, token,
};

/// Roots that one thread can be inside at the same time: a request within a phase, an entered task within a
/// request.
const FRAMES: usize = 8;
/// Child numbers of a root that never moved are below; numbers given after it was entered are from here on.
const MOVED: u64 = 1 << (token::CHILD_BITS - 1);
/// A generation that no process has.
const UNKNOWN: u32 = u32::MAX;

/// A root that the thread is inside, and how deep. Children are numbered here until the root moves.
#[derive(Clone, Copy)]
struct Frame {
    root: u64,
    depth: u32,
    children: u64,
}

const NO_FRAME: Frame = Frame { root: 0, depth: 0, children: 0 };

/// The state of one thread. Only that thread touches it.
pub(crate) struct Thread {
    generation: Cell<u32>,
    edges: Cell<u32>,
    /// Thread ID, for an agent without BPF, and when it was looked up. Known only if there is a ring.
    tid: Cell<u32>,
    born_ns: Cell<u64>,
    ordinal: Cell<u32>,
    roots: Cell<u32>,
    open: Cell<usize>,
    frames: [Cell<Frame>; FRAMES],
}

#[cfg(feature = "std")]
std::thread_local! {
    static THREAD: Thread = const { Thread::new() };
}

#[cfg(not(feature = "std"))]
#[thread_local]
static THREAD: Thread = Thread::new();

/// Runs `f` on this thread's state, in a prepared process.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&Thread) -> R) -> R {
    #[cfg(feature = "std")]
    return THREAD.with(|thread| f(thread.ready()));
    #[cfg(not(feature = "std"))]
    f(THREAD.ready())
}

/// Fires the probe, and writes the edge to the ring. Where that has no room, nothing is read.
#[cold]
#[inline(never)]
extern "C" fn fire_and_write(head: u64, token: u64, a2: u64, a3: u64, a4: u64, a5: u64) {
    let arguments = [token, a2, a3, a4, a5];
    edge::fire(head, arguments);
    let Some(ring) = ring::current().filter(ring::Ring::has_room) else { return };
    let myself = |thread: &Thread| Myself {
        tgid: process::number(),
        tid: thread.tid.get(),
        born_ns: thread.born_ns.get(),
    };
    #[cfg(feature = "std")]
    let myself = THREAD.with(myself);
    #[cfg(not(feature = "std"))]
    let myself = myself(&THREAD);
    // SAFETY: names were read by the call that fires, whose caller guarantees them.
    let record = unsafe { reading::record(head, arguments, myself) };
    if let Some(position) = ring.claim() {
        ring.commit(position, &record);
    }
}

impl Thread {
    const fn new() -> Self {
        Self {
            generation: Cell::new(UNKNOWN),
            edges: Cell::new(0),
            tid: Cell::new(0),
            born_ns: Cell::new(0),
            ordinal: Cell::new(0),
            roots: Cell::new(0),
            open: Cell::new(0),
            frames: [const { Cell::new(NO_FRAME) }; FRAMES],
        }
    }

    #[inline]
    fn ready(&self) -> &Self {
        if self.generation.get() != process::generation() {
            self.join_process();
        }
        self
    }

    /// First call of the thread, or of a thread whose process forked: it is a new thread to the agent, with
    /// no phase open and no edge fired. Ordinal and root counter continue, so that its tokens differ from its
    /// parent's.
    #[cold]
    fn join_process(&self) {
        static THREADS: AtomicU32 = AtomicU32::new(0);
        self.generation.set(process::prepare());
        self.open.set(0);
        self.edges.set(0);
        if ring::current().is_some() {
            self.tid.set(syscall::thread_number());
            self.born_ns.set(syscall::monotonic_ns());
        }
        while u64::from(self.ordinal.get()) & token::mask(token::THREAD_BITS) == 0 {
            self.ordinal.set(THREADS.fetch_add(1, Relaxed).wrapping_add(1));
        }
    }

    /// The generation of the process in which it is prepared.
    #[inline]
    pub(crate) fn process(&self) -> u32 {
        self.generation.get()
    }

    /// Numbers and fires an edge.
    #[inline]
    pub(crate) fn fire(&self, operation: Operation, arguments: [u64; 5]) {
        let number = self.edges.get().wrapping_add(1);
        self.edges.set(number);
        let head = edge::head(operation, edge::instance(), number);
        // Costs one jump without a ring: both paths take their arguments in the same registers.
        if ring::is_there() {
            let [token, a2, a3, a4, a5] = arguments;
            return fire_and_write(head, token, a2, a3, a4, a5);
        }
        edge::fire(head, arguments);
    }

    /// The token of a phase that begins here: a child of the innermost root, or a root where there is none.
    #[inline]
    pub(crate) fn begin(&self) -> u64 {
        let Some((cell, mut frame)) = self.top() else { return self.begin_root() };
        frame.depth += 1;
        frame.children = (frame.children + 1).min(MOVED);
        cell.set(frame);
        frame.root | if frame.children < MOVED { frame.children } else { child_of_moved(frame.root) }
    }

    /// The token of a new root, which is the innermost from here on.
    #[inline]
    pub(crate) fn begin_root(&self) -> u64 {
        let number = self.roots.get().wrapping_add(1);
        self.roots.set(number);
        let root = token::pack(u64::from(self.ordinal.get()), u64::from(number), 0);
        self.push(Frame { root, depth: 1, children: 0 });
        root
    }

    /// The phase of `token` continues here. Its root is the innermost from now on.
    #[inline]
    pub(crate) fn enter(&self, token: u64) {
        let root = token::root(token);
        match self.top() {
            Some((cell, frame)) if frame.root == root => cell.set(Frame { depth: frame.depth + 1, ..frame }),
            // Other threads may number this root's children too, so they are numbered in common.
            _ => self.push(Frame { root, depth: 1, children: MOVED }),
        }
    }

    /// Ends this thread's stay in the phase of `token`; 0 is the innermost. A token of a root that this
    /// thread is not inside changes nothing. Returns 1 if the thread is inside no phase afterwards, else 2.
    #[inline]
    pub(crate) fn close(&self, token: u64) -> u64 {
        self.give_up(token);
        if self.open.get() == 0 { 1 } else { 2 }
    }

    #[inline]
    fn give_up(&self, token: u64) {
        let open = self.open.get();
        let root = token::root(token);
        for at in (0..open.min(FRAMES)).rev() {
            let frame = self.frames[at].get();
            if token != 0 && frame.root != root {
                continue;
            }
            self.frames[at].set(Frame { depth: frame.depth - 1, ..frame });
            if frame.depth == 1 {
                self.remove(at);
            }
            return;
        }
    }

    /// Whether the root is this thread's innermost, has been here all the time and has had no phase.
    #[inline]
    pub(crate) fn is_untouched(&self, root: u64) -> bool {
        self.top().is_some_and(|(_, frame)| frame.root == root && frame.children == 0)
    }

    /// The innermost root, 0 outside all.
    pub(crate) fn root(&self) -> u64 {
        self.top().map_or(0, |(_, frame)| frame.root)
    }

    #[inline]
    fn top(&self) -> Option<(&Cell<Frame>, Frame)> {
        let cell = self.frames.get(self.open.get().wrapping_sub(1))?;
        Some((cell, cell.get()))
    }

    #[inline]
    fn push(&self, frame: Frame) {
        if self.open.get() >= FRAMES {
            // Phases that never end fill the frames from below: the outermost is given up, and a phase that
            // begins inside it once the others have ended is a new root.
            self.remove(0);
        }
        let open = self.open.get();
        if let Some(cell) = self.frames.get(open) {
            cell.set(frame);
            self.open.set(open + 1);
        }
    }

    #[inline]
    fn remove(&self, at: usize) {
        let last = self.open.get().wrapping_sub(1).min(FRAMES - 1);
        for pair in at..last {
            self.frames[pair].set(self.frames[pair + 1].get());
        }
        self.open.set(last);
    }
}

/// A child number of a root that more than one thread may be numbering, or that has used up its numbers: from
/// one of 1,024 counters that the root's hash chooses, so that it comes again only after 131,072 others of
/// that counter.
#[cold]
fn child_of_moved(root: u64) -> u64 {
    static COUNTERS: [AtomicU32; 1024] = [const { AtomicU32::new(0) }; 1024];
    let counter = &COUNTERS[ids::mix(root) as usize % COUNTERS.len()];
    MOVED | u64::from(counter.fetch_add(1, Relaxed)) & (MOVED - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Act {
        Begin,
        Request,
        End,
        /// Leaves or enters the phase that is this many places up from the innermost, or that was left this
        /// long ago.
        Leave(usize),
        Enter(usize),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            4 => Just(Act::Begin),
            1 => Just(Act::Request),
            3 => Just(Act::End),
            1 => (0..3_usize).prop_map(Act::Leave),
            1 => (0..3_usize).prop_map(Act::Enter),
        ]
    }

    /// The roots that the model is inside, outermost first, each with the number of its phases that are open
    /// here.
    #[derive(Default)]
    struct Model {
        roots: Vec<(u64, u32)>,
        open: Vec<u64>,
        left: Vec<u64>,
    }

    impl Model {
        fn open(&mut self, token: u64) {
            self.open.push(token);
            match self.roots.last_mut() {
                Some((root, depth)) if *root == token::root(token) && !token::is_root(token) => *depth += 1,
                _ => self.roots.push((token::root(token), 1)),
            }
        }

        fn close(&mut self, at: usize) -> u64 {
            let token = self.open.remove(at);
            let of = self.roots.iter().rposition(|(root, _)| *root == token::root(token));
            let of = of.expect("an open phase is of an open root");
            self.roots[of].1 -= 1;
            self.roots.retain(|(_, depth)| *depth > 0);
            token
        }
    }

    proptest! {
        #[test]
        fn tokens_are_unique_and_belong_to_the_innermost_root(acts in prop::collection::vec(act(), 0..200)) {
            let thread = Thread::new();
            thread.ready();
            let (mut model, mut seen) = (Model::default(), HashSet::new());
            for act in acts {
                let full = model.roots.len() == FRAMES;
                match act {
                    Act::Request | Act::Begin | Act::Enter(_) if full => {}
                    Act::Request => {
                        let token = thread.begin_root();
                        prop_assert!(token::is_root(token) && seen.insert(token));
                        model.open(token);
                    }
                    Act::Begin => {
                        let token = thread.begin();
                        prop_assert!(token != 0 && seen.insert(token));
                        match model.roots.last() {
                            Some((root, _)) => prop_assert_eq!(token::root(token), *root),
                            None => prop_assert!(token::is_root(token)),
                        }
                        model.open(token);
                    }
                    Act::End => if let Some(last) = model.open.len().checked_sub(1) {
                        thread.close(model.close(last));
                    },
                    Act::Leave(up) => if let Some(at) = model.open.len().checked_sub(1 + up) {
                        let token = model.close(at);
                        thread.close(token);
                        model.left.push(token);
                    },
                    Act::Enter(ago) => if let Some(at) = model.left.len().checked_sub(1 + ago) {
                        let token = model.left.remove(at);
                        thread.enter(token);
                        if model.roots.last().is_some_and(|(root, _)| *root == token::root(token)) {
                            model.open.push(token);
                            model.roots.last_mut().expect("just seen").1 += 1;
                        } else {
                            model.open(token);
                        }
                    },
                }
                prop_assert_eq!(thread.root(), model.roots.last().map_or(0, |(root, _)| *root));
            }
        }
    }

    #[test]
    fn children_stay_unique_beyond_the_counter_of_their_root() {
        let thread = Thread::new();
        thread.ready();
        let root = thread.begin_root();
        let mut seen = HashSet::new();
        for _ in 0..200_000 {
            let child = thread.begin();
            thread.close(child);
            assert_eq!(token::root(child), root);
            assert!(!token::is_root(child) && seen.insert(child));
        }
    }

    #[test]
    fn threads_that_share_a_root_number_its_children_apart() {
        let root = {
            let thread = Thread::new();
            thread.ready();
            thread.begin_root()
        };
        let children = || {
            let thread = Thread::new();
            thread.ready();
            thread.enter(root);
            (0..10_000).map(|_| thread.begin()).collect::<Vec<u64>>()
        };
        let all: Vec<u64> = std::thread::scope(|scope| {
            let threads = [scope.spawn(children), scope.spawn(children)];
            threads.into_iter().flat_map(|thread| thread.join().expect("does not panic")).collect()
        });
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 20_000);
    }
}
