//! Scripted collectors in this process, for gRPC and HTTP, that remember what they received.
//!
//! They are servers of their own on a free port of 127.0.0.1, each on a thread. They know no more of OTLP
//! than the generated types.

use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    trace::v1::Span,
};
use prost::Message;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tonic::{Code, Request, Response, Status, codec::CompressionEncoding, transport};

use crate::otlp::Protocol;

/// What a collector does with a request.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Take,
    /// Takes it, and reports so many spans as rejected.
    Reject(i64, String),
    Fail(Failure),
    /// Does not answer before it is released.
    Stall,
}

/// How a collector refuses.
#[derive(Clone, Copy, Debug)]
pub(super) enum Failure {
    Busy,
    Throttled,
    Forbidden,
    BadSpans,
    TooLarge,
    Internal,
}

impl Failure {
    fn code(self) -> Code {
        match self {
            Failure::Busy | Failure::Throttled => Code::Unavailable,
            Failure::Forbidden => Code::PermissionDenied,
            Failure::BadSpans => Code::InvalidArgument,
            Failure::TooLarge => Code::ResourceExhausted,
            Failure::Internal => Code::Internal,
        }
    }

    fn status(self) -> &'static str {
        match self {
            Failure::Busy => "503 Service Unavailable",
            Failure::Throttled => "429 Too Many Requests\r\nretry-after: 0",
            Failure::Forbidden => "403 Forbidden",
            Failure::BadSpans => "400 Bad Request",
            Failure::TooLarge => "413 Content Too Large",
            Failure::Internal => "500 Internal Server Error",
        }
    }
}

/// Names, in lower case, and values.
type Headers = Vec<(String, String)>;

/// A request that arrived.
#[derive(Clone, Debug)]
pub(super) struct Received {
    pub(super) request: ExportTraceServiceRequest,
    pub(super) headers: Headers,
    /// Whether it was taken.
    pub(super) taken: bool,
}

