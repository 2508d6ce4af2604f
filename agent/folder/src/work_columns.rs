//! The columns of `gpu_work`. Opens no file.

use std::sync::LazyLock;

use super::{
    cells::{NO_WORD, integer},
    table::{Access, Column, Table, Width, each},
};
use crate::phase::{GpuWork, GpuWorkKind};

/// `gpu_work`: a row per piece of work of a GPU that was recorded, and per window behind its work. The file
/// is there if anything was recorded.
pub(super) static GPU_WORK: LazyLock<Table<GpuWork>> = LazyLock::new(|| {
    let kind = Access::Word {
        get: Box::new(|row: &GpuWork| Some(row.kind.name())),
        set: Box::new(|row, word| GpuWorkKind::by_name(word.stored()).map(|kind| row.kind = kind).is_some()),
        optional: false,
    };
    let columns = vec![
        Column::new(
            "kind",
            "kernel, copy, memset, graph, or window: an interval in which work was recorded",
            kind,
        ),
        name!(GpuWork: "name", "kernel, or which way a copy went; else empty", name),
        optional!(GpuWork: "phase", "`id` of the phase that asked for it", phase),
        optional!(GpuWork: "root", "`id` of its request", root),
        number32!(GpuWork: "tgid", "process", process),
        number32!(GpuWork: "tid", "thread that asked for it, 0 if that was not seen", thread),
        number32!(GpuWork: "device", "number of the device, as CUDA counts in that process", device),
        number32!(GpuWork: "context", "number of the context in that process", context),
        number32!(GpuWork: "stream", "number of the stream in that process", stream),
        integer!(GpuWork: "start_ns", "CLOCK_MONOTONIC at its start on the device", start_ns),
        integer!(GpuWork: "end_ns", "CLOCK_MONOTONIC at its end on the device", end_ns),
        integer!(GpuWork: "called_ns", "CLOCK_MONOTONIC at the start of the call that asked for it, 0 if not seen", called_ns),
        integer!(GpuWork: "returned_ns", "CLOCK_MONOTONIC at the end of that call", returned_ns),
        integer!(GpuWork: "bytes", "bytes copied or filled", bytes),
        integer!(GpuWork: "lost", "of a window: work in it that was not recorded", lost),
        integer!(GpuWork: "cost_ns", "of a window: CPU time of the thread that recorded, ns", cost_ns),
    ];
    let blank = || GpuWork { name: NO_WORD.clone(), ..GpuWork::default() };
    Table { name: "gpu_work", columns, blank }
});
