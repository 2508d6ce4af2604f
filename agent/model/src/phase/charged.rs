//! Charges work of GPUs to the phases that asked for it: the innermost one of a thread at the start of its
//! call.

use super::{gpu_work::GpuWork, output::Output, pairing::Pairing, thread_id::ThreadId};

impl Pairing {
    /// From now on it is known for some seconds which phase was the innermost one of each thread.
    pub fn expect_gpu_work(&mut self) {
        self.turns.keep();
    }

    /// Charges a piece of work to the phase that asked for it. All edges until its call must have come.
    pub fn gpu_work(&mut self, work: GpuWork) {
        let inside =
            self.turns.at((work.process, work.thread), work.called_ns).filter(|_| work.called_ns != 0);
        let (phase, root) = (inside.map(|turn| turn.phase), inside.map(|turn| turn.root));
        self.outputs.push(Output::GpuWork(Box::new(GpuWork { phase, root, ..work })));
    }

    /// Notes which phase is the innermost one of a thread from now on.
    pub(super) fn note_innermost(&mut self, thread: ThreadId, now_ns: u64) {
        if self.turns.is_kept() {
            let top = self.threads.get(thread).and_then(|state| state.stack.top());
            let top = top.map(|top| (top.id, top.root));
            self.turns.turn((thread.tgid, thread.tid), now_ns, top);
        }
    }
}
