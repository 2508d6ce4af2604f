//! Spans that a collector takes and rejects: the exporter library reports them only by a `tracing` event.
//!
//! A listener on the export thread, and only there, reads that event (`*.PartialSuccess`, opentelemetry-otlp
//! 0.33.1 `src/exporter/{tonic,http}/trace.rs`). It prints nothing and keeps no other event; a test against a
//! collector that rejects shows when a new version of the library reports it otherwise.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
    subscriber::Interest,
};

/// A collector's partial rejection of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rejection {
    /// Rejected spans. Zero with a message is a warning.
    pub(super) spans: u64,
    /// The collector's words: not to be shown before they are scrubbed.
    pub(super) message: String,
}

/// The last rejection not yet taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Rejections(Arc<Mutex<Option<Rejection>>>);

impl Rejections {
    /// Takes what was rejected since the last call.
    pub(super) fn take(&self) -> Option<Rejection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Listens on this thread as long as the guard lives.
    pub(super) fn listen(&self) -> tracing::subscriber::DefaultGuard {
        tracing::subscriber::set_default(Listener(self.clone()))
    }
}

struct Listener(Rejections);

fn concerns(metadata: &Metadata<'_>) -> bool {
    metadata.is_event()
        && *metadata.level() == Level::WARN
        && metadata.target() == "opentelemetry-otlp"
        && metadata.name().ends_with(".PartialSuccess")
}

impl Subscriber for Listener {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if concerns(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        concerns(metadata)
    }

    fn event(&self, event: &Event<'_>) {
        if concerns(event.metadata()) {
            let mut rejection = Rejection::default();
            event.record(&mut rejection);
            *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(rejection);
        }
    }

    // Spans of `tracing` are of no interest; one number for all is allowed.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

impl Visit for Rejection {
    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == "rejected_spans" {
            self.spans = u64::try_from(value).unwrap_or(0);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "error_message" {
            value.clone_into(&mut self.message);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}
