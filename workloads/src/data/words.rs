//! A language of made-up words: a WordPiece vocabulary as large as BERT's, with its special tokens in the
//! same places, and questions with passages in words of that vocabulary. Yields the same for the same seed on
//! every machine. It means nothing.

use std::{collections::HashSet, ops::Range};

use super::random::Random;

/// Tokens of BERT's vocabulary.
pub const TOKENS: usize = 30_522;
/// Numbers of the special tokens, those of BERT's uncased vocabulary.
pub const PAD: u32 = 0;
pub const UNK: u32 = 100;
pub const CLS: u32 = 101;
pub const SEP: u32 = 102;
pub const MASK: u32 = 103;
/// Numbers below this are special or unused, as in BERT's uncased vocabulary.
const FIRST_USED: usize = 999;
/// Goes up when the same seed gives other words or texts than before.
pub const GENERATOR_VERSION: u64 = 1;

const ONSETS: [&str; 20] =
    ["", "b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr", "pl", "ch", "gr"];
const NUCLEI: [&str; 8] = ["a", "e", "i", "o", "u", "ea", "ou", "io"];
const CODAS: [&str; 8] = ["", "n", "r", "s", "t", "l", "m", "nd"];

/// All tokens, and which of them make up texts.
#[derive(Debug)]
pub struct Vocabulary {
    /// Tokens by number.
    pub tokens: Vec<String>,
    words: Range<usize>,
    endings: Range<usize>,
}

impl Vocabulary {
    /// Special tokens, signs and letters, words, and endings that begin with `##` (one in five, as in
    /// BERT's).
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, u64::MAX);
        let mut tokens = special();
        let signs = ('!'..='~').filter(|sign| !sign.is_ascii_uppercase());
        tokens.extend(signs.map(String::from));
        tokens.extend(('a'..='z').chain('0'..='9').map(|letter| format!("##{letter}")));
        let endings_from = tokens.len();
        let endings = (TOKENS - endings_from) / 5;
        let mut known: HashSet<String> = tokens.iter().cloned().collect();
        let mut add = |tokens: &mut Vec<String>, until: usize, begin: &str| {
            while tokens.len() < until {
                let token = format!("{begin}{}", word(&mut random));
                if known.insert(token.clone()) {
                    tokens.push(token);
                }
            }
        };
        let words_from = endings_from + endings;
        add(&mut tokens, words_from, "##");
        add(&mut tokens, TOKENS, "");
        Self { tokens, words: words_from..TOKENS, endings: endings_from..words_from }
    }

    /// The content of file number `place`: a question in the first line, then a passage of 60 to 250 words,
    /// one in eight of 400 to 700, which takes more than one window.
    pub fn file(&self, seed: u64, place: u64) -> Vec<u8> {
        let mut random = Random::new(seed, place);
        let mut text = String::new();
        let asked = 6 + random.u64() % 9;
        self.sentence(&mut random, asked, '?', &mut text);
        text.push('\n');
        let long = random.u64().is_multiple_of(8);
        let mut left = if long { 400 + random.u64() % 301 } else { 60 + random.u64() % 191 };
        while left > 0 {
            let words = (5 + random.u64() % 16).min(left);
            self.sentence(&mut random, words, '.', &mut text);
            left -= words;
            text.push(if left == 0 { '\n' } else { ' ' });
        }
        text.into_bytes()
    }

    /// Every tenth word has an ending that makes two tokens of it, one in 20 is a number, one in 12 has a
    /// comma.
    fn sentence(&self, random: &mut Random, words: u64, end: char, text: &mut String) {
        for index in 0..words {
            if index > 0 {
                text.push(if random.u64().is_multiple_of(12) { ',' } else { ' ' });
                if text.ends_with(',') {
                    text.push(' ');
                }
            }
            if random.u64().is_multiple_of(20) {
                text.push_str(&(random.u64() % 3000).to_string());
                continue;
            }
            let word = self.often(random, &self.words);
            match word.chars().next() {
                Some(first) if index == 0 => {
                    text.push(first.to_ascii_uppercase());
                    text.push_str(&word[first.len_utf8()..]);
                }
                _ => text.push_str(word),
            }
            if random.u64().is_multiple_of(10) {
                text.push_str(self.often(random, &self.endings).trim_start_matches('#'));
            }
        }
        text.push(end);
    }

    /// A word of the range, the first ones far more often than the last ones.
    fn often(&self, random: &mut Random, range: &Range<usize>) -> &str {
        let share = random.uniform(0.0, 1.0);
        let place = (share * share * share * range.len() as f32) as usize;
        &self.tokens[range.start + place.min(range.len() - 1)]
    }
}

