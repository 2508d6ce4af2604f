//! One HTTP request and its answer, within a time limit and a size limit, whatever the server does.
//!
//! The time limit covers the whole exchange: single bytes now and then do not extend it.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::untrusted::Untrusted;

/// Longest wait for the next byte.
const SILENCE: Duration = Duration::from_secs(30);
/// Limit of an answer's head; Jaeger's has 200 bytes.
const MOST_HEAD_BYTES: usize = 64 << 10;
/// Bytes read at once.
const PIECE_BYTES: u64 = 64 << 10;

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
        // A timeout of zero would mean no timeout.
        Ok(left.min(most).max(Duration::from_millis(1)))
    }
}

/// A connection whose reading and writing ends at a deadline, and its reading after so many bytes: below TLS,
/// whose records may be empty without end.
pub(super) struct Timed {
    stream: TcpStream,
    deadline: Deadline,
    left_bytes: u64,
}

impl Timed {
    pub(super) fn new(stream: TcpStream, deadline: Deadline, most_bytes: u64) -> Self {
        Self { stream, deadline, left_bytes: most_bytes }
    }

    /// The kernel returns "would block" for a socket whose timeout has passed.
    fn told(&self, error: io::Error) -> io::Error {
        if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
            return error;
        }
        let silent =
            || io::Error::new(io::ErrorKind::TimedOut, format!("silent for {} s", SILENCE.as_secs()));
        self.deadline.left(SILENCE).err().unwrap_or_else(silent)
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.deadline.left(SILENCE)?))?;
        let read = self.stream.read(buffer).map_err(|error| self.told(error))?;
        let left = self.left_bytes.checked_sub(read as u64);
        self.left_bytes = left.ok_or_else(|| invalid("more bytes than an answer may take"))?;
        Ok(read)
    }
}

impl Write for Timed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.deadline.left(SILENCE)?))?;
        self.stream.write(buffer).map_err(|error| self.told(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// The parsed head of an answer.
struct Head {
    status: u16,
    /// Bytes of the body.
    length: Option<u64>,
}

/// Sends a request and reads the answer, of which so many bytes are taken.
pub(super) fn exchange(
    stream: &mut (impl Read + Write),
    request: &str,
    most_bytes: u64,
) -> io::Result<Answer> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let (mut bytes, mut seen) = (Vec::new(), 0_usize);
    let end = loop {
        let from = seen.saturating_sub(3);
        if let Some(end) = bytes[from..].windows(4).position(|four| four == b"\r\n\r\n") {
            break from + end;
        }
        seen = bytes.len();
        if bytes.len() > MOST_HEAD_BYTES {
            return Err(invalid("an answer that begins with more than 64 KiB of headers"));
        }
        if read(stream, &mut bytes, 4 << 10)? == 0 {
            return Err(invalid("not an answer of HTTP"));
        }
    };
    let Head { status, length } = head(Untrusted::of_bytes(&bytes[..end]).stored())?;
    let mut body = bytes.split_off(end + 4);
    let wanted = length.unwrap_or(u64::MAX);
    let cut = || Answer { status, body: Vec::new(), is_cut: true };
    // The length in the head suffices to refuse a body that is too long.
    if length.is_some_and(|length| length > most_bytes) {
        return Ok(cut());
    }
    while (body.len() as u64) < wanted {
        if body.len() as u64 > most_bytes {
            return Ok(cut());
        }
        if read(stream, &mut body, PIECE_BYTES)? == 0 {
            break;
        }
    }
    if length.is_some_and(|length| (body.len() as u64) < length) {
        return Err(invalid("the answer was cut off"));
    }
    body.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
    Ok(Answer { status, body, is_cut: false })
}

fn read(stream: &mut impl Read, bytes: &mut Vec<u8>, most: u64) -> io::Result<usize> {
    let at = bytes.len();
    bytes.resize(at + most as usize, 0);
    let read = loop {
        match stream.read(&mut bytes[at..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A server that closes without a word of TLS may still have said all.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && at > 0 => break 0,
            read => break read?,
        }
    };
    bytes.truncate(at + read);
    Ok(read)
}

fn head(text: &str) -> io::Result<Head> {
    let mut lines = text.lines();
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1."));
    let status = status.and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
    let status: u16 = status.ok_or_else(|| invalid("not an answer of HTTP"))?;
    if (300..400).contains(&status) {
        return Err(invalid(&format!("status {status}: redirects are not followed")));
    }
    let mut length = None;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            let claimed = value.parse().map_err(|_| invalid("a length that is no number"))?;
            if length.replace(claimed).is_some_and(|known: u64| known != claimed) {
                return Err(invalid("two lengths of one answer"));
            }
        }
        let is_coded =
            name.eq_ignore_ascii_case("content-encoding") || name.eq_ignore_ascii_case("transfer-encoding");
        if is_coded && !value.eq_ignore_ascii_case("identity") {
            return Err(invalid("the answer is compressed or chunked, which was not requested"));
        }
    }
    Ok(Head { status, length })
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// A server that sends these bytes and ignores what it receives.
    struct Said<'a>(&'a [u8]);

    impl Read for Said<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            // In small pieces, as a network may.
            let most = buffer.len().min(7);
            self.0.read(&mut buffer[..most])
        }
    }

    impl Write for Said<'_> {
        fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
            Ok(buffer.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[rstest]
    #[case::to_its_end("HTTP/1.0 404 Not Found\r\nX: y\r\n\r\nno", 404, Some("no"))]
    #[case::as_long_as_it_says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno and more", 200, Some("no"))]
    #[case::too_long("HTTP/1.0 200 OK\r\n\r\n0123456789abcdef", 200, None)]
    #[case::longer_than_is_read("HTTP/1.0 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n", 200, None)]
    fn an_answer_is_read_as_far_as_it_is_taken(
        #[case] said: &str,
        #[case] status: u16,
        #[case] body: Option<&str>,
    ) {
        let answer = exchange(&mut Said(said.as_bytes()), "", 12).unwrap();
        assert_eq!((answer.status, answer.is_cut), (status, body.is_none()));
        assert_eq!(answer.body, body.unwrap_or_default().as_bytes());
    }

    #[rstest]
    #[case::nothing("")]
    #[case::another_protocol("SSH-2.0\r\n\r\n")]
    #[case::no_status("HTTP/1.1 many\r\n\r\n")]
    #[case::too_short("HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nno")]
    #[case::no_length("HTTP/1.0 200 OK\r\ncontent-length: -1\r\n\r\nno")]
    #[case::two_lengths("HTTP/1.0 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nno")]
    #[case::elsewhere("HTTP/1.0 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n")]
    #[case::packed("HTTP/1.0 200 OK\r\nContent-Encoding: gzip\r\n\r\nno")]
    #[case::in_pieces("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n")]
    fn what_is_no_answer_is_refused(#[case] said: &str) {
        exchange(&mut Said(said.as_bytes()), "", 12).unwrap_err();
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let said = format!("HTTP/1.0 200 OK\r\n{}", "X: y\r\n".repeat(1 << 20));
        exchange(&mut Said(said.as_bytes()), "", 12).unwrap_err();
    }
}
