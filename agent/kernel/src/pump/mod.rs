//! From the rings to pairing: drains them, sorts records by time, counts unreadable ones.
//!
//! Edges, lives of tasks and waits use separate rings, so their order has to be restored. A thread's edges
//! were submitted before its exit: draining events first, then edges, means that all edges of a seen exit are
//! seen too. A fork was submitted before the child's first edge: draining events again after the edges finds
//! it; exits of that second round wait for the next one. A wait may fall into phases of other threads: waits
//! from before the newest edge that was read are passed on with it, later ones wait for the edges that may
//! precede them. Completed I/Os use the ring of waits and are treated alike. It allocates one bounded batch.
//! Phases are the pairing's task.

use aya::maps::{MapData, RingBuf};
use guestscope_contract::{EdgeRecord, Kind};

use crate::{
    phase::pairing::Pairing,
    record::{DecodeError, Record, decode},
};

/// Edges in one batch: 2,048 of 616 bytes are 1.3 MB. At 1,000 requests/s some 500 come between two rounds.
const BATCH: usize = 2048;

/// Long waits and I/Os in one batch. The ring of 1 MiB holds some 8,700 waits or 18,700 I/Os.
const WAITS: usize = 16_384;

/// Most forks, execs, exits and new names of one read: more than their ring holds. The ring may be filled as
/// fast as it is read.
const EVENTS: usize = 4096;

/// Records that waiting ones keep room for: 0.6 MB. A burst of more gives its room back.
const KEPT: usize = 1024;

/// Edges that the ring holds: once this many more have been read, all that were in it have been read.
const RING: u64 = (4 << 20) / size_of::<EdgeRecord>() as u64;

/// A queue of records, read one by one while others are added at its end.
pub trait Source {
    /// The oldest unread record, if there is one.
    fn next_record(&mut self) -> Option<Result<Record, DecodeError>>;
}

impl Source for RingBuf<MapData> {
    fn next_record(&mut self) -> Option<Result<Record, DecodeError>> {
        self.next().map(|bytes| decode(&bytes))
    }
}

/// The rings of a loaded object.
pub struct Rings<S = RingBuf<MapData>> {
    /// Edge records.
    pub edges: S,
    /// Forks, execs, exits and new names.
    pub events: S,
    /// Long waits and completed I/Os.
    pub waits: S,
}

/// The rings and the records that wait between two rounds.
pub struct Pump<S = RingBuf<MapData>> {
    rings: Rings<S>,
    /// Records that wait for edges, and the count of read edges at which they all have come.
    held: Vec<(u64, Record)>,
    /// Room for those of the round before, and for events: rounds come 20 times a second.
    earlier: Vec<(u64, Record)>,
    events: Vec<Record>,
    batch: Vec<Record>,
    /// Times of the batch's records, and their places in it: a record has 640 bytes, and is not moved about.
    order: Vec<(u64, usize)>,
    /// Most edges in one batch.
    most: usize,
    /// Records that could not be read: a bug, or an object of another version.
    pub undecodable: u64,
    /// Edges read so far.
    pub edges_read: u64,
}

impl<S: Source> Pump<S> {
    /// A pump over these rings.
    pub fn new(rings: Rings<S>) -> Self {
        Self {
            rings,
            held: Vec::new(),
            earlier: Vec::new(),
            events: Vec::new(),
            batch: Vec::new(),
            order: Vec::new(),
            most: BATCH,
            undecodable: 0,
            edges_read: 0,
        }
    }

    /// The rings, to wait for.
    pub fn rings(&self) -> [&S; 3] {
        [&self.rings.edges, &self.rings.events, &self.rings.waits]
    }

    /// Feeds one batch of waiting records to pairing. Returns whether the edge ring was seen empty: if edges
    /// come faster than they are paired it never is, so a caller with other duties has to stop somewhere.
    pub fn feed(&mut self, pairing: &mut Pairing) -> bool {
        let emptied = self.round();
        self.order.clear();
        self.order.extend(self.batch.iter().enumerate().map(|(place, record)| (record.time_ns(), place)));
        // Of the same time, those that were read first.
        self.order.sort_unstable();
        self.order.iter().for_each(|(_, place)| pairing.record(&self.batch[*place]));
        self.batch.clear();
        emptied
    }

    /// Feeds all waiting records to pairing.
    pub fn drain(&mut self, pairing: &mut Pairing) {
        while !self.feed(pairing) {}
    }

    /// Fills the batch. False if there were more edges than fit: then ends and execs wait, since edges of
    /// their threads may still be in the ring.
    fn round(&mut self) -> bool {
        std::mem::swap(&mut self.held, &mut self.earlier);
        self.undecodable += read(&mut self.rings.events, &mut self.events, EVENTS);
        self.undecodable += read(&mut self.rings.waits, &mut self.events, WAITS);
        let before = self.edges_read + RING;
        self.undecodable += read(&mut self.rings.edges, &mut self.batch, self.most);
        let edges = self.batch.len();
        self.edges_read += edges as u64;
        let emptied = edges < self.most;
        let newest_ns = self.batch.iter().map(Record::time_ns).max().unwrap_or(0);
        let first_round = self.earlier.len() + self.events.len();
        self.undecodable += read(&mut self.rings.events, &mut self.events, EVENTS);
        self.undecodable += read(&mut self.rings.waits, &mut self.events, WAITS);
        let events = self.events.drain(..).map(|event| (before, event));
        for (index, (until, event)) in self.earlier.drain(..).chain(events).enumerate() {
            let until = if index < first_round { until } else { self.edges_read + RING };
            let may_wait = (index >= first_round || !emptied) && self.edges_read < until;
            let wait = match event {
                Record::Task(Kind::Exit, _) => may_wait,
                Record::Task(Kind::Exec, _) => !emptied && may_wait,
                Record::Wait(_) | Record::Io(_) | Record::Queue(_) => may_wait && event.time_ns() > newest_ns,
                Record::Task(..) | Record::Edge(_) => false,
            };
            if wait { self.held.push((until, event)) } else { self.batch.push(event) }
        }
        self.earlier.shrink_to(KEPT);
        self.events.shrink_to(KEPT);
        emptied
    }
}

/// Reads at most `limit` records; returns how many could not be read.
fn read(ring: &mut impl Source, into: &mut Vec<Record>, limit: usize) -> u64 {
    let mut undecodable = 0;
    let end = into.len().saturating_add(limit);
    while into.len() < end {
        let Some(record) = ring.next_record() else { break };
        match record {
            Ok(record) => into.push(record),
            Err(_) => undecodable += 1,
        }
    }
    undecodable
}

#[cfg(test)]
mod tests;
