//! Pauses of the whole guest, found by late beats of its CPUs, and the phases that they fall into. Pure.
//!
//! A pause is a time in which no CPU ran a timer though each had one due, and of which stolen time explains
//! less than half. One late CPU alone is no pause, whatever delayed it. A pause begins between the last timer
//! that ran and the first that did not; the middle is used, with the possible error. While a pause is
//! undecided, which takes until the next beats, the requests that it may fall into are held back, with
//! everything after them. On a machine that is short of CPUs this may be all the time, so nothing is held
//! back for longer than the beats of one silence may take.

use std::collections::{BTreeMap, VecDeque};

use guestscope_contract::pause::{BEAT_NS, GapRecord};

use super::{output::Output, values::Phase};

use super::pause::Pause;

/// Shortest pause, ns: hypervisors run other guests for some milliseconds at a time.
pub const LEAST_NS: u64 = 10_000_000;
/// Time after a silence beyond which no more beats are awaited, ns: beats that are due come at once, and then
/// the next. Nothing is held back for longer either.
const PATIENCE_NS: u64 = 3 * BEAT_NS;
/// Pauses that are remembered for phases that have not ended.
const KNOWN: usize = 4096;
/// Silences that are decided at once.
const UNDECIDED: usize = 16;
/// Late beats that are remembered: both records of as many CPUs as most guests have.
const HEARD: usize = 512;

/// Memory for held outputs, bytes: beyond it the oldest are released, decided or not.
const HELD: usize = 8 << 20;

/// A silence of all CPUs that may be a pause.
#[derive(Debug)]
struct Candidate {
    begin_ns: u64,
    due_ns: u64,
    end_ns: u64,
    cpus: u32,
    /// CPU to what was stolen from it, once that is known.
    late: BTreeMap<u32, Option<u64>>,
}

impl Candidate {
    /// Returns none for a gap that cannot be a pause: it was short, or no CPU had been seen alive before.
    fn of(gap: &GapRecord) -> Option<Self> {
        let silence = gap.silence;
        let is_long = silence.end_ns.saturating_sub(silence.begin_ns) >= LEAST_NS;
        (is_long && silence.begin_ns != 0 && gap.is_settled == 0).then(|| Self {
            begin_ns: silence.begin_ns,
            due_ns: silence.due_ns.clamp(silence.begin_ns, silence.end_ns),
            end_ns: silence.end_ns,
            cpus: gap.cpus,
            late: BTreeMap::new(),
        })
    }

    /// CPUs that start to run together may each see the end of one silence: merges it. Whether it was one.
    fn merge(&mut self, other: &Self) -> bool {
        let is_same = self.begin_ns < other.end_ns && other.begin_ns < self.end_ns;
        if is_same {
            self.begin_ns = self.begin_ns.max(other.begin_ns);
            self.end_ns = self.end_ns.min(other.end_ns);
            self.due_ns = self.due_ns.min(other.due_ns).clamp(self.begin_ns, self.end_ns);
        }
        is_same
    }

    /// A CPU had a timer due in the silence and ran it only afterwards: maybe after another silence, where it
    /// had to wait for its turn.
    fn hear(&mut self, gap: &GapRecord) {
        if gap.due_ns >= self.end_ns || gap.time_ns < self.end_ns {
            return;
        }
        self.due_ns = self.due_ns.min(gap.due_ns).max(self.begin_ns);
        let stolen = self.late.entry(gap.cpu).or_default();
        if gap.is_settled != 0 {
            *stolen = Some(gap.stolen_ns);
        }
    }

    fn is_decided(&self) -> bool {
        self.late.len() >= self.cpus as usize && self.late.values().all(Option::is_some)
    }

    fn pause(&self) -> Option<Pause> {
        let doubt_ns = (self.due_ns - self.begin_ns) / 2;
        let start_ns = self.begin_ns + doubt_ns;
        let duration_ns = self.end_ns - start_ns;
        let stolen_ns = self.late.values().flatten().copied().max().unwrap_or(0);
        let is_stolen = stolen_ns >= duration_ns.div_ceil(2);
        (duration_ns >= LEAST_NS && !is_stolen).then_some(Pause { start_ns, duration_ns, doubt_ns })
    }
}

/// Decides about pauses, and lays them over phases on their way out.
#[derive(Debug, Default)]
pub struct Pauses {
    undecided: VecDeque<Candidate>,
    /// The last late beats: those of other CPUs may come before the one that reports a silence.
    heard: VecDeque<GapRecord>,
    /// The end of the last silence that was decided, ns.
    decided_ns: u64,
    /// Known pauses in the order of time, without overlap.
    known: VecDeque<Pause>,
    /// Pauses that have not been handed on.
    told: Vec<Output>,
    /// Held outputs in the order of arrival, with the time of arrival, ns.
    held: VecDeque<(u64, Output)>,
    /// Memory of the held outputs, bytes.
    held_bytes: usize,
}

