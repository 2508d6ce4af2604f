//! What an attempt means for its batch: counted as sent, kept for another attempt, halved, or set aside.
//!
//! Every path counts every span once. Nothing here sends or waits.

use std::time::{Duration, Instant};

use super::{Batch, Next, Origin, Worker, resend::resend_pause};
use crate::otlp::{
    message,
    spans::is_root,
    transport::{Delivery, Rejection},
};

/// Attempts with spans on which the collector fails internally, before they are set aside for the others.
const SUSPECT_ATTEMPTS: u32 = 5;
/// Failures in a row, once the end has come, after which the collector counts as away.
const LAST_ATTEMPTS: u32 = 3;

impl Worker {
    /// Counts an attempt.
    pub(super) fn settle(&mut self, batch: Batch, delivery: Delivery) -> Next {
        match delivery {
            Delivery::Taken(rejection) => {
                self.taken(&batch, rejection.as_ref().map_or(0, |rejection| rejection.spans));
                if let Some(Rejection { spans, message }) = rejection {
                    self.queue.refused(format!("the collector rejected {spans} spans: {message}"));
                }
                Next::Send
            }
            Delivery::Refused(why) => {
                self.set_aside(&batch, &why);
                Next::Send
            }
            Delivery::TooLarge(why) if batch.len() > 1 => {
                self.queue.away(Some(why));
                self.halve(batch);
                Next::Pause(self.backoff.delay(None))
            }
            Delivery::TooLarge(why) => self.again(batch, None, true, why),
            Delivery::Later { after, suspect, why } => self.again(batch, after, suspect, why),
        }
    }

    fn taken(&mut self, batch: &Batch, rejected: u64) {
        let (spans, from_file) = (batch.len(), batch.origin != Origin::Queue);
        // The collector does not say which spans it rejected: then no trace of the batch counts as complete.
        let roots = message::spans(&batch.request).filter(|span| is_root(span));
        let traces = if rejected > 0 { 0 } else { roots.count() as u64 };
        self.queue.book(|books| {
            books.sent += spans;
            books.traces_sent += traces;
            books.rejected += rejected.min(spans);
            books.spilled -= if from_file { spans } else { 0 };
        });
        if from_file {
            let pause = resend_pause(spans, self.keep.waiting(), self.limits.resend_spans_per_s);
            self.resend_at = Instant::now() + pause;
        }
        if batch.origin == (Origin::File { last_part: true }) {
            self.keep.leave_behind();
        }
        self.queue.away(None);
        self.backoff.reset();
        self.failures = 0;
        self.batch_spans = (self.batch_spans + self.batch_spans / 8 + 1).min(self.limits.batch_spans.max(1));
    }

    fn again(&mut self, mut batch: Batch, after: Option<Duration>, suspect: bool, why: String) -> Next {
        batch.attempts += u32::from(suspect);
        self.failures += 1;
        if batch.attempts >= SUSPECT_ATTEMPTS {
            self.set_aside(&batch, &why);
        } else {
            self.queue.away(Some(why));
            self.hand.push_front(batch);
        }
        if self.queue.deadline().is_some() && self.failures >= LAST_ATTEMPTS {
            return Next::GiveUp;
        }
        Next::Pause(self.backoff.delay(after))
    }

    /// Splits the batch in two, and makes smaller batches from now on.
    fn halve(&mut self, mut batch: Batch) {
        let half = batch.len() as usize / 2;
        let request = message::split_off(&mut batch.request, half);
        self.batch_spans = half.max(1);
        self.hand.push_front(Batch { request, attempts: 0, origin: batch.origin });
        if let Origin::File { last_part } = &mut batch.origin {
            *last_part = false;
        }
        self.hand.push_front(batch);
    }

    /// Moves the batch out of the way of the others, into the file of refused spans.
    fn set_aside(&mut self, batch: &Batch, why: &str) {
        let (spans, origin) = (batch.len(), batch.origin);
        let kept = self.keep.refused(&batch.request);
        self.queue.refused(format!("{why}: {spans} spans refused"));
        if let Err(error) = &kept {
            self.queue.unkept(error.clone());
        }
        if origin == (Origin::File { last_part: true }) {
            self.keep.leave_behind();
        }
        self.queue.book(|books| {
            let was = if origin == Origin::Queue { 0 } else { spans };
            let is = if kept.is_ok() { spans } else { 0 };
            books.spilled = books.spilled - was + is;
            books.refused += is;
            books.dropped += spans - is;
        });
    }
}
