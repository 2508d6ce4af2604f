//! Which call of one process belongs to which of another.
//!
//! The order of the calls is that of the program, but a process may have been joined late, or calls may be
//! missing. Yields the calls that belong together, or says why that is not known. In this order:
//! - Where calls last until all have come, no call ends before the same call of another began. If that holds
//!   for one shift of the order alone, it is that one.
//! - Where both processes were seen from their first call on, it is their order: they were seen to join the
//!   others, or were observed over the same part of their work and made equally many calls; unless one would
//!   be later than by a step. With unequal numbers that is less certain ([`Matched::is_certain`]): a call may
//!   have been lost.
//! - Else it is the shift at which the times lie closest together, if they do so clearly: differences to all
//!   other shifts scatter much more. That is less certain too.
//!
//! Then all calls must fit as the first ones do; if they do not, a call is missing between them.

use std::ops::Range;

use super::{
    findings::{LEAST_CALLS, Mismatch},
    process::Call,
};

/// Calls that are looked at to find the shift: the first ones.
const HEAD: usize = 256;
/// After that all calls are looked at in pieces of at most so many calls,
const LONGEST_PIECE: usize = 64;
/// at least so many pieces if there are enough calls,
const PIECES_AT_LEAST: usize = 8;
/// and at most so many: after a missing call all of them fit worse.
const MOST_PIECES: usize = 64;
/// Shifts beside the nearest one in time that are tried: one step of training has some tens of calls.
const BESIDE: i64 = 64;
/// Part of the calls that must last until all have come; a lost end makes a call too short.
const HOLDING: f64 = 0.95;
/// If this part of them does, and the rest does not, something is lost.
const MOSTLY: f64 = 0.5;
/// Another shift is out of the question if differences scatter so many times as much.
const CLEARLY: u64 = 4;
/// One gap in so many is rare: a step of training has fewer calls.
const RARE: usize = 200;
/// Differences that scatter less than this are equal, ns: a wake-up.
const EQUAL_NS: u64 = 50_000;

/// The calls of one process.
#[derive(Clone, Copy, Debug)]
pub(super) struct List<'a> {
    /// Its place among the processes.
    pub(super) rank: usize,
    /// Number of its folder.
    pub(super) folder: usize,
    /// In the order of their times.
    pub(super) calls: &'a [Call],
    /// Its program was started under observation.
    pub(super) is_from_start: bool,
    /// Its first call was seen.
    pub(super) is_from_first: bool,
    /// No calls are known to be lost.
    pub(super) is_whole: bool,
}

/// Calls that belong together.
#[derive(Clone, Debug)]
pub(super) struct Matched<'a> {
    /// Equally many calls of each list, in their order.
    pub(super) calls: Vec<&'a [Call]>,
    /// Not by their times alone.
    pub(super) is_certain: bool,
}

/// How two lists fit at a shift.
#[derive(Clone, Copy, Debug)]
struct Fit {
    /// How far differences of starts lie from their median, the median, ns.
    scatter_ns: u64,
    /// The median difference of starts, ns.
    late_ns: i64,
    /// Part of the calls that end after the other one began.
    holding: f64,
}

impl Fit {
    fn holds(&self) -> bool {
        self.holding >= HOLDING
    }
}

/// Puts the calls of these lists beside each other; `apart_ns` is how far their clocks can be apart.
pub(super) fn matched<'a>(lists: &[List<'a>], apart_ns: u64) -> Result<Matched<'a>, (usize, Mismatch)> {
    let longest = (0..lists.len()).rev().max_by_key(|at| lists[*at].calls.len()).unwrap_or(0);
    let gap_ns = lists.get(longest).map_or(0, |list| longest_gap_ns(list.calls));
    let mut is_certain = true;
    let mut shifts = Vec::with_capacity(lists.len());
    for (at, list) in lists.iter().enumerate() {
        let shift =
            if at == longest { Ok((0, true)) } else { shift(&lists[longest], list, apart_ns, gap_ns) };
        let (shift, is_sure) = shift.map_err(|mismatch| (list.rank, mismatch))?;
        is_certain &= is_sure;
        shifts.push(shift);
    }
    let first = shifts.iter().map(|shift| -shift).max().unwrap_or(0).max(0);
    let ends = lists.iter().zip(&shifts).map(|(list, shift)| list.calls.len() as i64 - shift);
    let count = usize::try_from(ends.min().unwrap_or(0) - first).unwrap_or(0);
    let part = |(list, shift): (&List<'a>, &i64)| {
        let from = usize::try_from(first + shift).unwrap_or(0);
        list.calls.get(from..from + count).unwrap_or_default()
    };
    let calls: Vec<&[Call]> = lists.iter().zip(&shifts).map(part).collect();
    Ok(Matched { calls, is_certain })
}

