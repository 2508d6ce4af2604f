//! Finds the offset of a kernel structure's member in BTF, by dotted path.
//!
//! aya reads BTF but does not give offsets of members, so this is a separate parser: one scan that records
//! where each type begins, then a search by name (about 5 ms for the 5 MB of a kernel). The bytes may come
//! from a supplied file: every access is checked, and a damaged file is an error, never a panic. Format: the
//! kernel's Documentation/bpf/btf.rst.

use std::path::Path;

use crate::untrusted::Shown as _;

/// The running kernel's BTF file.
pub const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";
/// The folder of that file, which has no folders below it.
pub const KERNEL_BTF_FOLDER: &str = "/sys/kernel/btf";

const MAGIC: u16 = 0xeb9f;
const KIND_PTR: u8 = 2;
const KIND_STRUCT: u8 = 4;
const KIND_UNION: u8 = 5;
const KIND_ENUM: u8 = 6;
const KIND_TYPEDEF: u8 = 8;
const KIND_FUNC: u8 = 12;
const KIND_FUNC_PROTO: u8 = 13;
/// A type that only renames or qualifies another: typedef, volatile, const, restrict, type tag.
const TRANSPARENT: [u8; 5] = [8, 9, 10, 11, 18];
/// Deepest nesting: more means a loop in a damaged file.
const DEPTH: usize = 32;
/// Most members that are searched for one name: anonymous structures that contain themselves would multiply
/// at each level. The largest structure of a kernel, task_struct, has about 300.
const MEMBERS: usize = 100_000;

/// Why BTF could not be used.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// The file could not be read.
    #[error("reading BTF: `{path}`: {source}")]
    Read {
        /// Path of the file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The bytes are no BTF, or end in the middle.
    #[error("BTF is damaged: {0}")]
    Damaged(&'static str),
    /// This kernel has none of the paths.
    #[error("this kernel has no member: {0}")]
    NoMember(String),
}

/// Position of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Bytes from the start of the outermost structure; for a bit field, of the byte that holds it.
    pub offset: u32,
    /// Mask of a bit field within its byte; 0 for whole members.
    pub mask: u32,
}

/// A parsed BTF blob.
pub struct Btf {
    data: Vec<u8>,
    strings: std::ops::Range<usize>,
    /// Position of each type's header by type number; number 0 is void and has none.
    types: Vec<usize>,
}

struct Type {
    kind: u8,
    flag: bool,
    members: usize,
    /// Size of a structure, or the type that this one refers to.
    size_or_id: u32,
    body: usize,
}

impl Btf {
    /// Reads and parses a file.
    pub fn from_file(path: &Path) -> Result<Self, BtfError> {
        let data = std::fs::read(path)
            .map_err(|source| BtfError::Read { path: path.shown().to_string(), source })?;
        Self::parse(data)
    }

    /// Parses a blob.
    pub fn parse(data: Vec<u8>) -> Result<Self, BtfError> {
        let damaged = BtfError::Damaged;
        let mut btf = Btf { data, strings: 0..0, types: vec![0] };
        if btf.u32(0).map(|word| word as u16) != Some(MAGIC) {
            return Err(damaged("no magic number (or of the other byte order)"));
        }
        let field = |at| btf.u32(at).map(|value| value as usize).ok_or(damaged("the header ends early"));
        let (header, types, types_bytes) = (field(4)?, field(8)?, field(12)?);
        let (strings, strings_bytes) = (field(16)?, field(20)?);
        let types = header.saturating_add(types);
        let types_end = types.saturating_add(types_bytes);
        let strings = header.saturating_add(strings);
        let strings_end = strings.saturating_add(strings_bytes);
        if types_end > btf.data.len() || strings_end > btf.data.len() {
            return Err(damaged("a section lies outside the file"));
        }
        btf.strings = strings..strings_end;
        let mut at = types;
        while at < types_end {
            btf.types.push(at);
            let head = btf.header_at(at).ok_or(damaged("a type ends early"))?;
            at = head.body + body_bytes(head.kind, head.members).ok_or(damaged("unknown kind of type"))?;
        }
        if at > types_end {
            return Err(damaged("a type ends early"));
        }
        Ok(btf)
    }

