//! What an exporter puts by in the run folder: the header of a frame, and messages that come back as spans.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "as much of the exporter as reads frames")]
#[path = "."]
mod otlp {
    #[path = "../../agent/export/src/otlp/frames.rs"]
    mod frames;
    #[path = "../../agent/export/src/otlp/wire.rs"]
    mod wire;

    use frames::{Frames, HEADER_BYTES, Header};
    use opentelemetry_proto::tonic::trace::v1::TracesData;
    use prost::Message as _;

    pub(crate) fn read(bytes: &[u8]) {
        if let Some((header, frame)) = bytes.split_first_chunk::<HEADER_BYTES>()
            && let Some(header) = Header::read(header)
        {
            // A frame that this process did not write has no seal of its.
            assert!(!Frames::default().is_next(header, frame));
        }
        if let Ok(message) = TracesData::decode(bytes) {
            let spans = wire::count(&message);
            if let Ok(read) = wire::spans(message) {
                assert_eq!(read.len() as u64, spans);
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| otlp::read(bytes));
