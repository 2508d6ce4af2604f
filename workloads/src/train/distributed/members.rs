//! Members of a job: seats that workers take and leave, settings in which they must agree, and why the job
//! ended early, if it did. Yields refusals in words. It sends nothing and keeps no time.

use super::{
    error::Failure,
    messages::{Join, PROTOCOL},
};

/// One worker's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    Empty,
    Taken,
    /// The worker's work is done.
    Left,
}

/// The job that the server serves.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// Model name on the command line.
    pub model: &'static str,
    /// Seed of the first parameters.
    pub seed: u64,
}

/// The seats, and the state of the job.
#[derive(Debug)]
pub struct Members {
    served: Served,
    seats: Vec<Seat>,
    /// Steps and images per step of the first worker that came: the others must have the same.
    work: Option<(u64, u64)>,
    /// Version of the parameters.
    pub version: u64,
    /// The first failure, if any.
    pub failure: Option<Failure>,
}

impl Members {
    /// Makes `workers` empty seats.
    pub fn new(served: Served, workers: u32) -> Self {
        let seats = vec![Seat::Empty; workers as usize];
        Self { served, seats, work: None, version: 0, failure: None }
    }

    /// Gives the worker its seat, or says why not.
    pub fn join(&mut self, join: &Join) -> Result<(), String> {
        let own = env!("CARGO_PKG_VERSION");
        if join.protocol != PROTOCOL || join.version != own {
            let Join { protocol, version, .. } = join;
            return Err(format!(
                "version {version} (protocol {protocol}) instead of {own} (protocol {PROTOCOL})"
            ));
        }
        let Served { model, seed } = self.served;
        if join.model != model {
            return Err(format!("model {} instead of {model}", join.model));
        }
        if join.seed != seed {
            return Err(format!("seed {} instead of {seed}", join.seed));
        }
        if let Some(failure) = &self.failure {
            return Err(failure.to_string());
        }
        let (rank, count) = (join.rank, self.seats.len());
        let Some(seat) = self.seats.get_mut(rank as usize) else {
            return Err(format!("rank {rank}, and there are {count} workers, from 0"));
        };
        if *seat != Seat::Empty {
            return Err(format!("rank {rank} is taken"));
        }
        let (steps, batch) = *self.work.get_or_insert((join.steps, join.batch));
        if (join.steps, join.batch) != (steps, batch) {
            return Err(format!(
                "{} steps of {} images instead of {steps} of {batch}, as of the worker that came first",
                join.steps, join.batch
            ));
        }
        *seat = Seat::Taken;
        Ok(())
    }

    /// Marks the worker's work as done.
    pub fn leave(&mut self, rank: u32) {
        if let Some(seat) = self.seats.get_mut(rank as usize) {
            *seat = Seat::Left;
        }
    }

    /// Ends the job; only the first reason counts, since others follow from it.
    pub fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Whether that worker takes part now.
    pub fn is_here(&self, rank: u32) -> bool {
        self.seats.get(rank as usize) == Some(&Seat::Taken)
    }

    /// Steps of each worker and images per step, in which all agree; None before the first has come.
    pub fn work(&self) -> Option<(u64, u64)> {
        self.work
    }

    /// Number of workers that have come, including those that have left again.
    pub fn came(&self) -> u32 {
        self.seats.iter().filter(|seat| **seat != Seat::Empty).count() as u32
    }

    /// Whether all workers have come.
    pub fn is_complete(&self) -> bool {
        self.seats.iter().all(|seat| *seat != Seat::Empty)
    }

    /// Whether all work is done.
    pub fn is_over(&self) -> bool {
        self.seats.iter().all(|seat| *seat == Seat::Left)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{Members, Served};
    use crate::train::distributed::{
        error::Failure,
        messages::{Join, PROTOCOL},
    };

    fn join(rank: u32) -> Join {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Join { protocol: PROTOCOL, version, model: "mnist".to_owned(), seed: 3, rank, steps: 5, batch: 8 }
    }

    fn members() -> Members {
        Members::new(Served { model: "mnist", seed: 3 }, 2)
    }

    #[test]
    fn workers_come_and_go() {
        let mut members = members();
        assert_eq!(members.work(), None);
        assert_eq!(members.join(&join(1)), Ok(()));
        assert_eq!(members.work(), Some((5, 8)));
        assert!(members.is_here(1) && !members.is_here(0) && !members.is_complete());
        assert_eq!(members.join(&join(0)), Ok(()));
        members.leave(1);
        assert!(members.is_complete() && !members.is_over() && !members.is_here(1));
        assert_eq!(members.join(&join(1)).unwrap_err(), "rank 1 is taken");
        members.leave(0);
        assert!(members.is_over() && members.came() == 2);
    }

    #[rstest]
    #[case(Join { version: "9.9.9".to_owned(), ..join(1) }, "version 9.9.9 (protocol 1) instead of")]
    #[case(Join { protocol: 7, ..join(1) }, "(protocol 7) instead of")]
    #[case(Join { model: "alexnet".to_owned(), ..join(1) }, "model alexnet instead of mnist")]
    #[case(Join { seed: 4, ..join(1) }, "seed 4 instead of 3")]
    #[case(join(2), "rank 2, and there are 2 workers, from 0")]
    #[case(join(0), "rank 0 is taken")]
    #[case(Join { steps: 6, ..join(1) }, "6 steps of 8 images instead of 5 of 8")]
    #[case(Join { batch: 9, ..join(1) }, "5 steps of 9 images instead of 5 of 8")]
    fn others_are_refused(#[case] other: Join, #[case] says: &str) {
        let mut members = members();
        members.join(&join(0)).unwrap();
        let refusal = members.join(&other).unwrap_err();
        assert!(refusal.contains(says), "{refusal}");
    }

    #[test]
    fn the_first_failure_is_the_reason() {
        let mut members = members();
        let gone = |rank| Failure::WorkerGone { rank, reason: "it hung up".to_owned() };
        members.fail(gone(1));
        members.fail(gone(0));
        assert_eq!(members.failure, Some(gone(1)));
        assert_eq!(members.join(&join(0)).unwrap_err(), "worker 1 is gone: it hung up");
    }
}
