//! The words for what a thread waited for: a device, what stopped it, what another thread did.

use guestscope_contract::Account;

use crate::{
    looks,
    phase::{InFlight, Stopper, WaitedIo},
    untrusted::Untrusted,
};

use super::units::counted;

/// `reading from vda`, `8 reads of vda in flight`.
pub(super) fn io(io: &WaitedIo) -> String {
    match io.in_flight {
        Some(most) => in_flight(&io.name, most),
        None => device(&io.name, io.is_write, io.is_held),
    }
}

/// `reading from vda`, `writing to vda, held back by the I/O limit of its control group`.
pub(super) fn device(name: &Untrusted, is_write: bool, is_held: bool) -> String {
    let verb = if is_write { "writing to" } else { "reading from" };
    let limit = if is_held { ", held back by the I/O limit of its control group" } else { "" };
    format!("{verb} {name}{limit}")
}

/// `8 reads of vda in flight`, `2 reads and 1 write of vda in flight`.
pub(super) fn in_flight(name: &Untrusted, InFlight { reads, writes }: InFlight) -> String {
    let of = |number: u32, one, many| (number > 0).then(|| counted(u64::from(number), one, many));
    let parts: Vec<String> =
        [of(reads, "read", "reads"), of(writes, "write", "writes")].into_iter().flatten().collect();
    // A record that was lost, or a damaged one, may leave no number.
    let what = if parts.is_empty() { "I/O".to_owned() } else { parts.join(" and ") };
    format!("{what} of {name} in flight")
}

/// `stopped by a signal, continued by thread 4711 (stopper)`.
pub(super) fn stopped(by: Stopper, thread: Option<String>) -> String {
    let (what, end) = match by {
        Stopper::Signal => ("stopped by a signal", "continued"),
        Stopper::Debugger => ("stopped by a debugger or tracer", "continued"),
        Stopper::Freezer => ("stopped by the freezer of its control group", "thawed"),
    };
    thread.map_or_else(|| what.to_owned(), |thread| format!("{what}, {end} by {thread}"))
}

/// Verb for a thread that other threads waited for: what had stopped it, or the same as for requests, except
/// where that would be too strong or too weak.
pub(super) fn kept(account: Account, stopped_by: Option<Stopper>) -> String {
    let stopped = stopped_by.map(|by| format!("was {}", stopped(by, None)));
    stopped.unwrap_or_else(|| looks::of(account).did.to_owned())
}

/// `rerank of other requests`: what had the thread of a suspended phase.
pub(super) fn held_by(phase: Option<&Untrusted>) -> String {
    phase.map_or_else(|| "code outside of phases".to_owned(), |name| format!("{name} of other requests"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::reads(8, 0, "8 reads of vda in flight")]
    #[case::one(0, 1, "1 write of vda in flight")]
    #[case::both(2, 1, "2 reads and 1 write of vda in flight")]
    #[case::unknown(0, 0, "I/O of vda in flight")]
    fn io_in_flight(#[case] reads: u32, #[case] writes: u32, #[case] words: &str) {
        let waited = WaitedIo {
            name: "vda".into(),
            in_flight: Some(InFlight { reads, writes }),
            ..WaitedIo::default()
        };
        assert_eq!(io(&waited), words);
    }

    #[rstest]
    #[case(Stopper::Signal, Some("thread 7 (kill)"), "stopped by a signal, continued by thread 7 (kill)")]
    #[case(Stopper::Debugger, None, "stopped by a debugger or tracer")]
    #[case(
        Stopper::Freezer,
        Some("thread 7"),
        "stopped by the freezer of its control group, thawed by thread 7"
    )]
    fn a_stop(#[case] by: Stopper, #[case] thread: Option<&str>, #[case] words: &str) {
        assert_eq!(stopped(by, thread.map(str::to_owned)), words);
    }

    #[rstest]
    #[case::reads(false, false, "reading from vda")]
    #[case::writes(true, false, "writing to vda")]
    #[case::held(false, true, "reading from vda, held back by the I/O limit of its control group")]
    fn a_device(#[case] is_write: bool, #[case] is_held: bool, #[case] words: &str) {
        let waited = WaitedIo { name: "vda".into(), is_write, is_held, ..WaitedIo::default() };
        assert_eq!(io(&waited), words);
    }
}
