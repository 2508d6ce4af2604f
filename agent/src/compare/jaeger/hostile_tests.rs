//! Servers that mean no good: each is left with an error, in bounded time and memory.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rstest::rstest;
use tokio::io::AsyncReadExt as _;

use super::{
    JaegerError, answer,
    client::{Client, MOST_BYTES},
    exchange::Limited,
};

/// A client's limit for a whole answer, and when it must have given up on any machine.
const PATIENCE: Duration = Duration::from_millis(400);
const LATE: Duration = Duration::from_secs(20);

/// A server that hears one request and then does this.
fn server(act: impl Fn(&mut TcpStream) + Send + 'static) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        drop(stream.read(&mut request));
        act(&mut stream);
    });
    let mut client = Client::new(&url).unwrap();
    client.patience = PATIENCE;
    client
}

/// Says it until nobody listens any more.
fn for_ever(stream: &mut TcpStream, piece: &[u8], between: Duration) {
    while stream.write_all(piece).is_ok() {
        thread::sleep(between);
    }
}

#[rstest]
#[case::silent("")]
#[case::with_a_head_that_never_ends("HTTP/1.0 200 OK\r\nX-Pad: ")]
#[case::with_a_body_that_never_ends("HTTP/1.0 200 OK\r\n\r\n")]
#[case::with_a_length("HTTP/1.0 200 OK\r\nContent-Length: 1000000\r\n\r\n")]
fn a_byte_now_and_then_does_not_stretch_the_time(#[case] head: &'static str) {
    let client = server(move |stream| {
        drop(stream.write_all(head.as_bytes()));
        if head.is_empty() {
            thread::sleep(LATE);
        }
        for_ever(stream, b"a", Duration::from_millis(20));
    });
    let begun = Instant::now();
    let error = client.get("/").unwrap_err();
    assert!(matches!(error, JaegerError::Ask { .. }), "{error}");
    assert!(error.to_string().contains("no whole answer within"), "{error}");
    assert!(begun.elapsed() < LATE);
}

/// What is too long is asked for in parts, as a full answer is.
#[rstest]
#[case::that_says_so("HTTP/1.0 200 OK\r\nContent-Length: 134217728\r\n\r\n")]
#[case::that_does_not("HTTP/1.0 200 OK\r\n\r\n")]
fn of_an_answer_of_128_mb_nothing_is_kept(#[case] head: &'static str) {
    let mut client = server(move |stream| {
        drop(stream.write_all(head.as_bytes()));
        for_ever(stream, &vec![b' '; 1 << 20], Duration::ZERO);
    });
    client.patience = LATE;
    let answer = client.get("/").unwrap();
    assert_eq!((answer.is_cut, answer.body.capacity()), (true, 0));
}

/// As records of TLS are that have nothing in them.
#[test]
fn what_is_read_and_thrown_away_is_bounded_too() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Far more than is allowed, and not for ever.
    let mut stream = Limited::new(tokio::io::repeat(0).take(16 << 20), 1 << 20);
    let (mut read, mut buffer) = (0, [0; 4096]);
    let error = runtime.block_on(async {
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) => panic!("all was read"),
                Ok(bytes) => read += bytes,
                Err(error) => break error,
            }
        }
    });
    assert_eq!(read, 1 << 20);
    assert!(error.to_string().contains("more bytes than an answer may take"), "{error}");
}

/// Interim answers say that the real one will come, and may be as many as the server likes.
#[test]
fn answers_before_the_answer_are_bounded() {
    let mut client =
        server(|stream| for_ever(stream, &b"HTTP/1.1 102 Wait\r\n\r\n".repeat(1 << 10), Duration::ZERO));
    client.patience = LATE;
    let error = client.get("/").unwrap_err();
    assert!(error.to_string().contains("more bytes than an answer may take"), "{error}");
}

/// A server of TLS for `localhost` that says this, and a client that knows its certificate if it shall.
fn secure_server(is_known: bool, hears: bool, says: &'static str) -> Client {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&ring));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = Arc::new(builder.with_single_cert(vec![certificate.clone()], key).unwrap());
    let listener = TcpListener::bind("localhost:0").unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        if !hears {
            return for_ever(&mut stream, b"\x16\x03\x03", Duration::from_millis(20));
        }
        let mut stream = rustls::StreamOwned::new(rustls::ServerConnection::new(config).unwrap(), stream);
        let mut request = [0; 1024];
        drop(stream.read(&mut request));
        drop(stream.write_all(says.as_bytes()));
        stream.conn.send_close_notify();
        drop(stream.flush());
    });
    let mut client = Client::new(&url).unwrap();
    if is_known {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).unwrap();
        let builder = rustls::ClientConfig::builder_with_provider(ring);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        client.tls = Some(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()));
    }
    client.patience = LATE;
    client
}

#[rstest]
#[case::with_a_length("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes")]
#[case::to_its_end("HTTP/1.0 200 OK\r\n\r\nyes")]
fn an_answer_comes_over_tls(#[case] says: &'static str) {
    let answer = secure_server(true, true, says).get("/").unwrap();
    assert_eq!((answer.status, &*answer.body), (200, &b"yes"[..]));
}

#[test]
fn a_server_that_nobody_vouches_for_is_not_asked() {
    let error = secure_server(false, true, "HTTP/1.0 200 OK\r\n\r\nyes").get("/").unwrap_err().to_string();
    assert!(error.contains("invalid peer certificate"), "{error}");
}

#[test]
fn a_greeting_of_tls_without_end_is_given_up() {
    let mut client = secure_server(true, false, "");
    client.patience = PATIENCE;
    let error = client.get("/").unwrap_err().to_string();
    assert!(error.contains("no whole answer within"), "{error}");
}

#[rstest]
#[case::lists(format!(r#"{{"result":{{"resourceSpans":{}"#, "[".repeat(1 << 20)))]
#[case::what_is_not_read(format!(r#"{{"other":{}"#, "[".repeat(1 << 20)))]
#[case::attributes(spans(r#""attributes":["#, r#"{"key":""}"#))]
#[case::scopes(format!(r#"{{"result":{{"resourceSpans":[{{"scopeSpans":[{}{{}}]}}]}}}}"#, "{},".repeat(MOST_BYTES as usize / 3 - 100)))]
#[case::services(format!(r#"{{"result":{{"resourceSpans":[{}{{}}]}}}}"#, "{},".repeat(MOST_BYTES as usize / 3 - 100)))]
fn an_answer_that_unpacks_to_more_than_it_is_is_refused(#[case] body: String) {
    assert!(body.len() as u64 <= MOST_BYTES);
    let error = answer::read(body.as_bytes(), "service").unwrap_err().to_string();
    let known = ["recursion limit", "more memory than any answer", "EOF while parsing", "invalid type"];
    assert!(known.iter().any(|known| error.contains(known)), "{error}");
}

/// One span with as many elements of a list as an answer has room for.
fn spans(list: &str, element: &str) -> String {
    let head = format!(
        r#"{{"result":{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"traceId":"a","spanId":"b",{list}"#
    );
    let count = (MOST_BYTES as usize - head.len() - 100) / (element.len() + 1);
    format!("{head}{}{element}]}}]}}]}}]}}}}", format!("{element},").repeat(count))
}
