//! An answer made while it is sent: a stream, and the future that fills it, polled by the reader of the
//! stream. Yields items one by one. So a phase of that future lasts until the connection has taken the answer
//! (at most its last 4 MiB may then still be under way), and the future ends with the call when the peer is
//! gone; a separate task would have to be told.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tonic::codegen::tokio_stream::Stream;

/// The stream and the future that fills it.
pub struct Sending<T> {
    /// The future; None once it is done.
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    ready: Receiver<T>,
}

impl<T> Sending<T> {
    /// `work` hands each item to the sender that it is given, which has room for one.
    pub fn new<F>(work: impl FnOnce(Sender<T>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, ready) = channel(1);
        Self { work: Some(Box::pin(work(sender))), ready }
    }
}

impl<T> Stream for Sending<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(work) = &mut self.work
            && work.as_mut().poll(context).is_ready()
        {
            // Its sender goes with it, so that the stream ends after the ready items.
            self.work = None;
        }
        self.ready.poll_recv(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    };

    use tokio::runtime::Builder;
    use tonic::codegen::tokio_stream::StreamExt as _;

    use super::Sending;

    /// A stream of three numbers, and how many of them were taken when the future last looked.
    fn three() -> (Sending<u32>, Arc<AtomicU32>) {
        let taken = Arc::<AtomicU32>::default();
        let seen = Arc::clone(&taken);
        let work = |sender: tokio::sync::mpsc::Sender<u32>| async move {
            for number in 1..=3 {
                sender.send(number).await.expect("it is polled by its reader");
                let _ = sender.reserve().await;
                seen.store(number, Relaxed);
            }
        };
        (Sending::new(work), taken)
    }

    #[test]
    fn the_future_waits_until_each_item_is_taken() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let (mut stream, taken) = three();
        runtime.block_on(async {
            assert_eq!(taken.load(Relaxed), 0, "nothing begins before somebody reads");
            for number in 1..=3 {
                assert_eq!(stream.next().await, Some(number));
                assert_eq!(taken.load(Relaxed), number - 1);
            }
            assert_eq!(stream.next().await, None);
            assert_eq!(taken.load(Relaxed), 3);
        });
    }

    #[test]
    fn the_future_ends_with_its_reader() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let (mut stream, taken) = three();
        runtime.block_on(async {
            assert_eq!(stream.next().await, Some(1));
            drop(stream);
        });
        assert_eq!((taken.load(Relaxed), Arc::strong_count(&taken)), (0, 1));
    }
}
