//! Intervals in which at least so many things ran at once. Pure arithmetic.

/// An interval of CLOCK_MONOTONIC, ns.
pub(super) type Span = (u64, u64);

/// When at least so many pieces of work ran at once: intervals, each with the sum of those before it.
pub(super) struct Busy(Vec<(Span, u64)>);

impl Busy {
    pub(super) fn of(work: &[Span], least: usize) -> Self {
        let works = work.iter().filter(|span| span.1 > span.0);
        let mut edges: Vec<(u64, bool)> =
            works.flat_map(|&(start, end)| [(start, true), (end, false)]).collect();
        edges.sort_unstable();
        let (mut running, mut since_ns, mut busy) = (0_usize, 0, Self(Vec::new()));
        for (at_ns, is_start) in edges {
            let was_busy = running >= least;
            running = if is_start { running + 1 } else { running - 1 };
            match (was_busy, running >= least) {
                (false, true) => since_ns = at_ns,
                (true, false) => busy.add((since_ns, at_ns)),
                (true, true) | (false, false) => {}
            }
        }
        busy
    }

    fn add(&mut self, span: Span) {
        match self.0.last_mut() {
            Some((last, _)) if span.0 <= last.1 => last.1 = last.1.max(span.1),
            last => {
                let sum = last.map_or(0, |(last, sum)| *sum + (last.1 - last.0));
                self.0.push((span, sum));
            }
        }
    }

    /// Time before this one, ns.
    fn before(&self, at_ns: u64) -> u64 {
        let after = self.0.partition_point(|(span, _)| span.0 < at_ns);
        after.checked_sub(1).map_or(0, |at| {
            let (span, sum) = self.0[at];
            sum + (span.1.min(at_ns) - span.0)
        })
    }

    /// Time within an interval, ns.
    pub(super) fn within(&self, span: Span) -> u64 {
        self.before(span.1).saturating_sub(self.before(span.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against counting nanosecond by nanosecond.
        #[test]
        fn times_at_once_are_counted(
            work in proptest::collection::vec((0_u64..60, 0_u64..20), 0..12),
            span in (0_u64..40, 0_u64..40),
            least in 1_usize..3,
        ) {
            let work: Vec<Span> = work.into_iter().map(|(start, length)| (start, start + length)).collect();
            let span = (span.0, span.0 + span.1);
            let busy = Busy::of(&work, least);
            let runs = |at: u64| work.iter().filter(|one| (one.0..one.1).contains(&at)).count();
            let expected = (span.0..span.1).filter(|&at| runs(at) >= least).count() as u64;
            prop_assert_eq!(busy.within(span), expected);
        }
    }
}
