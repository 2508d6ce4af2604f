//! A finished run as a trace of Perfetto: threads with their phases and long waits, marks, and the guest's
//! counters.
//!
//! Takes rows of a run folder one by one and writes a packet or two for each; only the set of known tracks is
//! kept. Each thread has a track: phases nest there, with waits inside. A phase that was on no thread for
//! some time, or that waited in a queue, has a separate track below the process, because other phases ran on
//! the thread at that time.

mod gpu_work;
mod messages;
#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    io::{self, Write},
};

use prost::Message as _;
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng as _, SeedableRng as _},
};

use self::messages::{
    BOOTTIME, COUNTER, Clock, ClockSnapshot, CounterDescriptor, Data, DebugAnnotation, INSTANT, MONOTONIC,
    ProcessDescriptor, REALTIME, SLICE_BEGIN, SLICE_END, ThreadDescriptor, Trace, TracePacket,
    TrackDescriptor, TrackEvent, Value,
};
use crate::{
    phase::{GpuReading, Mark, Phase, PhaseKind, Request, Thread, ThreadId, Wait},
    run::{ClockPair, Sample},
};

/// One writer makes all packets.
const SEQUENCE: u32 = 1;
/// Kinds of tracks, part of their ids.
const OF_PROCESS: u64 = 1;
const OF_THREAD: u64 = 2;
const OF_PHASE: u64 = 3;
const OF_COUNTER: u64 = 4;
const OF_GPU: u64 = 5;

/// Counts of what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Requests, and processes.
    pub requests: u64,
    /// Slices of phases and of waits.
    pub slices: u64,
}

/// Writes packets.
pub struct Packets<W> {
    writer: W,
    tracks: HashSet<u64>,
    written: Written,
}

/// Track ids, hashed so that two are equal with a chance of 2^-64.
fn uuid(kind: u64, first: u64, second: u64) -> u64 {
    let mix = |seed: u64, value| SplitMix64::seed_from_u64(seed ^ value).next_u64();
    [kind, first, second].into_iter().fold(0x9e37_79b9_7f4a_7c15, mix)
}

fn process_uuid(tgid: u32) -> u64 {
    uuid(OF_PROCESS, tgid.into(), 0)
}

fn thread_uuid(thread: &ThreadId) -> u64 {
    uuid(OF_THREAD, thread.tid.into(), thread.born_ns)
}

fn number(name: &str, value: u64) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.to_owned()), value: Some(Value::Uint(value)) }
}

fn word(name: &str, value: &str) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.to_owned()), value: Some(Value::String(value.to_owned())) }
}

