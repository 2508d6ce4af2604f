//! Progress of a job of several processes: that of its slowest worker, for which the others wait in the end.
//! Yields a bar if a person looks at a terminal, and word that the job has begun. It reads steps from the
//! workers' lines on standard error, and starts no process.

use std::sync::mpsc::{Receiver, Sender, channel};

use indicatif::ProgressBar;

use crate::{
    progress::{self, Progress},
    started,
    train::Settings,
};

/// Option that makes a worker say how many steps are done.
pub const ASKED: &str = "--tell-steps";

/// The bar, and what each worker said last.
#[derive(Debug)]
pub struct Pace {
    bar: ProgressBar,
    is_seen: bool,
    workers: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    lines: Receiver<String>,
    has_begun: bool,
    done: u64,
}

impl Pace {
    /// The progress of a job that no worker has joined yet.
    pub fn of(settings: &Settings) -> Self {
        let is_seen = settings.progress == Progress::Bar && progress::is_seen();
        let bar = if is_seen {
            progress::bar(settings.warmup + settings.steps, "steps")
        } else {
            ProgressBar::hidden()
        };
        Self { bar, is_seen, workers: Vec::new() }
    }

    /// Whether anybody sees the bar: otherwise workers need not say how many steps are done.
    pub fn is_seen(&self) -> bool {
        self.is_seen
    }

    /// Sender for the next worker's lines.
    pub fn listen(&mut self) -> Sender<String> {
        let (sender, lines) = channel();
        self.workers.push(Worker { lines, has_begun: false, done: 0 });
        sender
    }

    /// Draws what has arrived since, and says that the job has begun once all workers have.
    pub fn look(&mut self) {
        for worker in &mut self.workers {
            for line in worker.lines.try_iter() {
                worker.has_begun |= line == started::LINE;
                worker.done = progress::told(&line).unwrap_or(worker.done);
            }
        }
        let slowest = self.workers.iter().map(|worker| worker.done).min();
        self.bar.set_position(slowest.unwrap_or_default());
        if self.have_begun() {
            started::tell();
        }
    }

    fn have_begun(&self) -> bool {
        !self.workers.is_empty() && self.workers.iter().all(|worker| worker.has_begun)
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
        let mut pace = Pace { bar: ProgressBar::hidden(), is_seen: false, workers: Vec::new() };
        pace.look();
        assert!(!pace.have_begun());
        let workers = [pace.listen(), pace.listen()];
        let mut after = |said: &[(usize, &str)]| {
            for (rank, line) in said {
                workers[*rank].send((*line).to_owned()).unwrap();
            }
            pace.look();
            (pace.bar.position(), pace.have_begun())
        };
        let said = [(0, "listening"), (0, "started"), (0, "steps done: 4")];
        assert_eq!(after(&said), (0, false), "the other one has begun nothing");
        assert_eq!(after(&[(1, "started"), (1, "steps done: 2")]), (2, true));
        assert_eq!(after(&[(1, "steps done: 3"), (1, "steps done: 5"), (1, "what?")]), (4, true));
        assert_eq!(after(&[]), (4, true));
        drop(workers);
        pace.look();
        assert_eq!(pace.bar.position(), 4, "a worker that is gone has done what it has done");
    }
}
