//! Answers of a Jaeger to a search: spans are found in them, or they are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "as much of the agent as reads answers")]
#[path = "."]
mod jaeger {
    #[path = "../../agent/src/compare/jaeger/answer.rs"]
    mod answer;
    #[path = "../../agent/src/compare/jaeger/bounded.rs"]
    mod bounded;

    pub(crate) fn read(bytes: &[u8]) {
        if let Ok(found) = answer::read(bytes, "service") {
            assert!(found.origins.len() <= answer::MOST_ORIGINS);
            assert!(found.spans.iter().all(|span| span.origin < found.origins.len() && span.bytes() > 0));
        }
    }
}

/// The key of the exporter that the reader names.
mod sinks {
    pub(crate) mod otlp {
        pub(crate) mod keys {
            pub(crate) const AROUND: &str = "guestscope.phase.parent";
            pub(crate) const KIND: &str = "guestscope.kind";
        }
    }
}

fuzz_target!(|bytes: &[u8]| jaeger::read(bytes));
