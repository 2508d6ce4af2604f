//! A row for a server: its requests compared with what their clients saw.

/// One request in this many has the fault.
const EVERY: u64 = 10;
/// Largest difference from the client's duration: the network, and the server's work before the handler.
const NEAR_NS: u64 = 1_000_000;
const NEAR_PERCENT: u64 = 2;
/// Percentage of durations within this difference, and percentage of a request inside its phases, that are
/// required.
const ENOUGH_PERCENT: usize = 95;

/// A request as its client and the agent saw it.
#[derive(Debug)]
pub(super) struct One {
    pub(super) number: u64,
    pub(super) client_ns: u64,
    /// Including the time that it waited before its start.
    pub(super) ours_ns: u64,
    pub(super) covered_ns: u64,
    /// Time in the account of the fault; 0 if that is not compared.
    pub(super) fault_ns: u64,
    pub(super) cause: Option<String>,
}

impl One {
    pub(super) const fn is_hit(&self) -> bool {
        self.number.is_multiple_of(EVERY)
    }

    const fn apart_ns(&self) -> u64 {
        self.client_ns.abs_diff(self.ours_ns)
    }

    fn is_close(&self) -> bool {
        self.apart_ns() <= NEAR_NS.max(self.client_ns * NEAR_PERCENT / 100)
    }
}

pub(super) struct Row {
    what: String,
    fault: String,
    requests: usize,
    close: usize,
    median_apart_ns: u64,
    worst_apart_ns: u64,
    median_ns: u64,
    /// Share of the spared requests' wall time that lies inside their phases.
    covered: f64,
    named: usize,
    hits: usize,
    /// Other causes that were named instead.
    others: Vec<String>,
}

impl Row {
    pub(super) fn of(what: String, fault: &str, all: &[One]) -> Self {
        let median = |mut values: Vec<u64>| {
            values.sort_unstable();
            values.get(values.len() / 2).copied().unwrap_or(0)
        };
        let (hit, spared): (Vec<&One>, Vec<&One>) = all.iter().partition(|one| one.is_hit());
        let sum = |of: fn(&One) -> u64| spared.iter().map(|one| of(one)).sum::<u64>() as f64;
        let is_named = |one: &&&One| one.cause.as_deref() == Some(fault);
        let others = hit.iter().filter(|one| !is_named(one));
        Self {
            what,
            fault: fault.to_owned(),
            requests: all.len(),
            close: all.iter().filter(|one| one.is_close()).count(),
            median_apart_ns: median(all.iter().map(One::apart_ns).collect()),
            worst_apart_ns: all.iter().map(One::apart_ns).max().unwrap_or(0),
            median_ns: median(spared.iter().map(|one| one.client_ns).collect()),
            covered: sum(|one| one.covered_ns) / sum(|one| one.ours_ns).max(1.0),
            named: hit.iter().filter(is_named).count(),
            hits: hit.len(),
            others: others.map(|one| one.cause.clone().unwrap_or_else(|| "nothing".to_owned())).collect(),
        }
    }

    /// One request of 20, or of fewer, may have another disturbance of the same size.
    pub(super) fn is_named(&self) -> bool {
        self.hits > 0 && self.named + (self.hits / 20).max(1) >= self.hits
    }

    pub(super) fn is_close(&self) -> bool {
        self.close * 100 >= self.requests * ENOUGH_PERCENT
    }

    pub(super) fn is_covered(&self) -> bool {
        self.covered * 100.0 >= ENOUGH_PERCENT as f64
    }

    pub(super) fn head() -> String {
        format!(
            "{:<36} {:>8} {:>9} {:>9} {:>9} {:>9} {:>8}  {:<9} {}",
            "server",
            "requests",
            "median ms",
            "near",
            "apart ms",
            "worst ms",
            "covered",
            "fault",
            "named first"
        )
    }

    pub(super) fn text(&self) -> String {
        let ms = |ns: u64| ns as f64 / 1e6;
        let Row { what, fault, requests, close, covered, named, hits, others, .. } = self;
        let instead = if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) };
        format!(
            "{what:<36} {requests:>8} {:>9.1} {close:>9} {:>9.3} {:>9.3} {covered:>8.3}  {:<9} {named} of {hits}{instead}",
            ms(self.median_ns),
            ms(self.median_apart_ns),
            ms(self.worst_apart_ns),
            fault,
        )
    }
}
