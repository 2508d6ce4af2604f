//! Lines of the program that asks NVIDIA's library.
#![no_main]

use guestscope_nvml::{Message, throttle_words};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Ok(message) = serde_json::from_slice::<Message>(line) else { continue };
        if let Message::Sample(sample) = &message {
            let _ = throttle_words(sample.throttle_reasons.unwrap_or(0)).count();
        }
        let text = serde_json::to_string(&message).expect("a message is JSON");
        assert!(
            !text.contains('\n')
                && serde_json::from_str::<Message>(&text).is_ok_and(|again| again == message)
        );
    }
});