/// What to add to the number of a call of `a` to get that of `b`, and whether that is certain. `gap_ns`: the
/// longest gap between calls of `a`.
fn shift(a: &List<'_>, b: &List<'_>, apart_ns: u64, gap_ns: u64) -> Result<(i64, bool), Mismatch> {
    if !is_at_the_same_time(a.calls, b.calls) {
        return Err(Mismatch::OtherTimes);
    }
    let head = |shift: i64| {
        let common = common(a.calls, b.calls, shift)?;
        let head = common.start..common.start + HEAD.min(common.len() / 2);
        fit(a.calls, b.calls, shift, head, apart_ns)
    };
    let near = nearest(a.calls, b.calls);
    let mut tried: Vec<i64> = (near - BESIDE..=near + BESIDE).collect();
    let is_from_first = a.is_from_first && b.is_from_first;
    let is_ordered = is_equal(a, b) || is_from_first;
    if is_ordered && !tried.contains(&0) {
        tried.push(0);
    }
    let fits: Vec<(i64, Fit)> = tried.into_iter().filter_map(|shift| Some((shift, head(shift)?))).collect();
    // Who waits for the others is never a whole step behind.
    let is_within = |fit: &Fit, ns: u64| fit.late_ns.unsigned_abs() < ns;
    let mut holding = fits.iter().filter(|(_, fit)| fit.holds());
    let (found, is_certain) = match (holding.next(), holding.next()) {
        (Some(one), None) => (Some(one), true),
        _ => match fits.iter().find(|(shift, fit)| is_ordered && *shift == 0 && is_within(fit, gap_ns)) {
            // If one made fewer calls, one of them may have been lost; if one is later than by half a step,
            // equal numbers may be of different calls after all.
            Some(one) => {
                let is_near = is_from_first || is_within(&one.1, gap_ns / 2);
                (Some(one), is_near && is_equal(a, b))
            }
            None => (clearest(&fits), false),
        },
    };
    let &(shift, _) = found.ok_or(Mismatch::Unclear)?;
    if stays(a.calls, b.calls, shift, apart_ns) { Ok((shift, is_certain)) } else { Err(Mismatch::Shifted) }
}

/// Whether they have the same calls: as many, none lost, observed over the same part of their work.
fn is_equal(a: &List<'_>, b: &List<'_>) -> bool {
    let is_from_first = a.is_from_first && b.is_from_first;
    let is_alike = a.folder == b.folder || is_from_first || a.is_from_start && b.is_from_start;
    a.calls.len() == b.calls.len() && is_alike && a.is_whole && b.is_whole
}

/// Whether the times of both overlap in half of the shorter one.
fn is_at_the_same_time(a: &[Call], b: &[Call]) -> bool {
    let span =
        |calls: &[Call]| Some((i128::from(calls.first()?.start_ns), i128::from(calls.last()?.start_ns)));
    let Some((a, b)) = span(a).zip(span(b)) else { return false };
    let common = a.1.min(b.1) - a.0.max(b.0);
    common >= 0 && common * 2 >= (a.1 - a.0).min(b.1 - b.0)
}

/// The shift at which the calls in the middle of the shorter list meet those of the other one.
fn nearest(a: &[Call], b: &[Call]) -> i64 {
    let near = |middle: Call, calls: &[Call]| {
        let after = calls.partition_point(|call| call.start_ns < middle.start_ns);
        let beside = after.saturating_sub(1)..(after + 1).min(calls.len());
        beside.min_by_key(|at| calls[*at].start_ns.abs_diff(middle.start_ns)).unwrap_or(0) as i64
    };
    let middle = |calls: &[Call]| calls.len() / 2;
    if b.len() < a.len() {
        middle(b) as i64 - near(b[middle(b)], a)
    } else {
        near(a[middle(a)], b) - middle(a) as i64
    }
}

/// The numbers of the calls of `a` that have one of `b` at this shift, if they are enough.
fn common(a: &[Call], b: &[Call], shift: i64) -> Option<Range<usize>> {
    let first = usize::try_from((-shift).max(0)).ok()?;
    let end = usize::try_from((b.len() as i64 - shift).min(a.len() as i64)).ok()?;
    Some(first..end).filter(|common| common.len() >= LEAST_CALLS)
}

