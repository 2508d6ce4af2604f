//! How many incidents are kept: others alike are counted, and there are at most so many an hour.
//!
//! Pure: times in, verdicts out.

use std::collections::VecDeque;

/// Most kinds of incidents that are told apart.
const MOST_KINDS: usize = 1024;
/// An hour, ns.
pub(super) const HOUR_NS: u64 = 3_600_000_000_000;

/// Bounds on incidents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) per_hour: u32,
    /// For so long after one was kept, others alike are counted, ns.
    pub(super) alike_ns: u64,
}

/// What becomes of an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is kept.
    Keep,
    /// It is like the one with this number, which was kept.
    Alike(u64),
    /// There were too many in the last hour.
    TooMany,
}

/// Incidents so far.
#[derive(Debug, Default)]
pub(super) struct Flood {
    /// Times, ns, and numbers of those kept in the last hour.
    kept: VecDeque<(u64, u64)>,
    /// Kinds, with the time and the number of the last that was kept.
    kinds: VecDeque<(Kind, u64, u64)>,
}

/// Incidents of one request, cause and trigger are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) request: String,
    pub(super) cause: String,
    pub(super) trigger: String,
}

impl Flood {
    /// After these, which were kept: kinds, times by CLOCK_MONOTONIC, ns, and numbers. What is too old is
    /// forgotten by the next judgement.
    pub(super) fn after(before: impl Iterator<Item = (Kind, u64, u64)>) -> Self {
        let mut kinds: VecDeque<_> = before.collect();
        kinds.make_contiguous().sort_by_key(|&(_, at_ns, number)| (at_ns, number));
        let kept = kinds.iter().map(|&(_, at_ns, number)| (at_ns, number)).collect();
        kinds.drain(..kinds.len().saturating_sub(MOST_KINDS));
        Self { kept, kinds }
    }

    /// Judges an incident of now. `number` is the one that it gets if it is kept.
    pub(super) fn judge(&mut self, kind: &Kind, number: u64, now_ns: u64, bounds: Bounds) -> Verdict {
        while self.kept.front().is_some_and(|(at_ns, _)| now_ns.saturating_sub(*at_ns) > HOUR_NS) {
            self.kept.pop_front();
        }
        self.kinds.retain(|(_, at_ns, _)| now_ns.saturating_sub(*at_ns) <= bounds.alike_ns);
        if let Some((.., number)) = self.kinds.iter().find(|(known, ..)| known == kind) {
            return Verdict::Alike(*number);
        }
        if self.kept.len() >= bounds.per_hour as usize {
            return Verdict::TooMany;
        }
        self.kept.push_back((now_ns, number));
        if self.kinds.len() >= MOST_KINDS {
            self.kinds.pop_front();
        }
        self.kinds.push_back((kind.clone(), now_ns, number));
        Verdict::Keep
    }

    /// The one with this number is refused before anything was done for it: it takes no place in the hour,
    /// and the next one alike is judged as if it was the first.
    pub(super) fn refused(&mut self, number: u64) {
        self.kept.retain(|(_, kept)| *kept != number);
        self.failed(number);
    }

    /// The one with this number could not be made: the next one alike is judged as if it was the first. Its
    /// place in the hour stays taken, since to try costs as much as to keep: what fails each time, as on a
    /// full disk, is tried no more than `per_hour` times.
    pub(super) fn failed(&mut self, number: u64) {
        self.kinds.retain(|(.., kept)| *kept != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_NS: u64 = 60_000_000_000;

    #[test]
    fn alike_ones_are_counted_and_others_are_bounded() {
        let mut flood = Flood::default();
        let bounds = Bounds { per_hour: 2, alike_ns: 10 * MINUTE_NS };
        let kind = |request: &str| Kind {
            request: request.to_owned(),
            cause: "lock".to_owned(),
            trigger: "request: slower than 1s".to_owned(),
        };
        let mut number = 0;
        let mut judge = |request: &str, minute: u64| {
            number += 1;
            flood.judge(&kind(request), number, minute * MINUTE_NS, bounds)
        };
        assert_eq!(judge("a", 0), Verdict::Keep);
        assert_eq!(judge("a", 9), Verdict::Alike(1));
        assert_eq!(judge("b", 9), Verdict::Keep);
        assert_eq!(judge("a", 11), Verdict::TooMany);
        assert_eq!(judge("c", 59), Verdict::TooMany);
        assert_eq!(judge("a", 61), Verdict::Keep);
        assert_eq!(judge("a", 62), Verdict::Alike(6));
        assert_eq!(judge("b", 62), Verdict::TooMany);
    }

    #[test]
    fn what_came_to_nothing_stands_in_nobodys_way() {
        let mut flood = Flood::default();
        let bounds = Bounds { per_hour: 2, alike_ns: 10 * MINUTE_NS };
        let (cause, trigger) = (String::new(), "asked for".to_owned());
        let kind = Kind { request: String::new(), cause, trigger };
        assert_eq!(flood.judge(&kind, 1, 0, bounds), Verdict::Keep);
        flood.refused(1);
        assert_eq!(flood.judge(&kind, 2, 1, bounds), Verdict::Keep);
        assert_eq!(flood.judge(&kind, 3, 2, bounds), Verdict::Alike(2));
        flood.failed(2);
        assert_eq!(flood.judge(&kind, 3, 3, bounds), Verdict::Keep, "the refused one took no place");
        flood.failed(3);
        assert_eq!(flood.judge(&kind, 4, 4, bounds), Verdict::TooMany, "those that failed did");
    }

    #[test]
    fn incidents_of_the_agent_before_count() {
        let kind = |request: &str| Kind {
            request: request.to_owned(),
            cause: "runq".to_owned(),
            trigger: "t".to_owned(),
        };
        let bounds = Bounds { per_hour: 2, alike_ns: 10 * MINUTE_NS };
        let before = [(kind("a"), 30 * MINUTE_NS, 2), (kind("b"), 5 * MINUTE_NS, 1)];
        let mut flood = Flood::after(before.into_iter());
        let mut judge =
            |request: &str, minute: u64| flood.judge(&kind(request), 9, minute * MINUTE_NS, bounds);
        assert_eq!(judge("a", 32), Verdict::Alike(2));
        assert_eq!(judge("b", 33), Verdict::TooMany, "two in the last hour");
        assert_eq!(judge("b", 66), Verdict::Keep, "the first is more than an hour ago");
    }
}
