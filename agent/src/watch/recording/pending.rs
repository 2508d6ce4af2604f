//! What may become an incident, and incidents whose time has not passed yet.
//!
//! Pure: times in, decisions out.

use crate::{
    clock::ClockPair,
    folder::IncidentRecord,
    phase::{Ending, Request},
    watch::{
        flood::{HOUR_NS, Kind},
        shared::Listed,
        values::Time,
    },
};

/// Time after the end of what is kept until it is gathered: rows are in the folder by then, ns.
const SETTLED_NS: u64 = 2_000_000_000;
/// No longer than this, ns.
const PATIENCE_NS: u64 = 10_000_000_000;
/// A question may be newer than the clock of the tick that answers it, ns.
const ASKED_NS: u64 = 1_000_000_000;
/// Most incidents that wait for their end.
pub(super) const MOST_PENDING: usize = 64;
/// What `ctl keep` asks for has this in place of a trigger.
pub(super) const STRETCH_TRIGGER: &str = "asked for a stretch of time";

/// An incident whose time has not passed yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) number: u64,
    pub(super) record: IncidentRecord,
    /// When it was noticed, or its end if that is later, CLOCK_MONOTONIC, ns. A busy agent notices a request
    /// only after it has ended, and writes its rows then.
    last_ns: u64,
}

impl Pending {
    pub(super) fn new(number: u64, record: IncidentRecord, noticed_ns: u64) -> Self {
        let last_ns = record.to_ns.max(noticed_ns);
        Self { number, record, last_ns }
    }

    /// Whether its rows are written, and its limits are counted up to this time, or it waited long enough.
    pub(super) fn is_due(&self, now_ns: u64, counted_ns: u64) -> bool {
        let is_settled = now_ns.saturating_sub(self.last_ns) >= SETTLED_NS;
        self.is_late(now_ns) || is_settled && counted_ns >= self.record.to_ns
    }

    /// Whether it waits no longer, whatever it lacks.
    pub(super) fn is_late(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.last_ns) >= PATIENCE_NS
    }

    /// Nothing is recorded from then on.
    pub(super) fn end_by(&mut self, now_ns: u64) {
        self.record.to_ns = self.record.to_ns.min(now_ns).max(self.record.from_ns);
    }

    /// The time in which its rows were written, CLOCK_MONOTONIC, ns: some after the end of what they tell.
    pub(super) fn written_ns(&self) -> (u64, u64) {
        (self.record.from_ns, self.last_ns.saturating_add(PATIENCE_NS))
    }
}

/// What was noticed.
pub(super) struct Noticed {
    pub(super) trigger: String,
    pub(super) request: String,
    pub(super) duration_ns: u64,
    pub(super) typical_ns: Option<u64>,
    pub(super) cause: String,
    /// Begin and end, CLOCK_MONOTONIC, ns.
    pub(super) span_ns: (u64, u64),
}

impl Noticed {
    /// Something at one moment.
    pub(super) fn at(trigger: String, at_ns: u64) -> Self {
        Self {
            trigger,
            request: String::new(),
            duration_ns: 0,
            typical_ns: None,
            cause: String::new(),
            span_ns: (at_ns, at_ns),
        }
    }

    /// What is kept of it: from so long before its begin to so long after its end.
    pub(super) fn record(self, at: String, (before, after): (Time, Time)) -> IncidentRecord {
        let Self { trigger, request, duration_ns, typical_ns, cause, span_ns } = self;
        let (from_ns, to_ns) = (span_ns.0.saturating_sub(before.ns()), span_ns.1.saturating_add(after.ns()));
        IncidentRecord { at, trigger, request, duration_ns, typical_ns, cause, from_ns, to_ns }
    }
}

/// What the list of incidents has of it, as of now.
pub(super) fn listed(record: &IncidentRecord, now: ClockPair) -> Listed {
    let IncidentRecord { at, trigger, request, duration_ns, typical_ns, cause, .. } = record.clone();
    let at_ns = now.wall_ns;
    Listed { at, at_ns, trigger, request, duration_ns, typical_ns, cause, ..Listed::default() }
}

/// Kind, time by this boot's CLOCK_MONOTONIC, ns, and number of an incident that an earlier agent kept, if it
/// still counts for [`Flood`](crate::watch::flood::Flood). One from before the boot has the time 0.
pub(super) fn kept_before(one: &Listed, now: ClockPair, alike_ns: u64) -> Option<(Kind, u64, u64)> {
    let age_ns = now.wall_ns.checked_sub(one.at_ns)?;
    let kind = Kind { request: one.request.clone(), cause: one.cause.clone(), trigger: one.trigger.clone() };
    let is_recent = age_ns <= HOUR_NS.max(alike_ns);
    let counts = is_recent && one.at_ns > 0 && !one.folder.is_empty() && one.trigger != STRETCH_TRIGGER;
    counts.then(|| (kind, now.monotonic_ns.saturating_sub(age_ns), one.number))
}

