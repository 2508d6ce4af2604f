//! HTTP/2 by the lengths of a connection's receives and sends alone: frames that acknowledge, count or keep
//! alive are no requests, and neither is the start of a connection.
//!
//! By RFC 9113 a client begins with 24 bytes and its settings (33 bytes at least), and each side acknowledges
//! the other's settings with a frame of exactly 9, and a ping of 17 with as many. Where none of these travels
//! alone the connection is not recognised, and each of its frames may look like a request.

/// A client's preface and its settings, which may be empty.
const PREFACE_BYTES: i32 = 24 + 9;
/// A settings frame that acknowledges.
const ACKNOWLEDGEMENT: i32 = 9;
/// A ping, or the answer to one.
const PING: i32 = 17;
/// Lengths of sends with a ping, a bit each: alone, behind an acknowledgement, a window, both.
const PINGS: u64 = 1 << 17 | 1 << 26 | 1 << 30 | 1 << 39;
/// The acknowledgement is among the first receives, or goes with the first sends.
const SOON: u32 = 6;
const AT_ONCE: u32 = 3;
/// A server's settings, with a window, are shorter than this.
const SETTINGS_BYTES: i32 = 80;
/// Lengths of acknowledgements (9), windows (13), pings (17) and any two of them, a bit each.
const FRAMES: u32 = 1 << 9 | 1 << 13 | 1 << 17 | 1 << 18 | 1 << 22 | 1 << 26 | 1 << 30;

/// Lengths of any three of them. A short request of gRPC may be as long.
const THREE_FRAMES: u64 = 1 << 27 | 1 << 31 | 1 << 35 | 1 << 39 | 1 << 43 | 1 << 47 | 1 << 51;

const RECEIVES: u32 = 0xff;
/// The connection may have begun as HTTP/2 does.
const MAY_BE: u32 = 1 << 8;
/// The connection is HTTP/2.
const IS: u32 = 1 << 9;
/// The open request may be settings or frames alone.
const IS_DOUBTFUL: u32 = 1 << 10;
/// More than settings was sent.
const HAS_ANSWERED: u32 = 1 << 11;
/// A ping may have been sent, with nothing received since.
const IS_ASKED: u32 = 1 << 12;
/// Count of sends, from this bit on.
const SENDS_SHIFT: u32 = 16;
const SENDS: u32 = 0xff;

/// Whether so many bytes are likely frames other than those of requests and answers.
#[must_use]
pub const fn is_frame(bytes: i32) -> bool {
    bytes >= 0 && bytes < 32 && FRAMES >> bytes & 1 == 1
}

/// Kind of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A request, or part of one.
    Message,
    /// A request; what looked like one before it was none.
    Instead,
    /// A frame that needs no answer.
    Frame,
    /// The same; earlier sends were no answer.
    Known,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Framing(u32);

impl Framing {
    /// Takes `bytes` received bytes, while a request is open or not.
    #[expect(clippy::inline_always, reason = "verifiers have no calls with pointers to the stack")]
    #[inline(always)]
    pub const fn received(&mut self, bytes: i32, is_open: bool) -> Received {
        let receives = self.0 & RECEIVES;
        if receives < RECEIVES {
            self.0 += 1;
        }
        if receives == 0 {
            if bytes >= PREFACE_BYTES {
                self.0 |= MAY_BE;
            }
            return Received::Message;
        }
        let is_asked = self.0 & IS_ASKED != 0;
        self.0 &= !IS_ASKED;
        let tells = bytes == ACKNOWLEDGEMENT && receives < SOON || bytes == PING && is_asked;
        if self.0 & (MAY_BE | IS) == MAY_BE && tells {
            self.0 |= IS;
            if self.0 & HAS_ANSWERED != 0 {
                return Received::Frame;
            }
            if receives == 1 {
                self.0 |= IS_DOUBTFUL;
            }
            return Received::Known;
        }
        if self.0 & IS == 0 {
            return Received::Message;
        }
        if is_frame(bytes) {
            return Received::Frame;
        }
        let was_doubtful = self.0 & IS_DOUBTFUL != 0;
        self.0 &= !IS_DOUBTFUL;
        if was_doubtful {
            return Received::Instead;
        }
        if !is_open && bytes < 64 && THREE_FRAMES >> (bytes as u32 & 63) & 1 == 1 {
            self.0 |= IS_DOUBTFUL;
        }
        Received::Message
    }

