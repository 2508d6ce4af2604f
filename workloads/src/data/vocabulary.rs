//! The vocabulary that trained weights were made with: one token a line, like Google's `vocab.txt` for BERT.
//! Yields the tokens by number. Special tokens must stand where BERT's uncased vocabulary has them: windows
//! are built from these numbers.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use super::words::{CLS, MASK, PAD, SEP, TOKENS, UNK};

/// Largest file; BERT's has 231,508 bytes.
const MOST_BYTES: u64 = 16 << 20;
const SPECIAL: [(u32, &str); 5] =
    [(PAD, "[PAD]"), (UNK, "[UNK]"), (CLS, "[CLS]"), (SEP, "[SEP]"), (MASK, "[MASK]")];

#[derive(Debug, thiserror::Error)]
pub enum VocabularyError {
    #[error("cannot read vocabulary: {path} ({source})")]
    Read { path: PathBuf, source: io::Error },
    #[error("not the vocabulary of this model: {path} ({reason})")]
    Other { path: PathBuf, reason: String },
}

impl VocabularyError {
    pub fn hint(&self) -> &'static str {
        "name the vocab.txt of BERT-Large, uncased: 30,522 tokens, one a line; without --vocab the seed decides it"
    }
}

/// The tokens of this file, by number.
pub fn read(path: &Path) -> Result<Vec<String>, VocabularyError> {
    let unreadable = |source| VocabularyError::Read { path: path.to_owned(), source };
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MOST_BYTES).read_to_string(&mut text).map_err(unreadable)?;
    let tokens: Vec<String> = text.lines().map(str::to_owned).collect();
    match objection(&tokens) {
        None => Ok(tokens),
        Some(reason) => Err(VocabularyError::Other { path: path.to_owned(), reason }),
    }
}

fn objection(tokens: &[String]) -> Option<String> {
    if tokens.len() != TOKENS {
        return Some(format!("{TOKENS} lines are expected, and it has {}", tokens.len()));
    }
    let missed = SPECIAL.into_iter().find(|(number, token)| tokens[*number as usize] != *token);
    if let Some((number, token)) = missed {
        return Some(format!("{token} is not in line {}", number + 1));
    }
    let mut known = HashSet::new();
    let again = tokens.iter().position(|token| !known.insert(token));
    again.map(|number| format!("line {} says what another one before it says", number + 1))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rstest::rstest;

    use super::read;
    use crate::data::words::Vocabulary;

    /// The result of reading a made vocabulary altered by `change`.
    fn read_changed(change: impl FnOnce(&mut Vec<String>)) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vocab.txt");
        let mut tokens = Vocabulary::new(1).tokens;
        change(&mut tokens);
        fs::write(&path, tokens.join("\n") + "\n").unwrap();
        let place = format!("{}/", folder.path().display());
        read(&path).map_err(|error| error.to_string().replace(&place, ""))
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(read_changed(|_| {}), Ok(Vocabulary::new(1).tokens));
    }

    #[rstest]
    #[case::short(|tokens: &mut Vec<String>| tokens.truncate(7), "30522 lines are expected, and it has 7")]
    #[case::cased(|tokens: &mut Vec<String>| tokens.swap(101, 102), "[CLS] is not in line 102")]
    #[case::twice(
        |tokens: &mut Vec<String>| tokens[5000] = tokens[4000].clone(),
        "line 5001 says what another one before it says"
    )]
    fn another_one_is_refused(#[case] change: fn(&mut Vec<String>), #[case] reason: &str) {
        let expected = format!("not the vocabulary of this model: vocab.txt ({reason})");
        assert_eq!(read_changed(change), Err(expected));
    }
}