impl<W: Write> Packets<W> {
    /// Begins a trace with this pair of monotonic and wall time.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn new(writer: W, clock: ClockPair) -> io::Result<Self> {
        let mut packets = Self { writer, tracks: HashSet::new(), written: Written::default() };
        let clock_of = |clock_id, timestamp| Clock { clock_id: Some(clock_id), timestamp: Some(timestamp) };
        let clocks = vec![
            clock_of(MONOTONIC, clock.monotonic_ns),
            // BOOTTIME differs by the time that the guest was suspended, which a folder does not record.
            clock_of(BOOTTIME, clock.monotonic_ns),
            clock_of(REALTIME, clock.wall_ns),
        ];
        let snapshot = ClockSnapshot { clocks, primary_trace_clock: Some(MONOTONIC) };
        packets.put(Some(clock.monotonic_ns), Data::ClockSnapshot(snapshot))?;
        Ok(packets)
    }

    /// A name for a thread, and for its process if it is the main one. A thread used before it is named stays
    /// without a name.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn thread(&mut self, thread: &Thread) -> io::Result<()> {
        if thread.id.tid == thread.id.tgid {
            self.describe_process(thread.id.tgid, Some(&thread.comm.plain()))?;
        }
        self.describe_thread(&thread.id, Some(&thread.comm.plain()))
    }

    /// Writes a request with all its phases; `cause` and `tail` are its main cause and its rank among all
    /// requests.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn request(&mut self, request: &Request, cause: Option<&str>, tail: Option<&str>) -> io::Result<()> {
        self.written.requests += 1;
        // Nested phases end in reverse order of start; equal times keep the order of packets.
        let mut open: Vec<(u64, u64)> = Vec::new();
        for (index, phase) in request.phases.iter().enumerate() {
            let track = self.track_of(phase)?;
            while let Some((track, end_ns)) = open.pop_if(|(_, end_ns)| *end_ns <= phase.start_ns) {
                self.end(track, end_ns)?;
            }
            let mut annotations = annotations(phase);
            if index == 0 {
                annotations.extend(cause.map(|cause| word("cause", cause)));
                annotations.extend(tail.map(|tail| word("tail", tail)));
            }
            self.begin(track, phase.start_ns, &phase.name.plain(), phase.kind.name(), annotations)?;
            let end_ns = phase.start_ns.saturating_add(phase.duration_ns);
            let at = open.partition_point(|(_, other_ns)| *other_ns >= end_ns);
            open.insert(at, (track, end_ns));
        }
        while let Some((track, end_ns)) = open.pop() {
            self.end(track, end_ns)?;
        }
        Ok(())
    }

    /// A long wait, on its thread's track.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn wait(&mut self, wait: &Wait) -> io::Result<()> {
        self.describe_thread(&wait.thread, None)?;
        let mut annotations = vec![
            number("blocked_ns", wait.blocked_ns),
            number("throttled_ns", wait.throttled_ns),
            number("left_cpu", wait.left_cpu.into()),
            number("cpu", wait.cpu.into()),
            number("ran_before_tid", wait.ran_before_tid.into()),
            word("ran_before_comm", &wait.ran_before_comm.plain()),
        ];
        annotations.extend(wait.syscall.map(|syscall| number("syscall", syscall.into())));
        annotations.extend(wait.waker_tid.map(|tid| number("waker_tid", tid.into())));
        annotations.extend(wait.waker_comm.as_ref().map(|comm| word("waker_comm", &comm.plain())));
        annotations.extend(wait.stopped_by.map(|by| word("stopped_by", by.name())));
        if let Some(blame) = &wait.blame {
            annotations.push(number("blame_tid", blame.tid.into()));
            annotations.push(word("blame_account", blame.account.name()));
            annotations.push(number("blame_ns", blame.ns));
            annotations.extend(blame.stopped_by.map(|by| word("blame_stopped_by", by.name())));
        }
        if let Some(io) = &wait.io {
            annotations.push(word("device", &io.name.plain()));
            annotations.push(word("io_direction", io.direction()));
            annotations.extend(io.is_held.then(|| number("io_held_back", 1)));
            if let Some(most) = io.in_flight {
                annotations.push(number("reads_in_flight", most.reads.into()));
                annotations.push(number("writes_in_flight", most.writes.into()));
            }
        }
        let track = thread_uuid(&wait.thread);
        self.begin(track, wait.start_ns, wait.account.name(), "wait", annotations)?;
        self.end(track, wait.end_ns())
    }

    /// A marked point in time.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn mark(&mut self, mark: &Mark) -> io::Result<()> {
        self.describe_thread(&mark.thread, None)?;
        let event = TrackEvent {
            r#type: Some(INSTANT),
            track_uuid: Some(thread_uuid(&mark.thread)),
            name: Some(mark.name.to_string()),
            categories: vec!["mark".to_owned()],
            ..TrackEvent::default()
        };
        self.put(Some(mark.time_ns), Data::TrackEvent(event))
    }

    /// A sample of the guest and the agent, cumulative as in the folder, or of a graphics processor.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        // A GPU's row repeats the other numbers of the row before it.
        if let Some(reading) = &sample.gpu {
            return self.gpu(reading);
        }
        let counters = [
            ("agent CPU time", "ns", Some(sample.agent_cpu_ns)),
            ("agent memory", "bytes", Some(sample.agent_rss_bytes)),
            ("CPU pressure (some)", "ns", sample.psi_cpu_some_ns),
            ("memory pressure (some)", "ns", sample.psi_memory_some_ns),
            ("I/O pressure (some)", "ns", sample.psi_io_some_ns),
            ("steal, all CPUs", "ns", sample.steal_ns),
        ];
        for (index, (name, unit, value)) in counters.into_iter().enumerate() {
            self.counter(uuid(OF_COUNTER, index as u64, 0), name, unit, sample.time_ns, value)?;
        }
        Ok(())
    }

    fn gpu(&mut self, reading: &GpuReading) -> io::Result<()> {
        let counters = [
            ("utilization", "%", reading.utilization_percent),
            ("memory utilization", "%", reading.memory_utilization_percent),
            ("memory used", "bytes", reading.memory_used_bytes),
            ("SM clock", "MHz", reading.clock_sm_mhz),
            ("memory clock", "MHz", reading.clock_memory_mhz),
            ("power", "mW", reading.power_mw),
            ("temperature", "C", reading.temperature_celsius),
            ("PCIe to it", "bytes/s", reading.pcie_to_device_bytes_per_s),
            ("PCIe from it", "bytes/s", reading.pcie_from_device_bytes_per_s),
        ];
        for (index, (name, unit, value)) in counters.into_iter().enumerate() {
            let track = uuid(OF_GPU, reading.device.into(), index as u64);
            let name = format!("GPU {}: {name}", reading.device);
            self.counter(track, &name, unit, reading.time_ns, value)?;
        }
        Ok(())
    }

    /// A point of a counter, if its value is known.
    fn counter(
        &mut self,
        track: u64,
        name: &str,
        unit: &str,
        time_ns: u64,
        value: Option<u64>,
    ) -> io::Result<()> {
        let Some(value) = value else { return Ok(()) };
        if self.tracks.insert(track) {
            let counter = CounterDescriptor { unit_name: Some(unit.to_owned()) };
            let descriptor = TrackDescriptor {
                uuid: Some(track),
                name: Some(name.to_owned()),
                counter: Some(counter),
                ..TrackDescriptor::default()
            };
            self.put(None, Data::TrackDescriptor(descriptor))?;
        }
        let event = TrackEvent {
            r#type: Some(COUNTER),
            track_uuid: Some(track),
            counter_value: Some(value.cast_signed()),
            ..TrackEvent::default()
        };
        self.put(Some(time_ns), Data::TrackEvent(event))
    }

    /// Flushes and returns the writer.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn finish(mut self) -> io::Result<(W, Written)> {
        self.writer.flush()?;
        Ok((self.writer, self.written))
    }

    /// The thread's track, or a separate one for a phase that was not on the thread all the time.
    fn track_of(&mut self, phase: &Phase) -> io::Result<u64> {
        self.describe_thread(&phase.thread, None)?;
        if phase.kind != PhaseKind::Queue && phase.suspended_ns == 0 {
            return Ok(thread_uuid(&phase.thread));
        }
        let track = uuid(OF_PHASE, phase.id, 0);
        let descriptor = TrackDescriptor {
            uuid: Some(track),
            // Perfetto draws tracks of one name below each other.
            name: Some(phase.name.to_string()),
            parent_uuid: Some(process_uuid(phase.thread.tgid)),
            ..TrackDescriptor::default()
        };
        self.put(None, Data::TrackDescriptor(descriptor))?;
        Ok(track)
    }

    fn describe_process(&mut self, tgid: u32, name: Option<&str>) -> io::Result<()> {
        let track = process_uuid(tgid);
        if !self.tracks.insert(track) {
            return Ok(());
        }
        let process =
            ProcessDescriptor { pid: Some(tgid.cast_signed()), process_name: name.map(str::to_owned) };
        let descriptor =
            TrackDescriptor { uuid: Some(track), process: Some(process), ..TrackDescriptor::default() };
        self.put(None, Data::TrackDescriptor(descriptor))
    }

    fn describe_thread(&mut self, thread: &ThreadId, name: Option<&str>) -> io::Result<()> {
        let track = thread_uuid(thread);
        if !self.tracks.insert(track) {
            return Ok(());
        }
        self.describe_process(thread.tgid, None)?;
        let descriptor = TrackDescriptor {
            uuid: Some(track),
            parent_uuid: Some(process_uuid(thread.tgid)),
            thread: Some(ThreadDescriptor {
                pid: Some(thread.tgid.cast_signed()),
                tid: Some(thread.tid.cast_signed()),
                thread_name: name.map(str::to_owned),
            }),
            ..TrackDescriptor::default()
        };
        self.put(None, Data::TrackDescriptor(descriptor))
    }

    fn begin(
        &mut self,
        track: u64,
        at_ns: u64,
        name: &str,
        category: &str,
        debug_annotations: Vec<DebugAnnotation>,
    ) -> io::Result<()> {
        self.written.slices += 1;
        let event = TrackEvent {
            r#type: Some(SLICE_BEGIN),
            track_uuid: Some(track),
            name: Some(name.to_owned()),
            categories: vec![category.to_owned()],
            debug_annotations,
            ..TrackEvent::default()
        };
        self.put(Some(at_ns), Data::TrackEvent(event))
    }

    fn end(&mut self, track: u64, at_ns: u64) -> io::Result<()> {
        let event = TrackEvent { r#type: Some(SLICE_END), track_uuid: Some(track), ..TrackEvent::default() };
        self.put(Some(at_ns), Data::TrackEvent(event))
    }

    /// Writes a trace of one packet: concatenated, they are a trace of all of them.
    fn put(&mut self, timestamp: Option<u64>, data: Data) -> io::Result<()> {
        let packet = TracePacket {
            timestamp,
            timestamp_clock_id: timestamp.map(|_| MONOTONIC),
            trusted_packet_sequence_id: Some(SEQUENCE),
            data: Some(data),
        };
        self.writer.write_all(&Trace { packet: vec![packet] }.encode_to_vec())
    }
}

/// Annotations for all values of a phase that are not zero.
fn annotations(phase: &Phase) -> Vec<DebugAnnotation> {
    let mut all = vec![number("duration_ns", phase.duration_ns)];
    if phase.kind == PhaseKind::Request {
        all.push(number("request", phase.request));
        all.push(word("trace_id", &format!("{:032x}", u128::from_be_bytes(phase.trace.trace_id))));
    }
    let quantities = phase.quantities();
    all.extend(quantities.map(|(quantity, value)| number(quantity.row().full_name(), value)));
    all
}
