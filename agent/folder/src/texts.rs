//! Words and identifiers of rows: dictionaries that share them, bytes as hexadecimal text.
//!
//! Words have a maximum length; hexadecimal text may contain digits only.

use std::{collections::HashSet, sync::Arc};

use arrow::{
    array::{Array as _, ArrayRef, AsArray as _, StringArray, StringBuilder},
    datatypes::Int32Type,
};

use super::{
    access::{Borrow, Check},
    limits::VALUE_BYTES,
};
use crate::untrusted::Untrusted;

/// Words seen before, so that a million rows share one allocation per name.
#[derive(Debug, Default)]
pub(super) struct Words(HashSet<Arc<str>>);

impl Words {
    /// Names kept: programs have a few dozen. A folder with a name per row must not fill the memory.
    const MOST: usize = 4096;

    pub(super) fn share(&mut self, word: &str) -> Untrusted {
        if let Some(word) = self.0.get(word) {
            return Arc::clone(word).into();
        }
        let word = Arc::<str>::from(word);
        if self.0.len() < Self::MOST {
            self.0.insert(Arc::clone(&word));
        }
        word.into()
    }
}

/// Words of a dictionary that are not looked up again for each row.
const FEW_WORDS: usize = 256;

pub(super) fn decode_words<R>(
    array: &ArrayRef,
    rows: &mut [R],
    words: &mut Words,
    set: &Check<R, Untrusted>,
) -> bool {
    let array = array.as_dictionary::<Int32Type>();
    let values: &StringArray = array.values().as_string();
    // A program may give each phase a different name, all of which are in the dictionary: only those of these
    // rows are taken.
    let mut few: Vec<Option<Untrusted>> = vec![None; values.len().min(FEW_WORDS)];
    rows.iter_mut().zip(array.keys()).all(|(row, key)| {
        let Some(key) = key else { return true };
        let Ok(at) = usize::try_from(key) else { return false };
        if let Some(Some(word)) = few.get(at) {
            return set(row, word);
        }
        // A dictionary's own value may be null as well.
        let word = (at < values.len() && values.is_valid(at)).then(|| values.value(at));
        let Some(word) = word.filter(|word| word.len() as u64 <= VALUE_BYTES.most) else { return false };
        let word = words.share(word);
        let is_sensible = set(row, &word);
        if let Some(few) = few.get_mut(at) {
            *few = Some(word);
        }
        is_sensible
    })
}

pub(super) fn encode_hex<R>(rows: &[R], get: &Borrow<R, [u8]>) -> StringArray {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut texts = StringBuilder::with_capacity(rows.len(), rows.len() * 32);
    let mut text = String::with_capacity(32);
    for row in rows {
        text.clear();
        let bytes = get(row);
        for byte in bytes.unwrap_or_default() {
            text.push(DIGITS[usize::from(byte >> 4)]);
            text.push(DIGITS[usize::from(byte & 15)]);
        }
        texts.append_option(bytes.map(|_| text.as_str()));
    }
    texts.finish()
}

pub(super) fn decode_hex<R>(texts: &StringArray, rows: &mut [R], set: &Check<R, [u8]>) -> bool {
    let mut bytes = Vec::with_capacity(16);
    let mut last = None;
    rows.iter_mut().zip(texts).all(|(row, text)| {
        let Some(text) = text else { return true };
        // The phases of a request have the id of one trace.
        if last == Some(text) {
            return set(row, &bytes);
        }
        last = Some(text);
        bytes.clear();
        let digit = |digit: u8| char::from(digit).to_digit(16);
        for pair in text.as_bytes().chunks(2) {
            match pair {
                [high, low] => match (digit(*high), digit(*low)) {
                    (Some(high), Some(low)) => bytes.push((high << 4 | low) as u8),
                    _ => return false,
                },
                _ => return false,
            }
        }
        set(row, &bytes)
    })
}
