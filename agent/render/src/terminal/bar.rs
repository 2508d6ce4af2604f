//! Time by account, as a bar: one letter per account, the CPU as a plain bar, so that other accounts stand
//! out.
//!
//! Yields pieces of exactly the requested width. Shares are rounded so that they fill it; parts below half a
//! letter appear only in the numbers.

use guestscope_contract::Account;

use crate::{
    analyze::{Cause, Sums},
    looks,
};

use super::page::{Emphasis, Piece};

/// Letter and colour (of xterm's 256).
const fn look(cause: Cause, unicode: bool) -> (char, Emphasis) {
    match cause {
        Cause::Account(Account::Cpu) if unicode => {
            ('\u{2588}', Emphasis::Color(looks::of(Account::Cpu).terminal))
        }
        Cause::Account(account) => {
            let look = looks::of(account);
            (look.letter, Emphasis::Color(look.terminal))
        }
        Cause::Suspended => ('-', Emphasis::Color(245)),
        Cause::Queue => ('q', Emphasis::Color(214)),
        Cause::Handoff => ('~', Emphasis::Color(245)),
        // Only excesses have these causes: no bar shows them.
        Cause::Steal
        | Cause::InDriver
        | Cause::Pause
        | Cause::AddressSpace
        | Cause::Stopped
        | Cause::Helper(_)
        | Cause::Overlay(_) => ('h', Emphasis::Color(245)),
    }
}

/// The bar.
pub(super) fn bar(sums: &Sums, columns: usize, unicode: bool) -> Vec<Piece> {
    let letters = letters(sums, columns);
    let pieces = Cause::of_time().zip(letters).filter(|&(_, count)| count > 0);
    pieces
        .map(|(cause, count)| {
            let (letter, emphasis) = look(cause, unicode);
            Piece::new(letter.to_string().repeat(count), emphasis)
        })
        .collect()
}

/// Letters per cause by largest remainder: they add up to the width, unless there is no time at all.
fn letters(sums: &Sums, columns: usize) -> Vec<usize> {
    let total = sums.total_ns();
    if total == 0 {
        return Vec::new();
    }
    let exact: Vec<f64> = sums.time().map(|(_, ns)| ns as f64 / total as f64 * columns as f64).collect();
    let mut letters: Vec<usize> = exact.iter().map(|share| *share as usize).collect();
    let missing = columns.saturating_sub(letters.iter().sum());
    let mut by_remainder: Vec<usize> = (0..exact.len()).collect();
    by_remainder.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()));
    for &index in by_remainder.iter().take(missing) {
        letters[index] += 1;
    }
    letters
}

/// Legend of these bars; empty if all is CPU.
pub(super) fn legend<'a>(all: impl Iterator<Item = &'a Sums>, unicode: bool) -> Vec<Piece> {
    let mut whole = Sums::default();
    for sums in all {
        whole.merge(sums);
    }
    let present = whole.time().filter(|&(_, ns)| ns > 0);
    present
        .map(|(cause, _)| {
            let (letter, emphasis) = look(cause, unicode);
            Piece::new(format!("{letter} {}  ", cause.name()), emphasis)
        })
        .collect()
}
