//! One HTTP request and its answer, within a time limit and a size limit, whatever the server does: hyper
//! speaks HTTP, and here are its limits.
//!
//! The time limit covers the whole exchange: single bytes now and then do not extend it. Redirects and
//! compressed answers are refused.

use std::{
    error::Error,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use http::{Request, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    body::{Body as _, Bytes, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::JoinSet,
    time::timeout,
};

/// Longest wait for the head of the answer, and for each next part of its body.
const SILENCE: Duration = Duration::from_secs(30);
/// Limit of an answer's head, which is also hyper's buffer; Jaeger's has 200 bytes.
const MOST_HEAD_BYTES: usize = 64 << 10;

/// Status and body.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// The body; empty if there is too much of it.
    pub(super) body: Vec<u8>,
    /// Whether the body went on beyond the limit.
    pub(super) is_cut: bool,
}

/// When to give up an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    ends: Instant,
    pub(super) limit: Duration,
}

impl Deadline {
    pub(super) fn after(limit: Duration) -> Self {
        Self { ends: Instant::now() + limit, limit }
    }

    /// Time left until then, at most `most`.
    pub(super) fn left(&self, most: Duration) -> io::Result<Duration> {
        let left = self.ends.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let what = format!("no whole answer within {} s", self.limit.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        }
        Ok(left.min(most))
    }

    /// Awaits a future until the deadline, and no longer than [`SILENCE`].
    pub(super) async fn hold<T>(&self, to: impl Future<Output = T>) -> io::Result<T> {
        let silent =
            || io::Error::new(io::ErrorKind::TimedOut, format!("silent for {} s", SILENCE.as_secs()));
        let done = timeout(self.left(SILENCE)?, to).await;
        done.map_err(|_| self.left(SILENCE).err().unwrap_or_else(silent))
    }
}

/// A connection that fails after so many bytes were read. It lies below TLS, whose records may be empty.
pub(super) struct Limited<S> {
    stream: S,
    left_bytes: u64,
}

impl<S> Limited<S> {
    pub(super) fn new(stream: S, most_bytes: u64) -> Self {
        Self { stream, left_bytes: most_bytes }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let left = self.left_bytes.checked_sub((buffer.filled().len() - before) as u64);
        self.left_bytes = left.ok_or_else(|| invalid("more bytes than an answer may take"))?;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
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
}

/// Sends a request and reads the answer, of whose body so many bytes are taken.
pub(super) async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Empty<Bytes>>,
    deadline: &Deadline,
    most_bytes: u64,
) -> io::Result<Answer> {
    let mut speaker = http1::Builder::new();
    speaker.max_header_size(MOST_HEAD_BYTES).max_buf_size(MOST_HEAD_BYTES);
    let (mut sender, connection) =
        speaker.handshake(TokioIo::new(stream)).await.map_err(|error| told(&error))?;
    // Dropping the set ends the task.
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let answer = deadline.hold(sender.send_request(request)).await?.map_err(|error| told(&error))?;
    let (head, body) = answer.into_parts();
    if head.status.is_redirection() {
        return Err(invalid(&format!("status {}: redirects are not followed", head.status.as_u16())));
    }
    let is_one_of = |name, known: &[&str]| {
        let mut values = head.headers.get_all(name).iter();
        values.all(|value| known.iter().any(|known| value.as_bytes().eq_ignore_ascii_case(known.as_bytes())))
    };
    if !is_one_of(header::CONTENT_ENCODING, &["identity"])
        || !is_one_of(header::TRANSFER_ENCODING, &["identity", "chunked"])
    {
        return Err(invalid("the answer is compressed, which was not requested"));
    }
    let body = read(body, deadline, most_bytes).await?;
    let is_cut = body.is_none();
    Ok(Answer { status: head.status.as_u16(), body: body.unwrap_or_default(), is_cut })
}

