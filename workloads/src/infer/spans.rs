//! Answers from BERT's two logits per token: the best pairs of a first and a last token. Yields spans of the
//! passage, best first. It knows no text.

use super::windows::{LENGTH, Window, is_best};

/// How many answers are named, and how many first and last tokens of a window are tried, as in MLPerf.
pub const BEST: usize = 20;
/// Tokens of the longest answer.
const LONGEST: usize = 30;

/// An answer: tokens `first` to `last` of the passage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    pub first: usize,
    pub last: usize,
    /// The sum of both numbers.
    pub score: f32,
    /// Softmax over the answers given.
    pub probability: f32,
}

/// The best answers of one passage; `starts` and `ends` hold `LENGTH` logits for each window.
pub fn best(windows: &[Window], starts: &[f32], ends: &[f32]) -> Vec<Span> {
    let mut spans = Vec::new();
    let logits = starts.chunks_exact(LENGTH).zip(ends.chunks_exact(LENGTH));
    for (place, (window, (starts, ends))) in windows.iter().zip(logits).enumerate() {
        let shown = window.begin..window.begin + window.count;
        let (starts, ends) = (&starts[shown.clone()], &ends[shown]);
        let lasts = highest(ends);
        for first in highest(starts) {
            if !is_best(windows, place, window.first + first) {
                continue;
            }
            for last in lasts.iter().copied().filter(|last| (first..first + LONGEST).contains(last)) {
                spans.push(Span {
                    first: window.first + first,
                    last: window.first + last,
                    score: starts[first] + ends[last],
                    probability: 0.0,
                });
            }
        }
    }
    // Equal scores are ordered by position, so that the order of the windows does not matter.
    spans.sort_by(|one, other| {
        other.score.total_cmp(&one.score).then((one.first, one.last).cmp(&(other.first, other.last)))
    });
    spans.truncate(BEST);
    let most = spans.first().map_or(0.0, |span| span.score);
    let sum: f32 = spans.iter().map(|span| (span.score - most).exp()).sum();
    for span in &mut spans {
        span.probability = (span.score - most).exp() / sum;
    }
    spans
}

/// Positions of the highest logits, highest first.
fn highest(logits: &[f32]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..logits.len()).collect();
    places.sort_by(|one, other| logits[*other].total_cmp(&logits[*one]));
    places.truncate(BEST);
    places
}

#[cfg(test)]
mod tests {
    use super::{BEST, LENGTH, best};
    use crate::infer::windows::Window;

    /// One window whose passage is at 12 to 61.
    fn one() -> [Window; 1] {
        [Window { first: 0, count: 50, begin: 12 }]
    }

    fn logits(high: &[(usize, f32)]) -> Vec<f32> {
        let mut logits = vec![0.0; LENGTH];
        for (place, value) in high {
            logits[*place] = *value;
        }
        logits
    }

    #[test]
    fn the_best_pair_comes_first() {
        let spans = best(&one(), &logits(&[(15, 5.0), (40, 4.0)]), &logits(&[(17, 3.5), (41, 3.0)]));
        let three: Vec<_> = spans[..3].iter().map(|span| (span.first, span.last, span.score)).collect();
        assert_eq!(three, [(3, 5, 8.5), (3, 29, 8.0), (28, 29, 7.0)]);
        assert_eq!(spans.len(), BEST);
        let sum: f32 = spans.iter().map(|span| span.probability).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{sum}");
        assert!(spans.windows(2).all(|pair| pair[0].score >= pair[1].score));
    }

    #[test]
    fn the_question_and_what_fills_up_are_no_answers() {
        let outside = [(3, 90.0), (11, 90.0), (62, 90.0), (383, 90.0)];
        let spans = best(&one(), &logits(&outside), &logits(&outside));
        assert!(spans.iter().all(|span| span.last < 50 && span.score == 0.0), "{spans:?}");
    }

    #[test]
    fn an_answer_does_not_end_before_it_begins_nor_is_it_long() {
        let spans = best(&one(), &logits(&[(40, 9.0)]), &logits(&[(20, 9.0), (59, 1.0)]));
        let top = spans[0];
        assert_eq!((top.first, top.last, top.score), (28, 47, 10.0), "{spans:?}");
        assert!(spans.iter().all(|span| span.first <= span.last && span.last - span.first < 30));
    }

    #[test]
    fn no_tokens_no_answers() {
        let window = [Window { first: 0, count: 0, begin: 12 }];
        assert_eq!(best(&window, &logits(&[]), &logits(&[])), []);
    }
}
