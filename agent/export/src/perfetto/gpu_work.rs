//! Work of GPUs: a track for each stream, and an arrow from the call that asked for a piece of work.

use std::io::{self, Write};

use super::{
    Packets, SLICE_BEGIN,
    messages::{Data, TrackDescriptor, TrackEvent},
    number, process_uuid, uuid,
};
use crate::phase::{GpuWork, GpuWorkKind, ThreadId};

/// Kinds of tracks, part of their ids.
const OF_STREAM: u64 = 6;
const OF_WINDOWS: u64 = 7;
const OF_CALL: u64 = 8;

impl<W: Write> Packets<W> {
    /// A piece of work on its stream's track, with its call on the thread's; or a window on a track of its
    /// own. `thread` is the one that asked for it, if it is known.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn gpu_work(&mut self, work: &GpuWork, thread: Option<&ThreadId>) -> io::Result<()> {
        if work.is_window() {
            let track = uuid(OF_WINDOWS, work.process.into(), 0);
            self.describe_below(track, work.process, "GPU work is recorded".to_owned())?;
            let notes = vec![number("lost", work.lost), number("cost_ns", work.cost_ns)];
            self.begin(track, work.start_ns, "window", "gpu", notes)?;
            return self.end(track, work.end_ns);
        }
        let stream = u64::from(work.context) << 32 | u64::from(work.stream);
        let track = uuid(OF_STREAM, u64::from(work.process) << 32 | u64::from(work.device), stream);
        let GpuWork { device, context, stream, .. } = work;
        let of_context = if *context > 1 { format!(", context {context}") } else { String::new() };
        self.describe_below(track, work.process, format!("GPU {device}, stream {stream}{of_context}"))?;
        let name = name_of(work);
        let flow = thread.map(|thread| self.call(work, thread, &name)).transpose()?;
        let mut debug_annotations = vec![number("duration_ns", work.duration_ns())];
        debug_annotations.extend(work.delay_ns().map(|delay_ns| number("queue_delay_ns", delay_ns)));
        debug_annotations.extend((work.bytes > 0).then(|| number("bytes", work.bytes)));
        debug_annotations.extend(work.phase.map(|phase| number("phase", phase)));
        let begin = TrackEvent {
            r#type: Some(SLICE_BEGIN),
            track_uuid: Some(track),
            name: Some(name),
            categories: vec![work.kind.name().to_owned()],
            debug_annotations,
            flow_ids: flow.into_iter().collect(),
            ..TrackEvent::default()
        };
        self.written.slices += 1;
        self.put(Some(work.start_ns), Data::TrackEvent(begin))?;
        self.end(track, work.end_ns)
    }

    /// The call, as a slice on its thread's track. Returns the number of the arrow.
    fn call(&mut self, work: &GpuWork, thread: &ThreadId, name: &str) -> io::Result<u64> {
        let flow = uuid(OF_CALL, u64::from(work.thread) ^ work.called_ns, work.start_ns);
        let track = super::thread_uuid(thread);
        let event = TrackEvent {
            r#type: Some(SLICE_BEGIN),
            track_uuid: Some(track),
            name: Some(format!("launch {name}")),
            categories: vec!["launch".to_owned()],
            flow_ids: vec![flow],
            ..TrackEvent::default()
        };
        self.written.slices += 1;
        self.put(Some(work.called_ns), Data::TrackEvent(event))?;
        self.end(track, work.returned_ns)?;
        Ok(flow)
    }

    /// Describes a track below its process once.
    fn describe_below(&mut self, track: u64, process: u32, name: String) -> io::Result<()> {
        if !self.tracks.insert(track) {
            return Ok(());
        }
        self.describe_process(process, None)?;
        let descriptor = TrackDescriptor {
            uuid: Some(track),
            name: Some(name),
            parent_uuid: Some(process_uuid(process)),
            ..TrackDescriptor::default()
        };
        self.put(None, Data::TrackDescriptor(descriptor))
    }
}

/// What the work is called.
fn name_of(work: &GpuWork) -> String {
    let name = work.name.plain();
    match work.kind {
        GpuWorkKind::Kernel if !name.is_empty() => name.into_owned(),
        GpuWorkKind::Copy => format!("copy {name}"),
        GpuWorkKind::Kernel | GpuWorkKind::Set | GpuWorkKind::Graph | GpuWorkKind::Window => {
            work.kind.name().to_owned()
        }
    }
}