/// Reads the body. None if it is too long, or if the head says that it will be.
async fn read(mut body: Incoming, deadline: &Deadline, most_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    if body.size_hint().lower() > most_bytes {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    while let Some(frame) = deadline.hold(body.frame()).await? {
        // The other kind of frame has headers that follow the body; nothing is read of them.
        let Ok(data) = frame.map_err(|error| told(&error))?.into_data() else { continue };
        if (bytes.len() + data.len()) as u64 > most_bytes {
            return Ok(None);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Some(bytes))
}

/// The innermost cause: hyper's own words say only what it was doing.
fn told(error: &hyper::Error) -> io::Error {
    let mut cause: &dyn Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let kind = cause.downcast_ref::<io::Error>().map_or(io::ErrorKind::InvalidData, io::Error::kind);
    io::Error::new(kind, cause.to_string())
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Asks a server that hears a request, answers it with this text in small pieces, as a network may, and
    /// hangs up.
    fn hear(said: &str) -> io::Result<Answer> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let said = said.to_owned();
        runtime.block_on(async {
            let (near, mut far) = tokio::io::duplex(7);
            tokio::spawn(async move {
                let mut heard = Vec::new();
                while !heard.ends_with(b"\r\n\r\n") {
                    heard.push(far.read_u8().await?);
                }
                far.write_all(said.as_bytes()).await
            });
            let request = Request::get("/").body(Empty::new()).unwrap();
            exchange(near, request, &Deadline::after(Duration::from_mins(1)), 12).await
        })
    }

    #[rstest]
    #[case::to_its_end("HTTP/1.0 404 Not Found\r\nX: y\r\n\r\nno", 404, Some("no"))]
    #[case::as_long_as_it_says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno and more", 200, Some("no"))]
    #[case::in_pieces(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
        200,
        Some("no")
    )]
    #[case::as_it_is(
        "HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 0\r\n\r\n",
        200,
        Some("")
    )]
    #[case::after_a_word_between(
        "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.0 200 OK\r\n\r\nno",
        200,
        Some("no")
    )]
    #[case::as_much_as_is_taken("HTTP/1.0 200 OK\r\n\r\n0123456789ab", 200, Some("0123456789ab"))]
    #[case::too_long("HTTP/1.0 200 OK\r\n\r\n0123456789abc", 200, None)]
    #[case::too_long_in_pieces(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n0123456789abc\r\n0\r\n\r\n",
        200,
        None
    )]
    #[case::longer_than_is_read("HTTP/1.0 200 OK\r\nContent-Length: 18446744073709551613\r\n\r\n", 200, None)]
    fn an_answer_is_read_as_far_as_it_is_taken(
        #[case] said: &str,
        #[case] status: u16,
        #[case] body: Option<&str>,
    ) {
        let answer = hear(said).unwrap();
        assert_eq!((answer.status, answer.is_cut), (status, body.is_none()));
        assert_eq!(answer.body, body.unwrap_or_default().as_bytes());
    }

    #[rstest]
    #[case::nothing("", "connection closed before message completed")]
    #[case::another_protocol("SSH-2.0\r\n\r\n", "invalid HTTP version parsed")]
    #[case::no_status("HTTP/1.1 many\r\n\r\n", "invalid HTTP status-code parsed")]
    #[case::too_short(
        "HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nno",
        "end of file before message length reached"
    )]
    #[case::no_length("HTTP/1.0 200 OK\r\ncontent-length: -1\r\n\r\nno", "invalid content-length parsed")]
    #[case::a_length_beyond_numbers(
        "HTTP/1.0 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\nno",
        "invalid"
    )]
    #[case::two_lengths(
        "HTTP/1.0 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nno",
        "invalid content-length parsed"
    )]
    #[case::pieces_without_end(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n",
        "unexpected"
    )]
    #[case::no_piece(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nno\r\n",
        "Invalid chunk size"
    )]
    #[case::elsewhere(
        "HTTP/1.0 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n",
        "redirects are not followed"
    )]
    #[case::packed("HTTP/1.0 200 OK\r\nContent-Encoding: gzip\r\n\r\nno", "compressed")]
    #[case::packed_on_the_way(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "compressed"
    )]
    fn what_is_no_answer_is_refused(#[case] said: &str, #[case] why: &str) {
        let error = hear(said).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }

    #[rstest]
    #[case::of_many_lines("X: y\r\n".repeat(1 << 20))]
    #[case::of_one_line(format!("X: {}", "y".repeat(1 << 20)))]
    fn a_head_without_end_is_refused(#[case] head: String) {
        let error = hear(&format!("HTTP/1.0 200 OK\r\n{head}")).unwrap_err().to_string();
        assert_eq!(error, "message head is too large");
    }
}
