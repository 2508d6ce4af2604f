//! A question and a passage as BERT takes them: `[CLS] question [SEP] part of the passage [SEP]`, padded to
//! one length. A longer passage is cut into overlapping windows. Yields token numbers, and for each window
//! the part of the passage that it shows. It knows no text and no model.

use crate::data::words::{CLS, PAD, SEP};

/// Tokens of one window, as in MLPerf.
pub const LENGTH: usize = 384;
/// Tokens of the passage from the start of a window to the start of the next.
pub const STRIDE: usize = 128;
/// Tokens kept of a longer question.
const LONGEST_QUESTION: usize = 64;

/// The part of a passage that a window shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Index of its first token in the passage.
    pub first: usize,
    pub count: usize,
    /// Index of that token in the window.
    pub begin: usize,
}

/// Windows of any number of passages, one after the other.
#[derive(Debug, Default)]
pub struct Tokens {
    /// `LENGTH` token numbers per window.
    pub ids: Vec<i64>,
    /// 0 for the question, 1 for the passage.
    pub segments: Vec<i64>,
    /// 1 for a token, 0 for padding.
    pub mask: Vec<i64>,
}

impl Tokens {
    pub fn clear(&mut self) {
        let Self { ids, segments, mask } = self;
        ids.clear();
        segments.clear();
        mask.clear();
    }

    /// Adds the windows of one passage, at least one.
    pub fn push(&mut self, question: &[u32], passage: &[u32]) -> Vec<Window> {
        let question = &question[..question.len().min(LONGEST_QUESTION)];
        let begin = question.len() + 2;
        let most = LENGTH - begin - 1;
        let mut windows = Vec::new();
        let mut first = 0;
        loop {
            let count = most.min(passage.len() - first);
            self.window(question, &passage[first..first + count]);
            windows.push(Window { first, count, begin });
            if first + count == passage.len() {
                return windows;
            }
            first += count.min(STRIDE);
        }
    }

    fn window(&mut self, question: &[u32], part: &[u32]) {
        let parts: [(&[u32], i64); 5] = [(&[CLS], 0), (question, 0), (&[SEP], 0), (part, 1), (&[SEP], 1)];
        let mut used = 0;
        for (tokens, segment) in parts {
            self.ids.extend(tokens.iter().map(|token| i64::from(*token)));
            self.segments.extend(tokens.iter().map(|_| segment));
            self.mask.extend(tokens.iter().map(|_| 1));
            used += tokens.len();
        }
        let filled = LENGTH - used;
        self.ids.extend(std::iter::repeat_n(i64::from(PAD), filled));
        self.segments.extend(std::iter::repeat_n(0, filled));
        self.mask.extend(std::iter::repeat_n(0, filled));
    }
}

/// Whether `this` of all `windows` shows the most context around a token: only that window may answer with
/// it.
pub fn is_best(windows: &[Window], this: usize, token: usize) -> bool {
    // As in BERT's own script: the shorter side counts, and a little the length of the window.
    let context = |window: &Window| {
        let at = token.checked_sub(window.first).filter(|at| *at < window.count)?;
        Some(100 * at.min(window.count - 1 - at) + window.count)
    };
    let best = windows.iter().enumerate().filter_map(|(place, window)| Some((context(window)?, place)));
    // The first of equal windows.
    best.max_by_key(|(context, place)| (*context, usize::MAX - place)).is_some_and(|(_, place)| place == this)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{LENGTH, STRIDE, Tokens, Window, is_best};

    #[test]
    fn a_short_passage_takes_one_window() {
        let mut tokens = Tokens::default();
        let windows = tokens.push(&[7, 8], &[20, 21, 22]);
        assert_eq!(windows, [Window { first: 0, count: 3, begin: 4 }]);
        assert_eq!(tokens.ids[..10], [101, 7, 8, 102, 20, 21, 22, 102, 0, 0]);
        assert_eq!(tokens.segments[..10], [0, 0, 0, 0, 1, 1, 1, 1, 0, 0]);
        assert_eq!(tokens.mask[..10], [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
        assert_eq!(tokens.ids.len(), LENGTH);
    }

    #[test]
    fn an_empty_passage_and_a_long_question_fit() {
        let mut tokens = Tokens::default();
        assert_eq!(tokens.push(&[9; 100], &[]), [Window { first: 0, count: 0, begin: 66 }]);
        assert_eq!((tokens.mask.iter().sum::<i64>(), tokens.ids.len()), (67, LENGTH));
    }

    /// 500 tokens behind a question of 10: windows of 371 that begin at 0, 128 and 256.
    #[test]
    fn a_token_belongs_to_the_window_that_shows_most_around_it() {
        let windows = Tokens::default().push(&[1; 10], &[5; 500]);
        assert_eq!(windows.iter().map(|window| window.first).collect::<Vec<_>>(), [0, 128, 256]);
        assert_eq!(windows[2].count, 244);
        let owner = |token| (0..3).find(|place| is_best(&windows, *place, token)).unwrap();
        assert_eq!([0, 127, 200, 300, 499].map(owner), [0, 0, 0, 1, 2]);
    }

    proptest! {
        #[test]
        fn windows_show_every_token_and_one_owns_it(question in 0_usize..80, passage in 0_usize..1500) {
            let mut tokens = Tokens::default();
            let ids: Vec<u32> = (0..passage as u32).map(|id| id + 1000).collect();
            let windows = tokens.push(&vec![999; question], &ids);
            prop_assert_eq!(tokens.ids.len(), windows.len() * LENGTH);
            for (place, window) in windows.iter().enumerate() {
                prop_assert_eq!(window.first, place * STRIDE);
                for at in 0..window.count {
                    let id = tokens.ids[place * LENGTH + window.begin + at];
                    prop_assert_eq!(id, (window.first + at) as i64 + 1000);
                }
            }
            for token in 0..passage {
                let owners = (0..windows.len()).filter(|place| is_best(&windows, *place, token)).count();
                prop_assert_eq!(owners, 1);
            }
        }
    }
}
