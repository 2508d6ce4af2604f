//! Text of others, as people and JSON see it, and command lines whose secrets are masked.
#![no_main]

use guestscope_base::{json, secrets, untrusted::Untrusted};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = Untrusted::of_bytes(bytes);
    let shown = text.to_string();
    assert!(!shown.chars().any(char::is_control), "an order to a terminal: {shown:?}");
    let line = json::line(&text).expect("a text is JSON");
    assert!(!line.contains('\n'));
    assert_eq!(serde_json::from_str::<String>(&line).expect("it is JSON"), text.stored());
    let words: Vec<&str> = text.stored().split(' ').collect();
    let masked = secrets::masked(&words);
    assert_eq!(masked.len(), words.len());
    assert_eq!(secrets::masked(&masked), masked, "a masked line stays");
    let masked = secrets::masked_text(text.stored());
    assert_eq!(secrets::masked_text(&masked), masked, "a masked text stays");
});
