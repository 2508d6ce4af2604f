//! Connections to a collector, with a bound on the bytes read per request.
//!
//! HTTP lets a server send interim answers, and HTTP/2 frames that mean nothing, without end: the client
//! would read them as fast as they come. Here reading fails beyond the bound, which ends the connection.

use std::{
    error::Error,
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use http::Uri;
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tonic::codegen::Service;

/// Most bytes read per request, TLS included: an answer has some hundred bytes, or the collector's words for
/// each of 512 spans.
const MOST_BYTES: u64 = 1 << 20;

/// Bytes that the collector sent since the last request began, on all connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowance(Arc<AtomicU64>);

impl Allowance {
    /// Resets the count when a request begins.
    pub(super) fn renew(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn spend(&self, bytes: usize) -> io::Result<()> {
        let bytes = bytes as u64;
        if self.0.fetch_add(bytes, Ordering::Relaxed) + bytes <= MOST_BYTES {
            return Ok(());
        }
        let kib = MOST_BYTES >> 10;
        Err(io::Error::other(format!("the collector sent more than {kib} KiB for one request")))
    }
}

/// Connects over TCP, for gRPC and HTTP alike.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    inner: HttpConnector,
    allowance: Allowance,
}

impl Connector {
    pub(super) fn new(allowance: Allowance) -> Self {
        let mut inner = HttpConnector::new();
        inner.enforce_http(false);
        // A batch is written in pieces and answered after the last one: no piece may wait for an
        // acknowledgement.
        inner.set_nodelay(true);
        Self { inner, allowance }
    }
}

type BoxError = Box<dyn Error + Send + Sync>;

impl Service<Uri> for Connector {
    type Response = TokioIo<Counted>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let (connecting, allowance) = (self.inner.call(to), self.allowance.clone());
        Box::pin(async move {
            let stream = connecting.await?.into_inner();
            Ok(TokioIo::new(Counted { stream, allowance }))
        })
    }
}

/// A connection whose bytes are counted.
#[derive(Debug)]
pub(super) struct Counted {
    stream: TcpStream,
    allowance: Allowance,
}

impl Connection for Counted {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.allowance.spend(buffer.filled().len() - before))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
