//! A thread that works for the measuring one: one order in, one answer out. Yields answers in order. It ends
//! and is joined when dropped; its kind defines the orders.

use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread::{Builder, JoinHandle},
};

use crate::stall::error::StallError;

/// The partner thread.
#[derive(Debug)]
pub struct Partner<O, A> {
    /// Orders to the thread; None once it shall end.
    orders: Option<Sender<O>>,
    answers: Receiver<A>,
    thread: Option<JoinHandle<()>>,
}

impl<O: Send + 'static, A: Send + 'static> Partner<O, A> {
    /// Starts the thread: `serve` runs until there are no more orders.
    pub fn start(
        name: &'static str,
        serve: impl FnOnce(Receiver<O>, Sender<A>) + Send + 'static,
    ) -> Result<Self, StallError> {
        let (orders, taken) = channel();
        let (given, answers) = channel();
        let thread = Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(taken, given))
            .map_err(|source| StallError::Thread { name, source })?;
        Ok(Self { orders: Some(orders), answers, thread: Some(thread) })
    }

    /// Gives an order and goes on.
    pub fn order(&self, order: O) -> Result<(), StallError> {
        let sent = self.orders.as_ref().and_then(|orders| orders.send(order).ok());
        sent.ok_or_else(|| self.gone())
    }

    /// Waits for the next answer.
    pub fn answer(&self) -> Result<A, StallError> {
        self.answers.recv().map_err(|_| self.gone())
    }

    fn gone(&self) -> StallError {
        let name = self.thread.as_ref().and_then(|thread| thread.thread().name());
        StallError::PartnerGone { name: name.unwrap_or_default().to_owned() }
    }
}

impl<O, A> Drop for Partner<O, A> {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A partner that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}
