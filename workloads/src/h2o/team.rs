//! Splits a matrix over all cores: its rows form one block per thread, and block i always belongs to thread
//! i, as with OpenMP's static schedule. So weights stay in the caches (and on the node) of the thread that
//! uses them, results do not depend on thread speed, and a thread that gets no CPU makes all others wait, as
//! in the studies. The calling thread is one of the team.
//!
//! rayon keeps the threads; its work stealing is not used.

use std::sync::{Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::error::H2oError;

/// A team of threads.
pub struct Team {
    pool: ThreadPool,
}

impl Team {
    /// A team of `threads` threads, the caller included.
    pub fn new(threads: u32) -> Result<Self, H2oError> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads as usize)
            .thread_name(|index| format!("h2o-{index}"))
            .use_current_thread()
            .build()
            .map_err(|error| H2oError::Threads { count: threads, reason: error.to_string() })?;
        Ok(Self { pool })
    }

    /// Runs `work` for each block of `matrix`, whose rows have `width` values: with the index of the block's
    /// first row, and the block. Blocks differ by at most one row; with fewer rows than threads some get
    /// none.
    pub fn rows<T: Send>(&self, matrix: &mut [T], width: usize, work: impl Fn(usize, &mut [T]) + Sync) {
        let threads = self.pool.current_num_threads();
        let rows = matrix.len() / width.max(1);
        let mut blocks = Vec::with_capacity(threads);
        let mut rest = matrix;
        for thread in 0..threads {
            let (first, end) = (rows * thread / threads, rows * (thread + 1) / threads);
            let (block, behind) = rest.split_at_mut((end - first) * width);
            blocks.push(Mutex::new((first, block)));
            rest = behind;
        }
        // Each thread locks only its own block: the locks only prove that to the compiler.
        self.pool.broadcast(|context| {
            let mut block = blocks[context.index()].lock().unwrap_or_else(PoisonError::into_inner);
            let (first, block) = &mut *block;
            if !block.is_empty() {
                work(*first, block);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, sync::Mutex, thread};

    use rstest::rstest;

    use super::Team;

    #[rstest]
    #[case(1, 5)]
    #[case(2, 5)]
    #[case(3, 2)]
    #[case(4, 0)]
    fn every_row_is_done_once(#[case] threads: u32, #[case] rows: usize) {
        // On a separate thread, because a team's caller belongs to it for good.
        let found = thread::spawn(move || {
            let mut matrix = vec![0; rows * 3];
            Team::new(threads).unwrap().rows(&mut matrix, 3, |first, block| {
                for (row, values) in block.chunks_mut(3).enumerate() {
                    for value in values {
                        *value += first + row + 1;
                    }
                }
            });
            matrix
        });
        let expected: Vec<usize> = (0..rows).flat_map(|row| [row + 1; 3]).collect();
        assert_eq!(found.join().unwrap(), expected);
    }

    #[test]
    fn a_block_keeps_its_thread_and_the_caller_has_the_first() {
        let found = thread::spawn(|| {
            let team = Team::new(3).unwrap();
            let seen = Mutex::new(HashSet::new());
            for _ in 0..50 {
                team.rows(&mut [0; 6], 1, |first, _| {
                    seen.lock().unwrap().insert((first, thread::current().id()));
                });
            }
            (thread::current().id(), seen.into_inner().unwrap())
        });
        let (caller, seen) = found.join().unwrap();
        assert_eq!(seen.len(), 3, "{seen:?}");
        assert!(seen.contains(&(0, caller)), "{seen:?}");
    }
}
