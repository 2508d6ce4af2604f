//! How far a job of several processes is: as far as its slowest worker, whom the others wait for in the end. Yields a bar, where a
//! person looks at a terminal. It hears of steps by the lines that workers say on standard error, and starts none of them.

use std::sync::mpsc::{Receiver, Sender, channel};

use indicatif::ProgressBar;

use crate::{
    progress::{self, Progress},
    train::Settings,
};

/// The word that has a worker say how many steps are done.
pub const ASKED: &str = "--tell-steps";

/// The bar, and what each worker said last.
#[derive(Debug)]
pub struct Pace {
    bar: ProgressBar,
    workers: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    lines: Receiver<String>,
    done: u64,
}

impl Pace {
    /// Of a job that no worker has joined yet; none where nobody would see it, so that workers have nothing to say.
    pub fn seen(settings: &Settings) -> Option<Self> {
        let is_seen = settings.progress == Progress::Bar && progress::is_seen();
        is_seen.then(|| Self::new(progress::bar(settings.warmup + settings.steps, "steps")))
    }

    fn new(bar: ProgressBar) -> Self {
        Self { bar, workers: Vec::new() }
    }

    /// Where the next worker's lines are to go.
    pub fn listen(&mut self) -> Sender<String> {
        let (sender, lines) = channel();
        self.workers.push(Worker { lines, done: 0 });
        sender
    }

    /// Draws what has been heard since.
    pub fn look(&mut self) {
        for worker in &mut self.workers {
            let told = worker.lines.try_iter().filter_map(|line| progress::told(&line));
            worker.done = told.last().unwrap_or(worker.done);
        }
        let slowest = self.workers.iter().map(|worker| worker.done).min();
        self.bar.set_position(slowest.unwrap_or_default());
    }

    /// Leaves the terminal as it was.
    pub fn end(mut self) {
        self.look();
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use indicatif::ProgressBar;

    use super::Pace;

    #[test]
    fn a_job_is_as_far_as_its_slowest_worker() {
        let mut pace = Pace::new(ProgressBar::hidden());
        pace.look();
        let workers = [pace.listen(), pace.listen()];
        let mut after = |said: &[(usize, &str)]| {
            for (rank, line) in said {
                workers[*rank].send((*line).to_owned()).unwrap();
            }
            pace.look();
            pace.bar.position()
        };
        assert_eq!(after(&[(0, "steps done: 4")]), 0, "the other one has begun nothing");
        assert_eq!(after(&[(1, "started"), (1, "steps done: 2")]), 2);
        assert_eq!(after(&[(1, "steps done: 3"), (1, "steps done: 5"), (1, "what?")]), 4);
        assert_eq!(after(&[]), 4);
        drop(workers);
        pace.look();
        assert_eq!(pace.bar.position(), 4, "a worker that is gone has done what it has done");
    }
}
