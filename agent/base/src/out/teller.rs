//! A thread that writes messages, so that no other thread waits for a stopped terminal or a full pipe.
//!
//! It takes text that is safe to print, and writes it in order. Messages that do not fit into its queue are
//! dropped and counted.

use std::{
    io,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

/// Most messages queued.
const QUEUE: usize = 256;
/// Time that the end waits for unwritten messages.
const PATIENCE: Duration = Duration::from_secs(1);

enum Message {
    Text(String),
    /// Sent back when all messages before it are written.
    Done(SyncSender<()>),
}

static QUEUED: OnceLock<SyncSender<Message>> = OnceLock::new();
static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// Starts the thread, once. It calls `settle` first.
pub(super) fn start(settle: impl FnOnce() + Send + 'static, say: fn(&str)) -> io::Result<()> {
    let (sender, messages) = sync_channel(QUEUE);
    let body = move || {
        settle();
        run(&messages, &DROPPED, say);
    };
    thread::Builder::new().name("teller".to_owned()).spawn(body)?;
    QUEUED.set(sender).unwrap_or_default();
    Ok(())
}

/// Queues a text. Returns it where there is no thread for it.
pub(super) fn tell(text: String) -> Result<(), String> {
    let Some(queue) = QUEUED.get() else { return Err(text) };
    match queue.try_send(Message::Text(text)) {
        Err(TrySendError::Full(_)) => {
            DROPPED.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        Err(TrySendError::Disconnected(Message::Text(text))) => Err(text),
        Ok(()) | Err(TrySendError::Disconnected(Message::Done(_))) => Ok(()),
    }
}

/// Waits until all is written, for a limited time.
pub(super) fn finish() {
    let Some(queue) = QUEUED.get() else { return };
    let (sender, done) = sync_channel(1);
    if queue.try_send(Message::Done(sender)).is_ok() {
        // Nobody reads, or all is written.
        done.recv_timeout(PATIENCE).unwrap_or_default();
    }
}

fn run(messages: &Receiver<Message>, dropped: &AtomicUsize, say: impl Fn(&str)) {
    for message in messages {
        match message {
            Message::Text(text) => say(&text),
            Message::Done(sender) => sender.send(()).unwrap_or_default(),
        }
        let dropped = dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            say(&format!("warning: {dropped} messages were dropped: their reader was too slow\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn texts_are_said_in_order_and_what_was_dropped_is_counted() {
        let (sender, messages) = sync_channel(4);
        let (done, is_done) = sync_channel(1);
        for message in [Message::Text("a".into()), Message::Text("b".into()), Message::Done(done)] {
            sender.send(message).expect("there is room");
        }
        drop(sender);
        let said = Mutex::new(Vec::new());
        run(&messages, &AtomicUsize::new(3), |text| said.lock().expect("no panic").push(text.to_owned()));
        is_done.try_recv().expect("the end was told");
        let dropped = "warning: 3 messages were dropped: their reader was too slow\n";
        assert_eq!(said.into_inner().expect("no panic"), ["a", dropped, "b"]);
    }
}