/// How these calls of `a` fit those of `b` at this shift; none if one has no partner.
fn fit(a: &[Call], b: &[Call], shift: i64, calls: Range<usize>, apart_ns: u64) -> Option<Fit> {
    let partner = |at: usize| usize::try_from(at as i64 + shift).ok();
    let pairs = || Some(a.get(calls.clone())?.iter().zip(b.get(partner(calls.start)?..partner(calls.end)?)?));
    let mut late: Vec<i64> = pairs()?.map(|(a, b)| b.start_ns.saturating_sub(a.start_ns)).collect();
    let late_ns = median(&mut late)?;
    let mut scatter: Vec<u64> = late.iter().map(|ns| ns.abs_diff(late_ns)).collect();
    let scatter_ns = median(&mut scatter)?;
    let ends_after =
        |one: &Call, other: &Call| one.end_ns.saturating_add_unsigned(apart_ns) >= other.start_ns;
    let holding = pairs()?.filter(|(a, b)| ends_after(a, b) && ends_after(b, a)).count();
    Some(Fit { scatter_ns, late_ns, holding: holding as f64 / late.len() as f64 })
}

/// The middle one.
pub(super) fn median<T: Copy + Ord>(values: &mut [T]) -> Option<T> {
    let middle = values.len() / 2;
    if values.is_empty() { None } else { Some(*values.select_nth_unstable(middle).1) }
}

/// The shift of the smallest differences, if they scatter much less than at all others, and calls do not
/// mostly last until the others come at another one: then some are lost.
fn clearest(fits: &[(i64, Fit)]) -> Option<&(i64, Fit)> {
    let best = fits.iter().min_by_key(|(_, fit)| fit.late_ns.unsigned_abs())?;
    let is_clear = |(shift, fit): &(i64, Fit)| {
        *shift == best.0 || is_much_more(fit.scatter_ns, best.1.scatter_ns) && fit.holding < MOSTLY
    };
    fits.iter().all(is_clear).then_some(best)
}

/// Whether all calls fit at this shift as the first ones do.
fn stays(a: &[Call], b: &[Call], shift: i64, apart_ns: u64) -> bool {
    let Some(common) = common(a, b, shift) else { return false };
    let size = (common.len() / PIECES_AT_LEAST).clamp(LEAST_CALLS / 2, LONGEST_PIECE);
    let pieces = common.len() / size;
    let piece = |at: usize| common.start + at * size..common.start + (at + 1) * size;
    let looked_at = (0..pieces).step_by(pieces.div_ceil(MOST_PIECES)).chain(pieces.checked_sub(1));
    let mut first = None;
    for at in looked_at {
        let Some(fit) = fit(a, b, shift, piece(at), apart_ns) else { return false };
        let first: Fit = *first.get_or_insert(fit);
        if first.holds() && fit.holds() {
            continue;
        }
        // Where calls come in bursts, the differences after a missing one scatter by the gaps between bursts.
        let has_spread = is_much_more(fit.scatter_ns, first.scatter_ns);
        let is_better = |beside: i64| {
            let other = self::fit(a, b, shift + beside, piece(at), apart_ns);
            other.is_some_and(|other| is_much_more(fit.scatter_ns, other.scatter_ns))
        };
        let has_moved = fit.late_ns.abs_diff(first.late_ns) > between_ns(a) / 2;
        if has_moved || has_spread && (-BESIDE..=BESIDE).any(is_better) {
            return false;
        }
    }
    true
}

const fn is_much_more(scatter_ns: u64, than_ns: u64) -> bool {
    let than_ns = if than_ns > EQUAL_NS { than_ns } else { EQUAL_NS };
    scatter_ns >= than_ns.saturating_mul(CLEARLY)
}

/// Time from one call to the next, the longest but for rare ones such as a checkpoint, ns. Where calls come
/// in bursts it is a step.
fn longest_gap_ns(calls: &[Call]) -> u64 {
    let mut gaps: Vec<u64> = calls.windows(2).map(|two| two[1].start_ns.abs_diff(two[0].start_ns)).collect();
    let Some(last) = gaps.len().checked_sub(1) else { return 0 };
    *gaps.select_nth_unstable(last - last / RARE).1
}

/// Time from one call to the next, the mean, ns.
pub(super) fn between_ns(calls: &[Call]) -> u64 {
    let span_ns = calls.first().zip(calls.last()).map_or(0, |(a, b)| b.start_ns.abs_diff(a.start_ns));
    span_ns / (calls.len() as u64).saturating_sub(1).max(1)
}