/// The first 999 tokens, as in BERT's uncased vocabulary.
fn special() -> Vec<String> {
    let mut unused = 0..;
    let mut next = || format!("[unused{}]", unused.next().unwrap_or(0));
    (0..FIRST_USED as u32)
        .map(|number| match number {
            PAD => "[PAD]".to_owned(),
            UNK => "[UNK]".to_owned(),
            CLS => "[CLS]".to_owned(),
            SEP => "[SEP]".to_owned(),
            MASK => "[MASK]".to_owned(),
            _ => next(),
        })
        .collect()
}

/// One to three syllables.
fn word(random: &mut Random) -> String {
    let bits = random.u64();
    let syllables = 1 + bits % 3;
    let pick = |list: &[&'static str], random: &mut Random| list[(random.u64() % list.len() as u64) as usize];
    let mut word = String::new();
    for _ in 0..syllables {
        word.push_str(pick(&ONSETS, random));
        word.push_str(pick(&NUCLEI, random));
        word.push_str(pick(&CODAS, random));
    }
    word
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{CLS, MASK, PAD, SEP, TOKENS, UNK, Vocabulary};

    #[test]
    fn the_vocabulary_has_the_shape_of_berts() {
        let vocabulary = Vocabulary::new(1);
        assert_eq!(vocabulary.tokens.len(), TOKENS);
        let different: HashSet<&String> = vocabulary.tokens.iter().collect();
        assert_eq!(different.len(), TOKENS);
        let of = |number: u32| vocabulary.tokens[number as usize].as_str();
        assert_eq!([PAD, UNK, CLS, SEP, MASK].map(of), ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]);
        assert_eq!([1, 99, 104, 998].map(of), ["[unused0]", "[unused98]", "[unused99]", "[unused993]"]);
        assert_eq!(of(999), "!", "BERT's too");
        let endings = vocabulary.tokens.iter().filter(|token| token.starts_with("##")).count();
        // BERT's uncased vocabulary has 5,828.
        assert!((5_500..6_500).contains(&endings), "{endings}");
    }

    #[test]
    fn a_seed_decides_words_and_texts() {
        let (one, other) = (Vocabulary::new(1), Vocabulary::new(2));
        assert_eq!(one.tokens, Vocabulary::new(1).tokens);
        assert_ne!(one.tokens, other.tokens);
        assert_eq!(one.file(1, 0), one.file(1, 0));
        assert_ne!(one.file(1, 0), one.file(1, 1));
        assert_ne!(one.file(1, 0), one.file(2, 0));
    }

    #[test]
    fn some_passages_are_long() {
        let vocabulary = Vocabulary::new(3);
        let words: Vec<usize> = (0..100)
            .map(|place| {
                let text = String::from_utf8(vocabulary.file(3, place)).unwrap();
                let (question, passage) = text.split_once('\n').unwrap();
                assert!(
                    question.ends_with('?') && (6..=14).contains(&question.split(' ').count()),
                    "{question}"
                );
                assert!(passage.ends_with(".\n"));
                passage.split_whitespace().count()
            })
            .collect();
        assert!(
            words.iter().all(|words| (60..=250).contains(words) || (400..=700).contains(words)),
            "{words:?}"
        );
        let long = words.iter().filter(|words| **words >= 400).count();
        assert!((3..30).contains(&long), "{long}");
    }
}
