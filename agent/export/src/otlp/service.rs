//! The two services of a trace: the observed program, which has the phases, and the kernel, which has the
//! waits.
//!
//! Two resources, because a span's service is an attribute of its resource: so the kernel has its own colour
//! and search in Jaeger. A batch belongs to one of them. A span's scope tells which, even after a stay in a
//! file.

use std::{borrow::Cow, sync::LazyLock};

use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::{Resource, trace::SpanData};

use super::{SCHEMA_URL, size};
use crate::untrusted::plain;

/// Service of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// The program, under its own name: phases.
    Program,
    /// The kernel, named `kernel` in the namespace of the program's name: waits.
    Kernel,
}

fn scope(name: &'static str) -> InstrumentationScope {
    InstrumentationScope::builder(name).with_version(env!("CARGO_PKG_VERSION")).build()
}

static PROGRAM: LazyLock<InstrumentationScope> = LazyLock::new(|| scope("guestscope"));
static KERNEL: LazyLock<InstrumentationScope> = LazyLock::new(|| scope("guestscope.kernel"));

impl Service {
    /// Service of this span.
    pub(super) fn of(span: &SpanData) -> Self {
        if span.instrumentation_scope.name() == KERNEL.name() { Service::Kernel } else { Service::Program }
    }

    /// Instrumentation scope of the service.
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
    /// Value for the program.
    pub(super) program: T,
    /// Value for the kernel.
    pub(super) kernel: T,
}

impl<T> PerService<T> {
    /// Value for this service.
    pub(super) fn get(&self, service: Service) -> &T {
        match service {
            Service::Program => &self.program,
            Service::Kernel => &self.kernel,
        }
    }

    /// Mutable value for this service.
    pub(super) fn get_mut(&mut self, service: Service) -> &mut T {
        match service {
            Service::Program => &mut self.program,
            Service::Kernel => &mut self.kernel,
        }
    }
}

/// The resources, and the bytes that a batch carries for the larger one.
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

/// A value from the guest or a folder, made safe to display.
fn fit(value: Value) -> Value {
    if let Value::String(text) = &value { plain(text.as_str()).into_owned().into() } else { value }
}
