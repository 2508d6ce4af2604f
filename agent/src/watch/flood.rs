//! How many incidents are kept: others alike are counted, and there are at most so many an hour.
//!
//! Pure: times in, verdicts out.

use std::collections::VecDeque;

/// Most kinds of incidents that are told apart.
const MOST_KINDS: usize = 1024;
/// An hour, ns.
const HOUR_NS: u64 = 3_600_000_000_000;

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
    /// Times of those kept in the last hour, ns.
    kept: VecDeque<u64>,
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
    /// Judges an incident of now. `number` is the one that it gets if it is kept.
    pub(super) fn judge(&mut self, kind: &Kind, number: u64, now_ns: u64, bounds: Bounds) -> Verdict {
        while self.kept.front().is_some_and(|at_ns| now_ns.saturating_sub(*at_ns) > HOUR_NS) {
            self.kept.pop_front();
        }
        self.kinds.retain(|(_, at_ns, _)| now_ns.saturating_sub(*at_ns) <= bounds.alike_ns);
        if let Some((.., number)) = self.kinds.iter().find(|(known, ..)| known == kind) {
            return Verdict::Alike(*number);
        }
        if self.kept.len() >= bounds.per_hour as usize {
            return Verdict::TooMany;
        }
        self.kept.push_back(now_ns);
        if self.kinds.len() >= MOST_KINDS {
            self.kinds.pop_front();
        }
        self.kinds.push_back((kind.clone(), now_ns, number));
        Verdict::Keep
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
}
