//! `busy`: does the same arithmetic seven times, each some 0.4 s, and prints the seconds of each line by
//! line. It uses no memory and makes no calls, so that any difference between them is time that was taken
//! from it.

use std::{hint::black_box, time::Instant};

const LOOPS: usize = 7;
const TURNS: u64 = 3_000_000_000;

#[expect(clippy::print_stdout, reason = "its result, read by the bench")]
fn main() {
    for _ in 0..LOOPS {
        let start = Instant::now();
        let mut state = black_box(1_u64);
        for _ in 0..black_box(TURNS) {
            // Knuth's MMIX: each turn waits for the one before. A compiler puts some into one, and not all of
            // them into none.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        }
        black_box(state);
        println!("{:.5}", start.elapsed().as_secs_f64());
    }
}