    /// Takes sent bytes; returns whether they may be an answer.
    #[expect(clippy::inline_always, reason = "as above")]
    #[inline(always)]
    pub const fn sent(&mut self, bytes: i32) -> bool {
        let sends = self.0 >> SENDS_SHIFT & SENDS;
        if sends < SENDS {
            self.0 += 1 << SENDS_SHIFT;
        }
        if bytes > SETTINGS_BYTES {
            self.0 |= HAS_ANSWERED;
        } else if bytes > 0 && PINGS >> (bytes as u32 & 63) & 1 == 1 && bytes < 64 {
            self.0 |= IS_ASKED;
        }
        let is_begun = self.0 & (MAY_BE | IS | HAS_ANSWERED) == MAY_BE && self.0 & RECEIVES == 1;
        if is_begun && bytes == ACKNOWLEDGEMENT && sends < AT_ONCE {
            self.0 |= IS | IS_DOUBTFUL;
            return false;
        }
        let is_answer = self.0 & IS == 0 || !is_frame(bytes);
        if is_answer {
            self.0 &= !IS_DOUBTFUL;
        }
        is_answer
    }

    /// Whether the open request may be none: it has no answer.
    #[must_use]
    pub const fn is_doubtful(self) -> bool {
        self.0 & IS_DOUBTFUL != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `r` and `s` are receives and sends, in bytes. A letter for each: request, instead, frame, known,
    /// answer, none.
    fn told(script: &str) -> String {
        let (mut framing, mut is_open) = (Framing::default(), false);
        let one = |word: &str| {
            let bytes = word[1..].parse().expect("a number");
            if word.starts_with('s') {
                let is_answer = framing.sent(bytes);
                is_open &= !is_answer;
                return if is_answer { 'a' } else { 'n' };
            }
            let received = framing.received(bytes, is_open);
            is_open |= received != Received::Frame;
            match received {
                Received::Message => 'r',
                Received::Instead => 'i',
                Received::Frame => 'f',
                Received::Known => 'k',
            }
        };
        script.split_whitespace().map(one).collect()
    }

    #[test]
    fn a_call_of_grpc_is_one_whatever_lies_beside_it() {
        // Recorded from grpcio 1.85: the server's settings, the client's, both acknowledgements, then a call.
        assert_eq!(told("s46 r82 s9 r9 r349 s17 r17 s2153 r17 s17"), "arnfinfafn");
        assert_eq!(told("s46 r91 s9 r349 s17 r17 s2153 r17 s17 r157 s17 r17 s2064"), "arninfafnrnfa");
        assert_eq!(told("s46 r440 s39 r17 s2140 r17 s17 r157"), "arakafnr");
        assert_eq!(told("s46 r91 r349 s39 r17 s2140 r17"), "arrakaf");
        // Three frames at once, then a call; a call that is as short.
        assert_eq!(told("r82 s9 r349 s2153 r43 r157 s2064 r47 s2064 r47"), "rniariarar");
        assert_eq!(told("r82 s55 r9 r349 s2153 r157 s17 r30 s2064"), "rakiarnfa");
    }

    #[test]
    fn a_request_may_come_with_the_preface() {
        assert_eq!(told("r200 s36 s9 r9 s500 r60 s500"), "ranfara");
        assert_eq!(told("r200 s45 r9 s500 r60 s500"), "rakara");
        // Answered before the acknowledgement comes.
        assert_eq!(told("r200 s36 s500 r9 r60 s500"), "raafra");
    }

    #[test]
    fn other_protocols_have_messages_of_any_length() {
        assert_eq!(told("r9 s5 r9 s5 r17 s17 r30 s9"), "rararara");
        assert_eq!(told("r500 s100 r500 s100 r500 s100 r27 s100 r30 s9"), "rarararara");
        // The head of an answer is as long as three frames.
        assert_eq!(told("r70 s39 s10 r70 s39 s10"), "raaraa");
        // Nine bytes that come late acknowledge nothing.
        assert_eq!(told("r100 r100 r100 r100 r100 r100 r9 s5 r9"), "rrrrrrrar");
    }
}
