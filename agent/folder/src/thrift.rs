//! Parses Thrift's compact protocol without reserving memory for claimed sizes.
//!
//! Yields numbers and list lengths with their field numbers. The metadata of a Parquet file has this form,
//! and the Parquet library reserves what a list claims to hold.

/// Structures within each other; a footer of Parquet has six.
const DEEPEST: usize = 16;

/// Callbacks for the parts of a structure. Paths are the field numbers from the outermost structure on; lists
/// add none.
pub(super) trait Listener {
    /// Why parsing stops.
    type Error: From<&'static str>;
    /// A list of this length begins.
    fn list(&mut self, path: &[i16], length: u64) -> Result<(), Self::Error>;
    /// An integer, or a truth value as 0 or 1.
    fn number(&mut self, path: &[i16], value: i64);
}

/// Walks through one structure; how many bytes it has.
pub(super) fn walk<L: Listener>(bytes: &[u8], listener: &mut L) -> Result<usize, L::Error> {
    let mut walk = Walk { bytes, at: 0, path: Vec::with_capacity(DEEPEST), listener };
    walk.structure()?;
    Ok(walk.at)
}

/// Message for bytes that end too early.
pub(super) const SHORT: &str = "it ends inside a structure";

struct Walk<'a, L> {
    bytes: &'a [u8],
    at: usize,
    path: Vec<i16>,
    listener: &'a mut L,
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;

impl<L: Listener> Walk<'_, L> {
    fn structure(&mut self) -> Result<(), L::Error> {
        if self.path.len() >= DEEPEST {
            return Err("too many structures within each other".into());
        }
        self.path.push(0);
        let mut field = 0_i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                break;
            }
            field = match head >> 4 {
                0 => self.zigzag()? as i16,
                delta => field.wrapping_add(i16::from(delta)),
            };
            if let Some(last) = self.path.last_mut() {
                *last = field;
            }
            match head & 15 {
                TRUE => self.listener.number(&self.path, 1),
                FALSE => self.listener.number(&self.path, 0),
                kind => self.value(kind)?,
            }
        }
        self.path.pop();
        Ok(())
    }

    /// Reads a value. A truth value takes a byte in a list and none in a structure.
    fn value(&mut self, kind: u8) -> Result<(), L::Error> {
        match kind {
            TRUE | FALSE | 3 => {
                let value = self.byte()?;
                self.listener.number(&self.path, i64::from(value));
                Ok(())
            }
            4..=6 => {
                let value = self.zigzag()?;
                self.listener.number(&self.path, value);
                Ok(())
            }
            7 => self.skip(8),
            8 => {
                let length = self.varint()?;
                self.skip(length)
            }
            9 | 10 => self.list(),
            12 => self.structure(),
            13 => self.skip(16),
            _ => Err("a value of an unknown kind".into()),
        }
    }

    fn list(&mut self) -> Result<(), L::Error> {
        let head = self.byte()?;
        let length = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        // Each takes a byte at least.
        if length > (self.bytes.len() - self.at) as u64 {
            return Err(SHORT.into());
        }
        self.listener.list(&self.path, length)?;
        let kind = head & 15;
        if length > 0 && matches!(kind, 9 | 10) {
            return Err("a list of lists".into());
        }
        (0..length).try_for_each(|_| self.value(kind))
    }

    fn byte(&mut self) -> Result<u8, L::Error> {
        let byte = self.bytes.get(self.at).copied().ok_or(SHORT)?;
        self.at += 1;
        Ok(byte)
    }

    fn skip(&mut self, count: u64) -> Result<(), L::Error> {
        let end = usize::try_from(count).ok().and_then(|count| self.at.checked_add(count));
        self.at = end.filter(|end| *end <= self.bytes.len()).ok_or(SHORT)?;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, L::Error> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number of too many bytes".into())
    }

    fn zigzag(&mut self) -> Result<i64, L::Error> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }
}