    fn u32(&self, at: usize) -> Option<u32> {
        let bytes = self.data.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    fn header_at(&self, at: usize) -> Option<Type> {
        let info = self.u32(at + 4)?;
        Some(Type {
            kind: (info >> 24 & 0x1f) as u8,
            flag: info >> 31 != 0,
            members: (info & 0xffff) as usize,
            size_or_id: self.u32(at + 8)?,
            body: at + 12,
        })
    }

    fn type_(&self, id: u32) -> Option<Type> {
        match id {
            0 => None,
            id => self.header_at(*self.types.get(id as usize)?),
        }
    }

    fn name_is(&self, offset: u32, name: &str) -> bool {
        let start = self.strings.start + offset as usize;
        let end = start + name.len();
        end < self.strings.end && &self.data[start..end] == name.as_bytes() && self.data[end] == 0
    }

    fn find(&self, kind: u8, name: &str) -> Option<u32> {
        (1..self.types.len()).find_map(|id| {
            let at = self.types[id];
            let info = self.u32(at + 4)?;
            let is = (info >> 24 & 0x1f) as u8 == kind && self.name_is(self.u32(at)?, name);
            is.then_some(id as u32)
        })
    }

    /// Follows typedefs and qualifiers.
    fn strip(&self, mut id: u32) -> Option<Type> {
        for _ in 0..DEPTH {
            let type_ = self.type_(id)?;
            if !TRANSPARENT.contains(&type_.kind) {
                return Some(type_);
            }
            id = type_.size_or_id;
        }
        None
    }

    /// Number of pointers from a type to one that is no pointer.
    fn pointers(&self, mut id: u32) -> usize {
        for count in 0..DEPTH {
            match self.strip(id) {
                Some(type_) if type_.kind == KIND_PTR => id = type_.size_or_id,
                _ => return count,
            }
        }
        DEPTH
    }

    /// The member called `name`, also inside anonymous structures and unions: bit offset, bits (0: whole),
    /// type. `left` counts down over all members that were looked at.
    fn member(&self, type_: &Type, name: &str, depth: usize, left: &mut usize) -> Option<(u32, u32, u32)> {
        if (type_.kind != KIND_STRUCT && type_.kind != KIND_UNION) || depth == 0 {
            return None;
        }
        for index in 0..type_.members {
            *left = left.checked_sub(1)?;
            let at = type_.body + index * 12;
            let (member_name, member_type, place) = (self.u32(at)?, self.u32(at + 4)?, self.u32(at + 8)?);
            let (bits, bit) = if type_.flag { (place >> 24, place & 0x00ff_ffff) } else { (0, place) };
            if self.name_is(member_name, name) {
                return Some((bit, bits, member_type));
            }
            if self.name_is(member_name, "")
                && let Some(inner) = self.strip(member_type)
                && let Some((inner_bit, bits, found)) = self.member(&inner, name, depth - 1, left)
            {
                return Some((bit.checked_add(inner_bit)?, bits, found));
            }
        }
        None
    }

    /// Place of `structure.member.member`. With stars behind the path, only if the member has that many
    /// levels of pointers.
    pub fn offset(&self, path: &str) -> Option<Member> {
        let plain = path.trim_end_matches('*');
        let pointers = path.len() - plain.len();
        let mut names = plain.split('.');
        let structure = names.next()?;
        let mut type_ = self.find(KIND_STRUCT, structure)?;
        let (mut bit, mut bits) = (0_u32, 0);
        for name in names {
            let mut left = MEMBERS;
            let (member_bit, member_bits, member_type) =
                self.member(&self.strip(type_)?, name, DEPTH, &mut left)?;
            bit = bit.checked_add(member_bit)?;
            bits = member_bits;
            type_ = member_type;
        }
        if pointers > 0 && self.pointers(type_) != pointers {
            return None;
        }
        let mask = if bits == 0 { 0 } else { (1_u32 << bits.min(8)).wrapping_sub(1) << (bit % 8) & 0xff };
        Some(Member { offset: bit / 8, mask })
    }

    /// The first of these paths that this kernel has.
    pub fn first_offset(&self, paths: &[&str]) -> Result<Member, BtfError> {
        paths.iter().find_map(|path| self.offset(path)).ok_or_else(|| BtfError::NoMember(paths.join(" or ")))
    }

    /// Number of arguments that a tracepoint passes to a BPF program; none if the kernel lacks the
    /// tracepoint.
    pub fn tracepoint_arguments(&self, name: &str) -> Option<usize> {
        let typedef = self.type_(self.find(KIND_TYPEDEF, &format!("btf_trace_{name}"))?)?;
        let pointer = self.strip(typedef.size_or_id)?;
        let prototype = if pointer.kind == KIND_PTR { self.strip(pointer.size_or_id)? } else { pointer };
        // The first argument is the tracepoint's own data pointer.
        (prototype.kind == KIND_FUNC_PROTO).then(|| prototype.members.saturating_sub(1))
    }

    /// The number of the function of this name.
    pub fn function(&self, name: &str) -> Option<u32> {
        self.find(KIND_FUNC, name)
    }

    /// Whether an enumeration of this name has this member.
    pub fn has_enumerator(&self, enumeration: &str, name: &str) -> bool {
        let Some(type_) = self.find(KIND_ENUM, enumeration).and_then(|id| self.type_(id)) else {
            return false;
        };
        let is_it = |index| self.u32(type_.body + index * 8).is_some_and(|offset| self.name_is(offset, name));
        (0..type_.members).any(is_it)
    }

    /// Bytes of the structure of this name.
    pub fn size(&self, name: &str) -> Option<u32> {
        self.find(KIND_STRUCT, name).and_then(|id| self.type_(id)).map(|type_| type_.size_or_id)
    }

    /// The number of the structure of this name.
    pub fn structure(&self, name: &str) -> Option<u32> {
        self.find(KIND_STRUCT, name)
    }
}

/// Bytes that follow a type's header, by kind; none for a kind that is not known.
fn body_bytes(kind: u8, members: usize) -> Option<usize> {
    Some(match kind {
        // integer, variable, declaration tag
        1 | 14 | 17 => 4,
        // pointer, forward, typedef, volatile, const, restrict, function, float, type tag
        2 | 7..=12 | 16 | 18 => 0,
        // array
        3 => 12,
        // structure, union, section, 64-bit enumeration
        4 | 5 | 15 | 19 => members * 12,
        // enumeration, function prototype
        6 | 13 => members * 8,
        _ => return None,
    })
}

#[cfg(test)]
#[path = "btf_tests.rs"]
mod tests;
