//! `GET /metrics` over HTTP/1.1, on a thread of its own.
//!
//! Clients are untrusted: their number, what they send and how long they take are bounded. Every path but
//! `/metrics` is answered by 404.

use std::{
    convert::Infallible,
    io,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE as TYPE};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::runtime::Builder;

use super::CONTENT_TYPE;
use crate::privileges;

/// Most clients at a time; others are closed at once.
const CLIENTS: usize = 16;
/// Time for a client's request to arrive, and for a whole connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of a request's head.
const HEAD_BYTES: usize = 16 << 10;

/// Answers requests at this socket by what `text` gives, until the process ends.
///
/// # Errors
/// There can be no thread.
pub fn serve(listener: TcpListener, text: impl Fn() -> String + Send + Sync + 'static) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let body = move || {
        if privileges::drop_all().is_ok() {
            // Ends with the process.
            let _ = runtime.block_on(accept(listener, Arc::new(text)));
        }
    };
    thread::Builder::new().name("metrics".to_owned()).spawn(body)?;
    Ok(())
}

async fn accept(listener: TcpListener, text: Arc<dyn Fn() -> String + Send + Sync>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let clients = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, or the client is gone already.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if clients.load(Relaxed) >= CLIENTS {
            continue;
        }
        clients.fetch_add(1, Relaxed);
        let (text, clients) = (Arc::clone(&text), Arc::clone(&clients));
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let answer = answer(&request, &*text);
                async move { Ok::<_, Infallible>(answer) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(HEAD_BYTES);
            let served = server.keep_alive(false).serve_connection(TokioIo::new(stream), answer);
            // A client that breaks off is its own loss.
            let _ = tokio::time::timeout(PATIENCE, served).await;
            clients.fetch_sub(1, Relaxed);
        });
    }
}

fn answer(request: &Request<Incoming>, text: &dyn Fn() -> String) -> Response<Full<Bytes>> {
    let is_right = request.uri().path() == "/metrics";
    let (status, kind, body) = match *request.method() {
        Method::GET if is_right => (StatusCode::OK, CONTENT_TYPE, text()),
        Method::GET => (StatusCode::NOT_FOUND, "text/plain", "metrics are at /metrics\n".to_owned()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", String::new()),
    };
    let response = Response::builder().status(status).header(TYPE, kind);
    response.body(Full::new(Bytes::from(body))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpStream,
    };

    use super::*;

    #[test]
    fn a_client_gets_the_text_and_nothing_else() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has one");
        serve(listener, || "# EOF\n".to_owned()).expect("a thread can be started");
        let get = |head: &str| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            stream.write_all(head.as_bytes()).expect("it reads");
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("it answers");
            text
        };
        let found = get("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(found.starts_with("HTTP/1.1 200 OK\r\n") && found.ends_with("\r\n\r\n# EOF\n"), "{found}");
        assert!(found.contains("application/openmetrics-text; version=1.0.0"), "{found}");
        assert!(get("GET / HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(
            get("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").starts_with("HTTP/1.1 405")
        );
        assert!(get("nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    }
}
