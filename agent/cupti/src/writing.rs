//! Messages to bytes, without allocation: the library is in somebody else's program.

use super::{HEADER_BYTES, MOST_BYTES, Message, NAME_BYTES, number};

/// The bytes of one message.
#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    bytes: [u8; MOST_BYTES],
    length: usize,
}

impl Encoded {
    /// Encodes a message; a name is cut at [`NAME_BYTES`].
    pub fn of(message: &Message<'_>) -> Self {
        let mut encoded = Self { bytes: [0; MOST_BYTES], length: HEADER_BYTES };
        let kind = match message {
            Message::Hello(hello) => {
                encoded.put(&hello.version.to_le_bytes());
                encoded.put(cut(hello.library));
                number::HELLO
            }
            Message::Name(name) => {
                encoded.put(&name.id.to_le_bytes());
                encoded.put(cut(name.name));
                number::NAME
            }
            Message::Work(work) => {
                encoded.put(&[work.kind as u8, work.copy, 0, 0]);
                for word in [work.device, work.context, work.stream, work.thread] {
                    encoded.put(&word.to_le_bytes());
                }
                let times = [work.start_ns, work.end_ns, work.called_ns, work.returned_ns];
                for word in times.into_iter().chain([work.bytes, work.name]) {
                    encoded.put(&word.to_le_bytes());
                }
                number::WORK
            }
            Message::Window(window) => {
                let losses = [window.dropped, window.unsent, window.cut];
                for word in [window.begin_ns, window.end_ns].into_iter().chain(losses).chain([window.cpu_ns])
                {
                    encoded.put(&word.to_le_bytes());
                }
                number::WINDOW
            }
            Message::Failed(failed) => {
                encoded.put(&[failed.step as u8, 0, 0, 0]);
                encoded.put(&failed.result.to_le_bytes());
                number::FAILED
            }
        };
        let payload = (encoded.length - HEADER_BYTES) as u16;
        let [low, high] = payload.to_le_bytes();
        for (to, from) in encoded.bytes.iter_mut().zip([kind, 0, low, high]) {
            *to = from;
        }
        encoded
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Everything fits, or is cut.
    fn put(&mut self, part: &[u8]) {
        for (to, from) in self.bytes.iter_mut().skip(self.length).zip(part) {
            *to = *from;
            self.length += 1;
        }
    }
}

fn cut(text: &[u8]) -> &[u8] {
    text.get(..NAME_BYTES).unwrap_or(text)
}
