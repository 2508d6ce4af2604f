//! BERT's uncased tokenizer by Hugging Face's library: clean the text, split it at spaces and signs, cut
//! words into pieces of the vocabulary. Yields token numbers and the place of each in the text. Special
//! tokens are the caller's.

use std::ops::Range;

use serde_json::{Map, Value, json};
use tokenizers::{
    Tokenizer as Pipeline, models::wordpiece::WordPiece, normalizers::BertNormalizer,
    pre_tokenizers::bert::BertPreTokenizer,
};

/// A tokenizer with one vocabulary.
pub struct Tokenizer {
    pipeline: Pipeline,
}

/// Tokens of a text.
#[derive(Debug, PartialEq, Eq)]
pub struct Pieces {
    pub ids: Vec<u32>,
    /// Byte range of each token in the text.
    pub places: Vec<Range<usize>>,
}

impl Tokenizer {
    /// A tokenizer with these tokens, by number.
    pub fn new(tokens: &[String]) -> Result<Self, tokenizers::Error> {
        let numbers: Map<String, Value> =
            tokens.iter().cloned().zip(0_u32..).map(|(token, id)| (token, id.into())).collect();
        // Parsed from JSON text: the library takes no values that own their text, and its builder would need
        // a map type that no other dependency has.
        let file = json!({
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": numbers,
        });
        let model: WordPiece = serde_json::from_str(&file.to_string())?;
        let mut pipeline = Pipeline::new(model);
        pipeline.with_normalizer(Some(BertNormalizer::default()))?;
        pipeline.with_pre_tokenizer(Some(BertPreTokenizer));
        Ok(Self { pipeline })
    }

    pub fn pieces(&self, text: &str) -> Result<Pieces, tokenizers::Error> {
        let encoding = self.pipeline.encode(text, false)?;
        let places = encoding.get_offsets().iter().map(|(begin, end)| *begin..*end).collect();
        Ok(Pieces { ids: encoding.get_ids().to_vec(), places })
    }
}

#[cfg(test)]
mod tests {
    use super::Tokenizer;
    use crate::data::words::{UNK, Vocabulary};

    fn split(text: &str) -> (Vec<String>, Vec<String>) {
        let vocabulary = Vocabulary::new(1);
        let pieces = Tokenizer::new(&vocabulary.tokens).unwrap().pieces(text).unwrap();
        let tokens = pieces.ids.iter().map(|id| vocabulary.tokens[*id as usize].clone()).collect();
        let places = pieces.places.iter().map(|place| text[place.clone()].to_owned()).collect();
        (tokens, places)
    }

    #[test]
    fn signs_stand_alone_and_letters_are_the_last_resort() {
        let (tokens, places) = split("XQZ, (7)!");
        assert_eq!(tokens, ["x", "##q", "##z", ",", "(", "7", ")", "!"]);
        assert_eq!(places, ["X", "Q", "Z", ",", "(", "7", ")", "!"]);
    }

    /// The accent is removed, as in BERT's uncased model; places still refer to the given text.
    #[test]
    fn places_are_of_the_text_as_it_was_given() {
        let (tokens, places) = split("Qx\u{e9}q \u{4e2d}");
        assert_eq!(tokens[0], "q");
        assert_eq!(places.concat(), "Qx\u{e9}q\u{4e2d}");
        assert_eq!(tokens.last().unwrap(), "[UNK]");
    }

    #[test]
    fn made_texts_hold_no_unknown_word_and_some_that_are_cut() {
        let vocabulary = Vocabulary::new(5);
        let tokenizer = Tokenizer::new(&vocabulary.tokens).unwrap();
        let text = String::from_utf8(vocabulary.file(5, 0)).unwrap();
        let pieces = tokenizer.pieces(&text).unwrap();
        assert!(!pieces.ids.contains(&UNK));
        assert!(pieces.ids.iter().any(|id| vocabulary.tokens[*id as usize].starts_with("##")));
        assert!(pieces.ids.len() > text.split_whitespace().count());
    }
}
