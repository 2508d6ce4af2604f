//! Which signals of a started program's are the agent's as well.

use nix::sys::signal::Signal::{SIGINT, SIGTERM};
use rstest::rstest;

use super::*;

/// Whether each signal, so many ms after the one before, repeats the wish to end.
#[rstest]
#[case::two_interrupts(&[(SIGINT, 0), (SIGINT, 900)], &[false, true])]
#[case::a_shell_is_interrupted_now_and_then(&[(SIGINT, 0), (SIGINT, 3_001), (SIGINT, 60_000)], &[false; 3])]
#[case::terms_of_an_operator(&[(SIGTERM, 0), (SIGTERM, 3_600_000)], &[false, true])]
#[case::an_interrupt_long_ago(&[(SIGINT, 0), (SIGTERM, 3_600_000)], &[false, false])]
#[case::both_at_once(&[(SIGINT, 0), (SIGTERM, 10)], &[false, true])]
fn the_second_of_a_wish_is_told(#[case] signals: &[(Signal, u64)], #[case] expected: &[bool]) {
    let (mut asked, mut now) = (Asked::default(), Instant::now());
    let told = signals.iter().map(|&(signal, after_ms)| {
        now += Duration::from_millis(after_ms);
        asked.again(signal, now)
    });
    assert_eq!(told.collect::<Vec<_>>(), expected);
}