impl Received {
    pub(super) fn spans(&self) -> impl Iterator<Item = &Span> {
        self.request.resource_spans.iter().flat_map(|r| &r.scope_spans).flat_map(|s| &s.spans)
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

type Judge = Box<dyn Fn(&ExportTraceServiceRequest) -> Act + Send>;

#[derive(Default)]
struct Log {
    received: Vec<Received>,
    next: VecDeque<Act>,
    judge: Option<Judge>,
}

/// State shared by collector and test.
#[derive(Clone, Default)]
pub(super) struct Script {
    log: Arc<(Mutex<Log>, Condvar)>,
    released: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl Script {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.0.lock().expect("no test panics with the lock held")
    }

    fn receive(&self, request: ExportTraceServiceRequest, headers: Headers) -> Act {
        let mut log = self.log();
        let judged = log.judge.as_ref().map(|judge| judge(&request));
        let act = log.next.pop_front().or(judged).unwrap_or(Act::Take);
        let taken = matches!(act, Act::Take | Act::Reject(..));
        log.received.push(Received { request, headers, taken });
        self.log.1.notify_all();
        act
    }

    /// None while a stalled answer has to wait; then whether there will be an answer or the collector has
    /// died.
    fn answers(&self) -> Option<bool> {
        let released = self.released.load(Ordering::Relaxed);
        (released || self.ended.load(Ordering::Relaxed)).then_some(released)
    }
}

/// A running collector. Dropping it closes its port.
pub(super) struct Collector {
    script: Script,
    address: SocketAddr,
    secure: bool,
    thread: Option<thread::JoinHandle<()>>,
}

/// A certificate and its key, as PEM.
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Collector {
    /// A collector on a free port that takes everything.
    pub(super) fn start(protocol: Protocol) -> Self {
        Self::start_on(protocol, 0, None)
    }

    /// A collector on a reused port, or with TLS.
    pub(super) fn start_on(protocol: Protocol, port: u16, identity: Option<&Identity>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let script = Script::default();
        let body: Box<dyn FnOnce() + Send> = match protocol {
            Protocol::Grpc => {
                let (script, tls) = (script.clone(), identity.map(grpc_identity));
                Box::new(move || serve_grpc(listener, &script, tls))
            }
            Protocol::HttpProtobuf => {
                let (script, tls) = (script.clone(), identity.map(http_identity));
                Box::new(move || serve_http(&listener, &script, tls.as_ref()))
            }
        };
        Self { script, address, secure: identity.is_some(), thread: Some(thread::spawn(body)) }
    }

    pub(super) fn endpoint(&self) -> String {
        format!("{}://localhost:{}", if self.secure { "https" } else { "http" }, self.address.port())
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the acts for the next requests, in this order.
    pub(super) fn next(&self, acts: impl IntoIterator<Item = Act>) {
        self.script.log().next.extend(acts);
    }

    /// Sets the act for all other requests.
    pub(super) fn judge(&self, judge: impl Fn(&ExportTraceServiceRequest) -> Act + Send + 'static) {
        self.script.log().judge = Some(Box::new(judge));
    }

    /// Releases stalled requests.
    pub(super) fn release(&self) {
        self.script.released.store(true, Ordering::Relaxed);
    }

    pub(super) fn received(&self) -> Vec<Received> {
        self.script.log().received.clone()
    }

    /// The spans that were taken, in order.
    pub(super) fn taken(&self) -> Vec<Span> {
        self.received().iter().filter(|r| r.taken).flat_map(Received::spans).cloned().collect()
    }

    /// Waits until `enough`, for half a minute at most.
    pub(super) fn wait(&self, enough: impl Fn(&[Received]) -> bool) {
        let log = self.script.log();
        let limit = Duration::from_secs(30);
        let (_log, outcome) = self
            .script
            .log
            .1
            .wait_timeout_while(log, limit, |log| !enough(&log.received))
            .expect("no test panics with the lock held");
        assert!(!outcome.timed_out(), "the collector did not get what it waits for");
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.script.ended.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn response(act: &Act) -> ExportTraceServiceResponse {
    let Act::Reject(rejected_spans, message) = act else { return ExportTraceServiceResponse::default() };
    let partial =
        ExportTracePartialSuccess { rejected_spans: *rejected_spans, error_message: message.clone() };
    ExportTraceServiceResponse { partial_success: Some(partial) }
}

#[tonic::async_trait]
impl TraceService for Script {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let headers = request.metadata().clone().into_headers();
        let headers = headers
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
        let act = self.receive(request.get_ref().clone(), headers.collect());
        match act {
            Act::Fail(failure) => Err(Status::new(failure.code(), "no")),
            Act::Stall => {
                while self.answers() != Some(true) {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                Ok(Response::new(response(&act)))
            }
            Act::Take | Act::Reject(..) => Ok(Response::new(response(&act))),
        }
    }
}

fn grpc_identity(identity: &Identity) -> transport::ServerTlsConfig {
    let Identity { certificate, key } = identity;
    transport::ServerTlsConfig::new().identity(transport::Identity::from_pem(certificate, key))
}

fn serve_grpc(listener: TcpListener, script: &Script, tls: Option<transport::ServerTlsConfig>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        listener.set_nonblocking(true).expect("a socket");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
        let incoming = transport::server::TcpIncoming::from(listener);
        let service = TraceServiceServer::new(script.clone())
            .accept_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(4 << 20);
        let mut server = transport::Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).expect("a certificate");
        }
        let serving = server.add_service(service).serve_with_incoming(incoming);
        let ended = async {
            while !script.ended.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        // Cuts the connections, as when the process is killed.
        tokio::select! {
            outcome = serving => outcome.expect("it serves"),
            () = ended => {}
        }
    });
}

fn http_identity(identity: &Identity) -> Arc<ServerConfig> {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("PEM");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_no_client_auth();
    Arc::new(builder.with_single_cert(vec![certificate], key).expect("a certificate"))
}

fn serve_http(listener: &TcpListener, script: &Script, tls: Option<&Arc<ServerConfig>>) {
    for stream in listener.incoming() {
        if script.ended.load(Ordering::Relaxed) {
            return;
        }
        let (Ok(stream), script) = (stream, script.clone()) else { continue };
        let tls = tls.cloned();
        // Ends when the client closes, or at the next request after the end.
        thread::spawn(move || match tls {
            None => answer_all(stream, &script),
            Some(tls) => {
                let connection = ServerConnection::new(tls).expect("a configuration");
                answer_all(StreamOwned::new(connection, stream), &script)
            }
        });
    }
}

/// Answers one connection, request after request.
fn answer_all<S: Read + Write>(stream: S, script: &Script) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while !script.ended.load(Ordering::Relaxed) {
        let (headers, body) = read_request(&mut stream)?;
        if script.ended.load(Ordering::Relaxed) {
            return Ok(());
        }
        let act = script.receive(decode(&headers, &body)?, headers);
        while matches!(act, Act::Stall) && script.answers() != Some(true) {
            if script.answers() == Some(false) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(2));
        }
        let status = if let Act::Fail(failure) = act { failure.status() } else { "200 OK" };
        let body = response(&act).encode_to_vec();
        let stream = stream.get_mut();
        write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len())?;
        stream.write_all(&body)?;
        stream.flush()?;
    }
    Ok(())
}

fn read_request<S: Read>(stream: &mut BufReader<S>) -> io::Result<(Headers, Vec<u8>)> {
    let mut headers = Vec::new();
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None if line.trim_end().is_empty() => break,
            None => headers.push((":request".to_owned(), line.trim_end().to_owned())),
        }
    }
    let length =
        headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body)?;
    Ok((headers, body))
}

fn decode(headers: &[(String, String)], body: &[u8]) -> io::Result<ExportTraceServiceRequest> {
    let zipped = headers.iter().any(|(name, value)| name == "content-encoding" && value == "gzip");
    let mut plain = Vec::new();
    if zipped {
        flate2::read::GzDecoder::new(body).read_to_end(&mut plain)?;
    } else {
        plain.extend_from_slice(body);
    }
    ExportTraceServiceRequest::decode(&plain[..]).map_err(io::Error::other)
}
