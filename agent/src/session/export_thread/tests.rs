//! What is on the way to the folder is bounded, and what is lost is told.

use std::sync::mpsc::Receiver;

use super::*;
use crate::phase::{Mark, Request, ThreadId};

fn mark() -> Vec<Output> {
    vec![Output::Mark(Mark { thread: ThreadId::default(), name: "here".into(), time_ns: 1, phase: None })]
}

/// A gap is reported once: waits of lost requests would be kept for ever.
#[test]
fn a_gap_is_told_before_what_comes_after_it() {
    let (sender, receiver) = sync_channel(2);
    // A thread with a stuck disk.
    let thread = std::thread::spawn(|| {
        loop {
            std::thread::park();
        }
    });
    let on_the_way = Arc::default();
    let mut export = ExportThread { sender, last: channel().0, thread, on_the_way, rows_lost: 0, gap: false };
    (0..4).for_each(|_| export.outputs(mark()));
    assert_eq!(export.rows_lost, 2);
    let kinds = |receiver: &Receiver<Message>| -> Vec<bool> {
        receiver.try_iter().map(|message| matches!(message, Message::Gap)).collect()
    };
    assert_eq!(kinds(&receiver), [false, false]);
    (0..2).for_each(|_| export.outputs(mark()));
    assert_eq!((kinds(&receiver), export.rows_lost), (vec![true, false], 3));
    export.samples(vec![Sample::default()]);
    assert_eq!(kinds(&receiver), [true, false]);
    export.outputs(mark());
    assert_eq!((kinds(&receiver), export.rows_lost), (vec![false], 3));
}

/// A stuck disk leaves no more in the channel than its bound in bytes, however large requests are.
#[test]
fn what_is_on_the_way_is_bounded_by_its_memory() {
    let (sender, _receiver) = sync_channel(BATCHES);
    let thread = std::thread::spawn(|| {
        loop {
            std::thread::park();
        }
    });
    let on_the_way = Arc::default();
    let mut export = ExportThread { sender, last: channel().0, thread, on_the_way, rows_lost: 0, gap: false };
    let phase = crate::analyze::samples::inference(1).remove(0).phases.remove(0);
    let request = || vec![Output::Request(Request { phases: vec![phase.clone(); 10_000] })];
    (0..10).for_each(|_| export.outputs(request()));
    assert!(export.on_the_way.load(Relaxed) <= MOST_BYTES);
    assert_eq!(export.rows_lost % 10_000, 0);
    assert!((70_000..100_000).contains(&export.rows_lost), "{}", export.rows_lost);
}