/// Why a stretch of time that ends then cannot be kept, if it cannot; wall times, ns. So many wait already.
pub(super) fn refusal(to_ns: u64, now_ns: u64, after: Time, waiting: usize) -> Option<String> {
    if to_ns > now_ns.saturating_add(after.ns()).saturating_add(ASKED_NS) {
        return Some(format!("its end is later than {after} from now (incidents.after)"));
    }
    (waiting >= MOST_PENDING).then(|| format!("{waiting} others wait for their end already"))
}

/// Whether a request may be noticed: statistics leave out the others, so their durations say nothing.
pub(super) fn may_be_noticed(request: &Request) -> bool {
    !request.is_warmup() && request.root().ending == Ending::Ended
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use guestscope_contract::Account;
    use rstest::rstest;

    use super::*;
    use crate::analyze::samples::{Sample, Step};

    const S: u64 = 1_000_000_000;

    #[rstest]
    #[case::not_settled(0, 21, 30, false)]
    #[case::settled(0, 22, 20, true)]
    #[case::limits_not_counted(0, 29, 19, false)]
    #[case::out_of_patience(0, 30, 0, true)]
    // Noticed 30 s after its end: its rows are being written.
    #[case::noticed_late(50, 51, 60, false)]
    #[case::noticed_late_and_settled(50, 52, 60, true)]
    fn an_incident_of_20_s_is_due(
        #[case] noticed_s: u64,
        #[case] now_s: u64,
        #[case] counted_s: u64,
        #[case] is_due: bool,
    ) {
        let record = IncidentRecord { from_ns: 10 * S, to_ns: 20 * S, ..IncidentRecord::default() };
        let pending = Pending::new(0, record, noticed_s * S);
        assert_eq!(pending.is_due(now_s * S, counted_s * S), is_due);
    }

    #[rstest]
    #[case::usual(0, 30)]
    #[case::noticed_late(50, 60)]
    fn rows_are_written_after_their_time(#[case] noticed_s: u64, #[case] until_s: u64) {
        let record = IncidentRecord { from_ns: 10 * S, to_ns: 20 * S, ..IncidentRecord::default() };
        let pending = Pending::new(0, record, noticed_s * S);
        assert_eq!(pending.written_ns(), (10 * S, until_s * S));
        assert!(!pending.is_late(until_s * S - 1) && pending.is_late(until_s * S));
    }

    #[rstest]
    #[case::past(50, 0, None)]
    #[case::as_far_as_an_incident(105, MOST_PENDING - 1, None)]
    #[case::future(107, 0, Some("its end is later than 5s from now (incidents.after)"))]
    #[case::too_many(50, MOST_PENDING, Some("64 others wait for their end already"))]
    fn some_stretches_are_refused(#[case] to_s: u64, #[case] waiting: usize, #[case] why: Option<&str>) {
        let after = Time(Duration::from_secs(5));
        assert_eq!(refusal(to_s * S, 100 * S, after, waiting).as_deref(), why);
    }

    #[rstest]
    #[case::usual("GET /", Ending::Ended, true)]
    #[case::warmup("warmup", Ending::Ended, false)]
    #[case::its_end_was_lost("GET /", Ending::Lost, false)]
    #[case::its_thread_exited("GET /", Ending::ThreadExited, false)]
    fn some_requests_are_never_noticed(
        #[case] name: &'static str,
        #[case] ending: Ending,
        #[case] expected: bool,
    ) {
        let mut request = Sample { name, ..Sample::new(1, S, vec![Step::Spend(Account::Cpu, S)]) }.build();
        request.phases[0].ending = ending;
        assert_eq!(may_be_noticed(&request), expected);
    }

    /// The guest booted half a minute ago.
    #[rstest]
    #[case::a_minute_ago(60, "slow", true)]
    #[case::an_hour_ago(3_600, "slow", true)]
    #[case::last_month(30 * 86_400, "slow", false)]
    #[case::a_stretch(60, STRETCH_TRIGGER, false)]
    fn incidents_of_an_earlier_agent_count_for_an_hour(
        #[case] age_s: u64,
        #[case] trigger: &str,
        #[case] counts: bool,
    ) {
        let now = ClockPair { monotonic_ns: 30 * S, wall_ns: 1_800_000_000 * S };
        let at_ns = now.wall_ns - age_s * S;
        let (trigger, folder) = (trigger.to_owned(), "/incidents/one".to_owned());
        let one = Listed { number: 7, at_ns, trigger, folder, ..Listed::default() };
        let kept = kept_before(&one, now, 600 * S).map(|(_, at_ns, number)| (at_ns, number));
        assert_eq!(kept, counts.then_some((0, 7)));
        assert_eq!(
            kept_before(&Listed { folder: String::new(), ..one }, now, 600 * S),
            None,
            "it was not kept"
        );
    }
}
