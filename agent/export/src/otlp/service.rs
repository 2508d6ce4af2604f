//! The services of a trace: the observed program, which has the phases, the kernel, which has the waits, and
//! the GPU, which has what ran on it.
//!
//! A resource for each, because a span's service is an attribute of its resource: so the kernel has its own
//! colour and search in Jaeger. A request carries all of them.

use std::{borrow::Cow, collections::BTreeMap};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, ArrayValue, InstrumentationScope, any_value::Value},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans, Span},
};
use prost::Message as _;

use super::{SCHEMA_URL, message};
use crate::untrusted::plain;

/// Service of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// The program, under its own name: phases.
    Program,
    /// The kernel, named `kernel` in the namespace of the program's name: waits.
    Kernel,
    /// Graphics processors, named `gpu` in the same namespace: what ran on them.
    Gpu,
}

impl Service {
    /// Name of the service's instrumentation scope.
    fn scope(self) -> &'static str {
        match self {
            Service::Program => "guestscope",
            Service::Kernel => "guestscope.kernel",
            Service::Gpu => "guestscope.gpu",
        }
    }
}

/// A value for each service.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PerService<T> {
    /// Value for the program.
    pub(super) program: T,
    /// Value for the kernel.
    pub(super) kernel: T,
    /// Value for graphics processors.
    pub(super) gpu: T,
}

impl<T> PerService<T> {
    /// Mutable value for this service.
    pub(super) fn get_mut(&mut self, service: Service) -> &mut T {
        match service {
            Service::Program => &mut self.program,
            Service::Kernel => &mut self.kernel,
            Service::Gpu => &mut self.gpu,
        }
    }
}

/// What a request says of a service beside its spans.
#[derive(Clone, Debug)]
struct Envelope {
    resource: Resource,
    scope: InstrumentationScope,
}

impl Envelope {
    fn new(service: Service, attributes: BTreeMap<Cow<'static, str>, Value>) -> Self {
        let attributes = attributes.into_iter().map(|(key, value)| message::attribute(key, value));
        let resource = Resource { attributes: attributes.collect(), ..Resource::default() };
        let scope = InstrumentationScope {
            name: service.scope().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        Self { resource, scope }
    }

    fn around(&self, spans: Vec<Span>) -> ResourceSpans {
        let scope = ScopeSpans { scope: Some(self.scope.clone()), spans, schema_url: String::new() };
        ResourceSpans {
            resource: Some(self.resource.clone()),
            scope_spans: vec![scope],
            schema_url: SCHEMA_URL.to_owned(),
        }
    }
}

/// The resources of all services.
#[derive(Clone, Debug)]
pub(super) struct Resources(PerService<Envelope>);

impl Resources {
    /// Resources of a program of this name. Of attributes with the same key the last one holds.
    pub(super) fn new(service_name: &str, attributes: Vec<(Cow<'static, str>, Value)>) -> Self {
        let text = |text: &str| Value::StringValue(plain(text).into_owned());
        let (name, namespace) = (Cow::from("service.name"), Cow::from("service.namespace"));
        let mut program: BTreeMap<_, _> =
            attributes.into_iter().map(|(key, value)| (key, fit(value))).collect();
        let mut kernel = program.clone();
        kernel.insert(namespace, text(service_name));
        let mut gpu = kernel.clone();
        kernel.entry(name.clone()).or_insert_with(|| text("kernel"));
        gpu.entry(name.clone()).or_insert_with(|| text("gpu"));
        program.entry(name).or_insert_with(|| text(service_name));
        let of = [(Service::Program, program), (Service::Kernel, kernel), (Service::Gpu, gpu)];
        let [program, kernel, gpu] = of.map(|(service, attributes)| Envelope::new(service, attributes));
        Self(PerService { program, kernel, gpu })
    }

    /// Resource of the program.
    pub(super) fn program(&self) -> Resource {
        self.0.program.resource.clone()
    }

    /// The most bytes that a request has beside its spans: all services, and gRPC's frame.
    pub(super) fn bytes(&self) -> usize {
        // Six lengths, which grow by four bytes at most, and a frame of five bytes.
        const LENGTHS_BYTES: usize = 6 * 4 + 5;
        let PerService { program, kernel, gpu } = &self.0;
        let resource_spans = [kernel, gpu, program].map(|envelope| envelope.around(Vec::new())).into();
        ExportTraceServiceRequest { resource_spans }.encoded_len() + LENGTHS_BYTES
    }

    /// A request of these spans. The kernel's and the GPU's come first: of a request that is halved, they
    /// leave before the phases that they lie in.
    pub(super) fn request(&self, spans: PerService<Vec<Span>>) -> ExportTraceServiceRequest {
        let PerService { program, kernel, gpu } = spans;
        let of = [(&self.0.kernel, kernel), (&self.0.gpu, gpu), (&self.0.program, program)];
        let filled = of.into_iter().filter(|(_, spans)| !spans.is_empty());
        let resource_spans = filled.map(|(envelope, spans)| envelope.around(spans)).collect();
        ExportTraceServiceRequest { resource_spans }
    }
}

/// A value from the guest or a folder, made safe to display.
fn fit(value: Value) -> Value {
    match value {
        Value::StringValue(text) => Value::StringValue(plain(&text).into_owned()),
        Value::ArrayValue(array) => {
            let fitted = array.values.into_iter().map(|any| AnyValue { value: any.value.map(fit) });
            Value::ArrayValue(ArrayValue { values: fitted.collect() })
        }
        Value::BoolValue(_)
        | Value::IntValue(_)
        | Value::DoubleValue(_)
        | Value::KvlistValue(_)
        | Value::BytesValue(_)
        | Value::StringValueStrindex(_) => value,
    }
}