impl Pauses {
    /// A beat came late.
    pub fn gap(&mut self, gap: &GapRecord) {
        if self.heard.len() == HEARD {
            self.heard.pop_front();
        }
        self.heard.push_back(*gap);
        if let Some(mut new) = Candidate::of(gap)
            && self.decided_ns <= new.begin_ns
            && !self.undecided.iter_mut().any(|candidate| candidate.merge(&new))
        {
            self.heard.iter().for_each(|gap| new.hear(gap));
            if self.undecided.len() == UNDECIDED {
                self.undecided.pop_front();
            }
            self.undecided.push_back(new);
        }
        self.undecided.iter_mut().for_each(|candidate| candidate.hear(gap));
        while let Some(at) = self.undecided.iter().position(Candidate::is_decided) {
            let Some(decided) = self.undecided.remove(at) else { return };
            self.decided_ns = self.decided_ns.max(decided.end_ns);
            if let Some(pause) = decided.pause() {
                self.know(pause);
            }
        }
    }

    /// Keeps a decided pause.
    fn know(&mut self, pause: Pause) {
        let before_ns = self.known.back().map_or(0, Pause::end_ns);
        let start_ns = pause.start_ns.max(before_ns);
        // Two silences never overlap, so this cuts only what was mixed up.
        let Some(duration_ns) = pause.end_ns().checked_sub(start_ns).filter(|&ns| ns > 0) else { return };
        let pause = Pause { start_ns, duration_ns, ..pause };
        if self.known.len() == KNOWN {
            self.known.pop_front();
        }
        self.known.push_back(pause);
        self.told.push(Output::Pause(pause));
    }

    /// Whether beats are awaited that decide what has come already.
    pub fn is_undecided(&self) -> bool {
        !self.undecided.is_empty()
    }

    /// Takes what pairing has yielded, and returns what is decided or was held for too long, in the order of
    /// arrival: pauses come before the requests that they fall into.
    pub fn pass(&mut self, outputs: Vec<Output>, now_ns: u64) -> Vec<Output> {
        self.undecided.retain(|candidate| now_ns.saturating_sub(candidate.end_ns) < PATIENCE_NS);
        self.held_bytes += outputs.iter().map(Output::bytes).sum::<usize>();
        self.held.extend(outputs.into_iter().map(|output| (now_ns, output)));
        let mut bytes = self.held_bytes;
        let may_leave = |(since_ns, output): &&(u64, Output)| {
            let has_room = bytes <= HELD;
            bytes -= output.bytes();
            now_ns.saturating_sub(*since_ns) >= PATIENCE_NS || !has_room || !self.is_in_doubt(output)
        };
        let free = self.held.iter().take_while(may_leave).count();
        self.hand_on(free)
    }

    /// The same when no more beats are awaited.
    pub fn last(&mut self) -> Vec<Output> {
        self.undecided.clear();
        self.hand_on(self.held.len())
    }

    /// Whether what is undecided may lie in it. It can only turn out to be shorter.
    fn is_in_doubt(&self, output: &Output) -> bool {
        let Output::Request(request) = output else { return false };
        let may_lie_in = |candidate: &Candidate, phase: &Phase| {
            let end_ns = phase.start_ns.saturating_add(phase.duration_ns);
            candidate.begin_ns < end_ns && phase.start_ns < candidate.end_ns
        };
        let mut candidates = self.undecided.iter();
        candidates.any(|candidate| request.phases.iter().any(|phase| may_lie_in(candidate, phase)))
    }

    /// Releases held outputs. Pauses were decided after them: they go first.
    fn hand_on(&mut self, free: usize) -> Vec<Output> {
        let mut outputs = std::mem::take(&mut self.told);
        let told = outputs.len();
        outputs.extend(self.held.drain(..free).map(|(_, output)| output));
        self.held_bytes -= outputs[told..].iter().map(Output::bytes).sum::<usize>();
        if !self.known.is_empty() {
            for output in &mut outputs {
                if let Output::Request(request) = output {
                    request.phases.iter_mut().for_each(|phase| phase.pause_ns = self.paused_ns(phase));
                }
            }
        }
        outputs
    }

    /// How long the guest was paused inside a phase.
    fn paused_ns(&self, phase: &Phase) -> u64 {
        let first = self.known.partition_point(|pause| pause.end_ns() <= phase.start_ns);
        let within = self.known.range(first..).map_while(|pause| pause.within(phase));
        within.map(|(_, ns)| ns).sum()
    }
}

#[cfg(test)]
mod tests;
