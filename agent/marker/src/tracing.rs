//! Spans of the crate `tracing` as phases: a layer for `tracing-subscriber`, behind the feature `tracing`.
//!
//! ```
//! use tracing_subscriber::prelude::*;
//! tracing_subscriber::registry().with(guestscope_marker::tracing::layer()).init();
//! ```
//! Yields a phase for each span that is entered: it begins at the first enter, is left at each exit and
//! entered at each later enter, and ends when the span is closed. So spans of futures are charged their
//! running time, on any thread. A span without a parent on its thread is a root; its number is a numeric
//! field `request` or `request_id`. It deliberately ignores events, which are log lines, and spans that are
//! never entered.

use core::fmt;
use std::cell::Cell;

use tracing_core::{
    Field, Subscriber,
    field::Visit,
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    layer::Context,
    registry::{LookupSpan, SpanRef},
};

use crate::call;

/// `otel` in the contract's list of sources.
const SOURCE: u8 = 2;
/// Fields that hold the request's number.
const NUMBERS: [&str; 2] = ["request", "request_id"];
/// OpenTelemetry's convention for this crate: a name that is known at run time only.
const NAME: &str = "otel.name";

/// Ids of the program's own trace: trace id and span id, in the byte order of a `traceparent` header.
pub type Ids = ([u8; 16], [u8; 8]);

/// The layer; see the module.
pub struct Phases<F = ()> {
    ids: F,
}

impl<F> fmt::Debug for Phases<F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Phases")
    }
}

/// A layer that makes spans phases.
#[must_use]
pub fn layer() -> Phases {
    Phases { ids: () }
}

impl Phases {
    /// The same; a root's phase also joins the trace in which the program's own exporter has its span, below
    /// that span: `ids` reads both from the span's extensions, where `tracing-opentelemetry` and others keep
    /// them.
    #[must_use]
    pub fn with_ids<F>(self, ids: F) -> Phases<F> {
        let Phases { ids: () } = self;
        Phases { ids }
    }
}

/// Finds a span's ids.
pub trait FindIds<S>: Send + Sync + 'static
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    /// The span's ids; none: guestscope makes its own.
    fn find(&self, span: &SpanRef<'_, S>) -> Option<Ids>;
}

impl<S> FindIds<S> for ()
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn find(&self, _: &SpanRef<'_, S>) -> Option<Ids> {
        None
    }
}

impl<S, F> FindIds<S> for F
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    F: Fn(&SpanRef<'_, S>) -> Option<Ids> + Send + Sync + 'static,
{
    fn find(&self, span: &SpanRef<'_, S>) -> Option<Ids> {
        self(span)
    }
}

/// State kept beside a span.
#[derive(Default)]
struct Kept {
    name: Option<String>,
    number: u64,
    /// 0 before the first enter.
    token: u64,
    /// Thread that it is on, and how often it was entered there.
    thread: usize,
    depth: usize,
}

impl Visit for Kept {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if NUMBERS.contains(&field.name()) {
            self.number = value;
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record_u64(field, u64::try_from(value).unwrap_or(0));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == NAME {
            self.name = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

/// A number that differs between threads that live at the same time.
fn this_thread() -> usize {
    std::thread_local! {
        static HERE: Cell<u8> = const { Cell::new(0) };
    }
    HERE.with(|here| here.as_ptr() as usize)
}

impl<S, F> Layer<S> for Phases<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    F: FindIds<S>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut kept = Kept::default();
        attributes.record(&mut kept);
        span.extensions_mut().insert(kept);
    }

    /// A name that is recorded later, such as a route's, holds for the whole phase.
    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(kept) = extensions.get_mut::<Kept>() else { return };
        let before = kept.name.take();
        values.record(kept);
        match &kept.name {
            None => kept.name = before,
            Some(name) if kept.token != 0 => {
                // SAFETY: pointer and length are those of a string slice.
                unsafe { call::rename(kept.token, name.as_ptr(), name.len(), 0) }
            }
            Some(_) => {}
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        // Outside the lock of the extensions: the program's function looks there as well.
        let is_first = span.extensions().get::<Kept>().is_some_and(|kept| kept.token == 0);
        let ids = if is_first { self.ids.find(&span) } else { None };
        let mut extensions = span.extensions_mut();
        let Some(kept) = extensions.get_mut::<Kept>() else { return };
        let thread = this_thread();
        match kept.depth {
            0 => kept.thread = thread,
            // A phase is on one thread at a time: other threads inside it are not charged.
            _ if kept.thread != thread => return,
            _ => {}
        }
        kept.depth += 1;
        if kept.depth > 1 {
            return;
        }
        if kept.token != 0 {
            return call::enter(kept.token);
        }
        let name = kept.name.as_deref().unwrap_or_else(|| span.name());
        // SAFETY: pointer and length are those of a string slice.
        kept.token = unsafe { call::begin_from(SOURCE, name.as_ptr(), name.len(), kept.number) };
        if let Some((trace, parent)) = ids.filter(|_| crate::token::is_root(kept.token)) {
            call::context(kept.token, trace, parent);
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(kept) = extensions.get_mut::<Kept>() else { return };
        if kept.depth == 0 || kept.thread != this_thread() {
            return;
        }
        kept.depth -= 1;
        if kept.depth == 0 {
            call::leave(kept.token);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        // It was left when it was exited.
        call::end_left(span.extensions().get::<Kept>().map_or(0, |kept| kept.token));
    }
}
