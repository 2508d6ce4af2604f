//! A collector that counts and keeps nothing: which spans came, and which came twice. It can go away and come
//! back.
//!
//! Speaks OTLP over gRPC. A span is known by the number of its request and its name, a bit each, so that
//! hours of a busy service fit into some megabytes. Spans of the kernel's service are counted, not told
//! apart.

use std::{
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::any_value::Value,
    trace::v1::Span,
};
use tokio::sync::oneshot;
use tonic::{Request, Response, Status, codec::CompressionEncoding, transport::server};

/// Number of span names that are distinguished.
const NAMES: usize = 8;

/// Counts of received spans.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    names: Vec<String>,
    /// A byte for each request, a bit of it for each name.
    seen: Vec<u8>,
    /// Spans of the program that came for the first time.
    pub(crate) first: u64,
    /// Spans of the program that had come before.
    pub(crate) again: u64,
    /// Spans of the kernel's service.
    pub(crate) kernel: u64,
}

impl Counts {
    fn take(&mut self, request: &ExportTraceServiceRequest) {
        for scope in request.resource_spans.iter().flat_map(|resource| &resource.scope_spans) {
            if scope.scope.as_ref().is_some_and(|scope| scope.name == "guestscope.kernel") {
                self.kernel += scope.spans.len() as u64;
            } else {
                scope.spans.iter().for_each(|span| self.span(span));
            }
        }
    }

    fn span(&mut self, span: &Span) {
        let mut numbers = span.attributes.iter().filter(|attribute| attribute.key == "guestscope.request");
        let number = numbers.find_map(|attribute| attribute.value.as_ref()?.value.as_ref());
        let Some(Value::IntValue(number)) = number else { return };
        let name = self.names.iter().position(|name| *name == span.name).unwrap_or_else(|| {
            self.names.push(span.name.clone());
            self.names.len() - 1
        });
        let Ok(at) = usize::try_from(*number) else { return };
        if name >= NAMES {
            return;
        }
        if self.seen.len() <= at {
            self.seen.resize(at + 1, 0);
        }
        let bit = 1 << name;
        if self.seen[at] & bit == 0 {
            self.first += 1;
        } else {
            self.again += 1;
        }
        self.seen[at] |= bit;
    }
}

#[derive(Clone, Default)]
struct Service(Arc<Mutex<Counts>>);

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take(request.get_ref());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// The collector.
pub(crate) struct Collector {
    service: Service,
    address: SocketAddr,
    serving: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Collector {
    /// Starts it on a free port.
    pub(crate) fn start() -> std::io::Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut collector = Self { service: Service::default(), address, serving: None };
        collector.back()?;
        Ok(collector)
    }

    /// Address for the agent.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What came so far, without which requests they were.
    pub(crate) fn counts(&self) -> Counts {
        let counts = self.service.0.lock().unwrap_or_else(PoisonError::into_inner);
        Counts { first: counts.first, again: counts.again, kernel: counts.kernel, ..Counts::default() }
    }

    /// As if it were killed: no listener, and every connection is cut.
    pub(crate) fn away(&mut self) {
        if let Some((end, thread)) = self.serving.take() {
            drop(end);
            // It has nothing to say.
            let _ = thread.join();
        }
    }

    /// Listens again where it did.
    pub(crate) fn back(&mut self) -> std::io::Result<()> {
        let listener = TcpListener::bind(self.address)?;
        listener.set_nonblocking(true)?;
        let (end, ended) = oneshot::channel::<()>();
        let service =
            TraceServiceServer::new(self.service.clone()).accept_compressed(CompressionEncoding::Gzip);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                let incoming = server::TcpIncoming::from(listener);
                let serving = server::Server::builder().add_service(service).serve_with_incoming(incoming);
                tokio::select! {
                    _ = serving => {}
                    _ = ended => {}
                }
            });
        });
        self.serving = Some((end, thread));
        Ok(())
    }
}
