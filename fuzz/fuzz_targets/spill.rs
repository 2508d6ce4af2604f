//! What an exporter puts by in the run folder: the header of a frame, and requests that are read back and
//! split.
#![no_main]

use guestscope_base::json;
use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "as much of the exporter as reads frames")]
#[path = "."]
mod otlp {
    #[path = "../../agent/export/src/otlp/frames.rs"]
    mod frames;
    #[path = "../../agent/export/src/otlp/message.rs"]
    mod message;

    use frames::{Frames, HEADER_BYTES, Header};
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use prost::Message as _;

    pub(crate) fn read(bytes: &[u8]) {
        if let Some((header, frame)) = bytes.split_first_chunk::<HEADER_BYTES>()
            && let Some(header) = Header::read(header)
        {
            // A frame that this process did not write has no seal of its.
            assert!(!Frames::default().is_next(header, frame));
        }
        if let Ok(mut request) = ExportTraceServiceRequest::decode(bytes) {
            let spans = message::count(&request);
            assert_eq!(message::spans(&request).count() as u64, spans);
            let rest = message::split_off(&mut request, spans as usize / 2);
            assert_eq!(message::count(&request), spans / 2);
            assert_eq!(message::count(&request) + message::count(&rest), spans);
        }
    }
}

fuzz_target!(|bytes: &[u8]| otlp::read(bytes));
