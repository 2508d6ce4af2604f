//! The two services of a trace: the observed program, which has the phases, and the kernel, which has the waits.
//!
//! Two resources, because a span's service is an attribute of its resource: so the kernel has a colour and a search of its
//! own in Jaeger. What is sent or written at once belongs to one of them. A span tells by its scope to which, wherever it
//! has been meanwhile.

use std::{borrow::Cow, sync::LazyLock};

use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::{Resource, trace::SpanData};

use super::{SCHEMA_URL, size};
use crate::untrusted::plain;

/// Whose spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// Of the program's name: its phases.
    Program,
    /// Of the name `kernel`, in the namespace of the program's name: its waits.
    Kernel,
}

fn scope(name: &'static str) -> InstrumentationScope {
    InstrumentationScope::builder(name).with_version(env!("CARGO_PKG_VERSION")).build()
}

static PROGRAM: LazyLock<InstrumentationScope> = LazyLock::new(|| scope("guestscope"));
static KERNEL: LazyLock<InstrumentationScope> = LazyLock::new(|| scope("guestscope.kernel"));

impl Service {
    /// Of a span.
    pub(super) fn of(span: &SpanData) -> Self {
        if span.instrumentation_scope.name() == KERNEL.name() { Service::Kernel } else { Service::Program }
    }

    /// Who says so.
    pub(super) fn scope(self) -> InstrumentationScope {
        match self {
            Service::Program => PROGRAM.clone(),
            Service::Kernel => KERNEL.clone(),
        }
    }
}

/// A value for each service.
#[derive(Clone, Debug, Default)]
pub(super) struct PerService<T> {
    /// Of the program.
    pub(super) program: T,
    /// Of the kernel.
    pub(super) kernel: T,
}

impl<T> PerService<T> {
    /// The one of this service.
    pub(super) fn get(&self, service: Service) -> &T {
        match service {
            Service::Program => &self.program,
            Service::Kernel => &self.kernel,
        }
    }

    /// The one of this service, to be changed.
    pub(super) fn get_mut(&mut self, service: Service) -> &mut T {
        match service {
            Service::Program => &mut self.program,
            Service::Kernel => &mut self.kernel,
        }
    }
}

/// The resources, and how many bytes a batch carries for the larger one.
pub(super) fn resources(
    service_name: &str,
    attributes: Vec<(Cow<'static, str>, Value)>,
) -> (PerService<Resource>, usize) {
    // The envelope around the attributes: lengths, the scope, the schema, the gRPC frame.
    const ENVELOPE_BYTES: usize = 256;
    let name = |name: &str| KeyValue::new("service.name", plain(name).into_owned());
    let attributes: Vec<KeyValue> =
        attributes.into_iter().map(|(key, value)| KeyValue::new(key, fit(value))).collect();
    let namespace = KeyValue::new("service.namespace", plain(service_name).into_owned());
    let others = attributes.iter().filter(|attribute| attribute.key != namespace.key).cloned();
    let kernel: Vec<KeyValue> = [name("kernel"), namespace.clone()].into_iter().chain(others).collect();
    let program: Vec<KeyValue> = std::iter::once(name(service_name)).chain(attributes).collect();
    let bytes = |list: &[KeyValue]| list.iter().map(size::attribute_bytes).sum::<usize>() + ENVELOPE_BYTES;
    let most = bytes(&program).max(bytes(&kernel));
    let resource = |list| Resource::builder_empty().with_schema_url(list, SCHEMA_URL).build();
    (PerService { program: resource(program), kernel: resource(kernel) }, most)
}

/// What the guest and a folder say of themselves, fit for those who look at the trace.
fn fit(value: Value) -> Value {
    if let Value::String(text) = &value { plain(text.as_str()).into_owned().into() } else { value }
}
