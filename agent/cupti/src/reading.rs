//! Bytes of an untrusted program to messages.

use super::{
    Failed, HEADER_BYTES, Hello, Kind, MOST_BYTES, Message, NAME_BYTES, Name, Step, Window, Work, number,
};

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The message at the start of these bytes, and its length; none if it is not whole yet.
///
/// # Errors
/// No library of ours sent this.
pub fn decode(bytes: &[u8]) -> Result<Option<(Message<'_>, usize)>, Malformed> {
    let Some((&[kind, zero, low, high], rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let length = usize::from(u16::from_le_bytes([low, high]));
    if zero != 0 || length > MOST_BYTES - HEADER_BYTES {
        return Err(Malformed);
    }
    let Some(payload) = rest.get(..length) else { return Ok(None) };
    let message = message(kind, payload).ok_or(Malformed)?;
    Ok(Some((message, HEADER_BYTES + length)))
}

fn message(kind: u8, payload: &[u8]) -> Option<Message<'_>> {
    let mut left = Left(payload);
    let message = match kind {
        number::HELLO => {
            let version = left.u32()?;
            Message::Hello(Hello { version, library: left.text()? })
        }
        number::NAME => {
            let id = left.u64()?;
            Message::Name(Name { id, name: left.text()? })
        }
        number::WORK => Message::Work(left.work()?),
        number::WINDOW => Message::Window(Window {
            begin_ns: left.u64()?,
            end_ns: left.u64()?,
            dropped: left.u64()?,
            unsent: left.u64()?,
            cut: left.u64()?,
            cpu_ns: left.u64()?,
        }),
        number::FAILED => {
            let [step, 0, 0, 0] = left.take::<4>()? else { return None };
            let step = *Step::ALL.get(usize::from(step))?;
            Message::Failed(Failed { step, result: left.u32()? })
        }
        _ => return None,
    };
    left.0.is_empty().then_some(message)
}

/// What is left of a payload.
struct Left<'a>(&'a [u8]);

impl<'a> Left<'a> {
    fn take<const BYTES: usize>(&mut self) -> Option<[u8; BYTES]> {
        let (part, rest) = self.0.split_first_chunk::<BYTES>()?;
        self.0 = rest;
        Some(*part)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let text = core::mem::take(&mut self.0);
        (text.len() <= NAME_BYTES).then_some(text)
    }

    fn work(&mut self) -> Option<Work> {
        let [kind, copy, 0, 0] = self.take::<4>()? else { return None };
        Some(Work {
            kind: *Kind::ALL.get(usize::from(kind))?,
            copy,
            device: self.u32()?,
            context: self.u32()?,
            stream: self.u32()?,
            thread: self.u32()?,
            start_ns: self.u64()?,
            end_ns: self.u64()?,
            called_ns: self.u64()?,
            returned_ns: self.u64()?,
            bytes: self.u64()?,
            name: self.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use proptest::prelude::*;
    use std::vec::Vec;

    use super::*;
    use crate::Encoded;

    fn work(numbers: [u64; 6], words: [u32; 4], (kind, copy): (usize, u8)) -> Work {
        let [start_ns, end_ns, called_ns, returned_ns, bytes, name] = numbers;
        let [device, context, stream, thread] = words;
        let kind = Kind::ALL[kind];
        Work {
            kind,
            copy,
            device,
            context,
            stream,
            thread,
            start_ns,
            end_ns,
            called_ns,
            returned_ns,
            bytes,
            name,
        }
    }

    proptest! {
        #[test]
        fn what_is_sent_arrives(
            numbers: [u64; 6],
            words: [u32; 4],
            kinds in (0_usize..4, any::<u8>()),
            text in proptest::collection::vec(any::<u8>(), 0..NAME_BYTES),
            step in 0_usize..8,
        ) {
            let [begin_ns, end_ns, dropped, unsent, cut, cpu_ns] = numbers;
            let sent = [
                Message::Hello(Hello { version: words[0], library: &text }),
                Message::Name(Name { id: numbers[0], name: &text }),
                Message::Work(work(numbers, words, kinds)),
                Message::Window(Window { begin_ns, end_ns, dropped, unsent, cut, cpu_ns }),
                Message::Failed(Failed { step: Step::ALL[step], result: words[0] }),
            ];
            let bytes: Vec<u8> = sent.iter().flat_map(|one| Encoded::of(one).bytes().to_vec()).collect();
            let (mut at, mut arrived) = (0, Vec::new());
            while let Some((message, length)) = decode(&bytes[at..]).unwrap() {
                arrived.push(message);
                at += length;
            }
            prop_assert_eq!((arrived.as_slice(), at), (sent.as_slice(), bytes.len()));
        }

        #[test]
        fn anything_else_is_refused_or_awaited(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some((_, length))) = decode(&bytes) {
                prop_assert!(length <= bytes.len() && length >= HEADER_BYTES);
            }
        }

        #[test]
        fn a_part_of_a_message_is_awaited(numbers: [u64; 6], cut in 0_usize..71) {
            let whole = Encoded::of(&Message::Work(work(numbers, [1; 4], (0, 0))));
            prop_assert_eq!(decode(&whole.bytes()[..cut]), Ok(None));
        }
    }

    #[test]
    fn a_name_is_cut() {
        let long = [b'x'; 2 * NAME_BYTES];
        let sent = Encoded::of(&Message::Name(Name { id: 1, name: &long }));
        let name = Name { id: 1, name: &long[..NAME_BYTES] };
        assert_eq!(decode(sent.bytes()), Ok(Some((Message::Name(name), MOST_BYTES))));
    }
}
