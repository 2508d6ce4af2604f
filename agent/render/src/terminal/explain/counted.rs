//! Counts beside the typical ones, in words: what disks and sockets did.

use guestscope_contract::metrics::Metric;

use crate::analyze::explain::Part;

use super::super::units::{bytes, counted, duration, thousands};

/// Whether the count is within a twentieth, or half an event, of the typical one.
pub(super) fn is_as_usual(count: u64, typical: f64) -> bool {
    (count as f64 - typical).abs() <= (typical / 20.0).max(0.5)
}

pub(super) fn mean(typical: f64) -> String {
    match typical {
        _ if typical == 0.0 => "0".to_owned(),
        _ if typical < 9.95 => format!("{typical:.1}"),
        _ => thousands(typical.round() as u64),
    }
}

pub(super) fn number(part: &Part, metric: Metric) -> (u64, f64) {
    let found = part.evidence.counts.iter().find(|one| one.metric == metric);
    found.map_or((0, 0.0), |one| (one.count, one.typical))
}

/// `12 I/Os instead of 3.0, 4.10 ms in queues and 22.0 ms in the device; read 1.20 MB instead of 0 B`.
pub(super) fn disk(part: &Part) -> Vec<String> {
    let (ios, usual) = number(part, Metric::BlockIo);
    let mut clauses = Vec::new();
    if ios > 0 {
        let (queued_ns, device_ns) =
            (number(part, Metric::BlockQueue).0, number(part, Metric::BlockDevice).0);
        let usual = if is_as_usual(ios, usual) {
            " as always".to_owned()
        } else {
            format!(" instead of {}", mean(usual))
        };
        let count = counted(ios, "I/O", "I/Os");
        // Times of I/Os that a request had at once add up to more than it waited.
        let at_once = if queued_ns.saturating_add(device_ns) > part.ns { "summed up, " } else { "" };
        clauses.push(format!(
            "{count}{usual}, {at_once}{} in queues and {} in the device",
            duration(queued_ns),
            duration(device_ns)
        ));
    }
    // See `give_to_reads` in the model: of the account alone, the excess would be the difference of its
    // times.
    let waited_ns = i128::from(part.ns) - i128::from(part.typical_ns);
    let busy_ns = u64::try_from(i128::from(part.excess_ns) - waited_ns).unwrap_or(0);
    if busy_ns > 0 && ios > 0 {
        let busy = duration(busy_ns);
        clauses.push(format!(
            "{busy} of it in the kernel or taken by the hypervisor, while reads were under way"
        ));
    }
    for (name, verb) in [(Metric::BlockReadBytes, "read"), (Metric::BlockWriteBytes, "written")] {
        let (count, typical) = number(part, name);
        if !is_as_usual(count, typical) {
            clauses.push(format!("{verb} {} instead of {}", bytes(count), bytes(typical as u64)));
        }
    }
    clauses
}

/// `3 answers took 41.0 ms (usually 2.10 ms), at least 1.20 ms of it on the way`.
pub(super) fn network(part: &Part) -> Option<String> {
    let (answers, _) = number(part, Metric::NetResponse);
    if answers == 0 {
        return None;
    }
    let (took_ns, usual_ns) = number(part, Metric::NetResponseTime);
    let (way_ns, _) = number(part, Metric::NetRoundTrip);
    let count = counted(answers, "answer", "answers");
    let (took, usual, way) = (duration(took_ns), duration(usual_ns as u64), duration(way_ns));
    Some(format!("{count} took {took} (usually {usual}), at least {way} of it on the way"))
}
