//! BTF from a builder, damaged BTF, and the running kernel's, the latter against bpftool's reading of it.

use std::{collections::HashMap, process::Command};

use guestscope_contract::fields::FIELDS;
use proptest::{collection::vec, prelude::*};
use rstest::rstest;

use super::*;

const INT: u32 = 1;
const ARRAY: u32 = 3;
const UNION: u32 = KIND_UNION as u32;
const STRUCT: u32 = KIND_STRUCT as u32;
const TYPEDEF: u32 = KIND_TYPEDEF as u32;
const PTR: u32 = KIND_PTR as u32;
/// Set in a structure's header: its members carry bit field sizes.
const FLAG: u32 = 1 << 31;

/// Builds a blob, type by type. Types are numbered from 1.
struct Builder {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
}

impl Builder {
    fn new() -> Self {
        Self { types: Vec::new(), strings: vec![0], count: 0 }
    }

    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend_from_slice(name.as_bytes());
        self.strings.push(0);
        at
    }

    /// A type with `members` as its vlen, and what follows its header.
    fn add(&mut self, name: &str, kind: u32, members: u32, size_or_type: u32, body: &[u32]) -> u32 {
        let name = self.name(name);
        let flag = kind & FLAG;
        let info = flag | (kind & !FLAG) << 24 | members;
        for word in [name, info, size_or_type].iter().chain(body) {
            self.types.extend_from_slice(&word.to_le_bytes());
        }
        self.count += 1;
        self.count
    }

    /// A structure or union; members are name, type, and place (bits, with the size above them if flagged).
    fn group(&mut self, name: &str, kind: u32, members: &[(&str, u32, u32)]) -> u32 {
        let body: Vec<u32> =
            members.iter().flat_map(|&(name, type_, place)| [self.name(name), type_, place]).collect();
        self.add(name, kind, members.len() as u32, 64, &body)
    }

    fn blob(&self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let mut blob = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, types, types, strings] {
            blob.extend_from_slice(&u32::to_le_bytes(word));
        }
        blob.extend_from_slice(&self.types);
        blob.extend_from_slice(&self.strings);
        blob
    }
}

/// One type of every kind from 1 to 19, then structures in every way of nesting.
fn everything() -> Builder {
    let mut btf = Builder::new();
    let int = btf.add("int", INT, 0, 4, &[32]);
    let prototype = btf.add("", 13, 4, 0, &[0, 0, 0, int, 0, int, 0, int]);
    let pointer = btf.add("", PTR, 0, prototype, &[]);
    btf.add("btf_trace_switch", TYPEDEF, 0, pointer, &[]);
    btf.add("", ARRAY, 0, 0, &[int, int, 7]);
    let enumeration = [btf.name("A"), 0, btf.name("B"), 1];
    btf.add("plain", 6, 2, 4, &enumeration);
    btf.add("forward", 7, 0, 0, &[]);
    let volatile = btf.add("", 9, 0, int, &[]);
    let constant = btf.add("", 10, 0, volatile, &[]);
    let restrict = btf.add("", 11, 0, constant, &[]);
    btf.add("schedule", 12, 1, prototype, &[]);
    btf.add("counter", 14, 0, int, &[1]);
    btf.add(".data", 15, 1, 4, &[int, 0, 4]);
    btf.add("float", 16, 0, 4, &[]);
    btf.add("tag", 17, 0, int, &[0]);
    let tagged = btf.add("user", 18, 0, restrict, &[]);
    btf.add("wide", 19, 1, 8, &[0, 1, 2]);
    let leaf = btf.group("leaf", STRUCT, &[("x", tagged, 0), ("y", int, 32)]);
    let renamed = btf.add("leaf_t", TYPEDEF, 0, leaf, &[]);
    let renamed = btf.add("leaf_tt", TYPEDEF, 0, renamed, &[]);
    let constant = btf.add("", 10, 0, renamed, &[]);
    let to_leaf = btf.add("", PTR, 0, leaf, &[]);
    let constant_pointer = btf.add("", 10, 0, to_leaf, &[]);
    let to_pointer = btf.add("", PTR, 0, constant_pointer, &[]);
    let innermost = btf.group("", UNION, &[("deep", constant, 0), ("other", int, 0)]);
    let inner = btf.group("", STRUCT, &[("first", int, 0), ("", innermost, 32)]);
    let bit_field = |bits: u32, at: u32| bits << 24 | at;
    let flags = [("whole", int, 0), ("three", int, bit_field(3, 34)), ("one", int, bit_field(1, 41))];
    let flags = btf.group("", FLAG | STRUCT, &flags);
    btf.group(
        "outer",
        STRUCT,
        &[
            ("head", int, 0),
            ("", inner, 64),
            ("", flags, 256),
            ("named", leaf, 512),
            ("pointer", to_leaf, 576),
            ("broken", 9_999, 640),
            ("pointers", to_pointer, 704),
        ],
    );
    btf
}

#[rstest]
#[case("outer", Some((0, 0)))]
#[case("outer.head", Some((0, 0)))]
#[case("outer.first", Some((8, 0)))]
#[case("outer.other", Some((12, 0)))]
#[case("outer.deep", Some((12, 0)))]
#[case("outer.deep.y", Some((16, 0)))]
#[case("outer.named.y", Some((68, 0)))]
#[case("outer.named.x", Some((64, 0)))]
#[case("outer.whole", Some((32, 0)))]
#[case("outer.three", Some((36, 0b1_1100)))]
#[case("outer.one", Some((37, 0b10)))]
#[case("outer.pointer", Some((72, 0)))]
#[case("outer.broken", Some((80, 0)))]
#[case("outer.pointer*", Some((72, 0)))]
#[case("outer.pointers**", Some((88, 0)))]
// As many pointers as are asked for, neither more nor less.
#[case("outer.pointer**", None)]
#[case("outer.pointers*", None)]
#[case("outer.head*", None)]
#[case("outer.broken*", None)]
// A pointer is not followed, an integer has no members, a missing type is not the one before it.
#[case("outer.pointer.x", None)]
#[case("outer.head.x", None)]
#[case("outer.broken.head", None)]
#[case("outer.missing", None)]
#[case("missing.x", None)]
#[case("leaf_t.x", None)]
fn a_path_leads_to_a_member(#[case] path: &str, #[case] expected: Option<(u32, u32)>) {
    let btf = Btf::parse(everything().blob()).unwrap();
    let expected = expected.map(|(offset, mask)| Member { offset, mask });
    assert_eq!(btf.offset(path), expected);
}

#[test]
fn the_first_path_that_exists_is_taken() {
    let btf = Btf::parse(everything().blob()).unwrap();
    assert_eq!(btf.first_offset(&["outer.gone", "outer.first"]).unwrap().offset, 8);
    let error = btf.first_offset(&["outer.gone", "outer.lost"]).unwrap_err();
    assert_eq!(error.to_string(), "this kernel has no member: outer.gone or outer.lost");
}

#[test]
fn tracepoints_and_functions_are_found_by_name() {
    let btf = Btf::parse(everything().blob()).unwrap();
    assert_eq!(btf.tracepoint_arguments("switch"), Some(3));
    assert_eq!(btf.tracepoint_arguments("missing"), None);
    assert!(btf.function("schedule").is_some() && btf.structure("outer").is_some());
    assert_eq!((btf.function("outer"), btf.function("sched"), btf.structure("schedule")), (None, None, None));
}

#[test]
fn enumerators_and_sizes_are_found_by_name() {
    const ENUM: u32 = 6;
    let mut btf = everything();
    let members = [btf.name("FIRST"), 0, btf.name("SECOND"), 1];
    btf.add("numbers", ENUM, 2, 4, &members);
    let btf = Btf::parse(btf.blob()).unwrap();
    let has = |enumeration, name| btf.has_enumerator(enumeration, name);
    assert!(has("numbers", "FIRST") && has("numbers", "SECOND"));
    assert!(
        !has("numbers", "THIRD") && !has("numbers", "SEC") && !has("leaf", "FIRST") && !has("none", "FIRST")
    );
    assert!(btf.size("outer").is_some() && btf.size("none").is_none());
}

#[rstest]
#[case::empty(vec![], "no magic number (or of the other byte order)")]
#[case::other_byte_order(vec![0xeb, 0x9f, 1, 0, 0, 0, 0, 24], "no magic number (or of the other byte order)")]
#[case::header_only(vec![0x9f, 0xeb, 1, 0, 24, 0, 0, 0], "the header ends early")]
#[case::sections_outside(
    [0x9f, 0xeb, 1, 0].into_iter().chain([255; 20]).collect(), "a section lies outside the file"
)]
#[case::unknown_kind({
    let mut btf = everything();
    btf.add("new", 31, 0, 0, &[]);
    btf.blob()
}, "unknown kind of type")]
#[case::type_without_body({
    let mut btf = everything();
    btf.add("int", INT, 0, 4, &[]);
    btf.strings.clear();
    btf.blob()
}, "a type ends early")]
#[case::half_a_header({
    let mut btf = everything();
    btf.types.extend_from_slice(&[0; 8]);
    btf.strings.clear();
    btf.blob()
}, "a type ends early")]
fn damage_is_named(#[case] blob: Vec<u8>, #[case] expected: &str) {
    let error = Btf::parse(blob).err().expect("damaged").to_string();
    assert_eq!(error, format!("BTF is damaged: {expected}"));
}

/// Anonymous structures that contain themselves, many times: a search that followed each would never end.
#[test]
fn a_loop_of_anonymous_structures_ends() {
    let mut btf = Builder::new();
    let itself = vec![("", 1, 0); 1_000];
    btf.group("loop", STRUCT, &itself);
    let typedef_loop = btf.count + 1;
    btf.add("round", TYPEDEF, 0, typedef_loop, &[]);
    btf.group("holder", STRUCT, &[("member", typedef_loop, 0), ("", typedef_loop, 0)]);
    let btf = Btf::parse(btf.blob()).unwrap();
    assert_eq!(btf.offset("loop.x"), None);
    assert_eq!(btf.offset("holder.member.x"), None);
    assert_eq!(btf.offset("holder.x"), None);
}

#[test]
fn offsets_beyond_32_bits_are_no_members() {
    let mut btf = Builder::new();
    let inner = btf.group("", STRUCT, &[("x", 1, 64)]);
    btf.group("far", STRUCT, &[("", inner, u32::MAX - 7), ("named", inner, u32::MAX - 7)]);
    let btf = Btf::parse(btf.blob()).unwrap();
    assert_eq!((btf.offset("far.x"), btf.offset("far.named.x")), (None, None));
}

#[test]
fn a_name_that_runs_out_of_the_strings_is_none() {
    let mut btf = Builder::new();
    btf.group("whole", STRUCT, &[("x", 1, 0)]);
    btf.group("cut", STRUCT, &[("x", 1, 0)]);
    assert_eq!(btf.strings.pop(), Some(0), "the zero after `cut`");
    let btf = Btf::parse(btf.blob()).unwrap();
    assert_eq!((btf.offset("cut"), btf.offset("cut.x")), (None, None));
    assert!(btf.offset("whole").is_some());
}

/// Queries a blob that may be damaged in every way: each query must return.
fn ask(blob: Vec<u8>) {
    let Ok(btf) = Btf::parse(blob) else { return };
    for path in ["outer.deep.y", "outer.named.x", "outer.one", "outer.broken.x", "leaf.y", "outer.gone", ""] {
        let _ = btf.offset(path);
    }
    let _ = (btf.tracepoint_arguments("switch"), btf.function("schedule"));
}

proptest! {
    #[test]
    fn damaged_blobs_are_answered(
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8), cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut blob = everything().blob();
        for (at, byte) in damage {
            let at = at.index(blob.len());
            blob[at] = byte;
        }
        blob.truncate(if is_cut { cut.index(blob.len()) } else { blob.len() });
        ask(blob);
    }

    /// Types of small random words, so that they refer to each other in every way, loops included.
    #[test]
    fn random_types_are_answered(types in vec((1..20_u32, 0..6_u32, 0..12_u32, vec(0..12_u32, 18)), 0..12)) {
        let mut btf = everything();
        btf.types.clear();
        for (kind, members, refers_to, body) in types {
            let body_words = body_bytes(kind as u8, members as usize).expect("a known kind") / 4;
            btf.add(if members > 2 { "outer" } else { "leaf" }, kind, members, refers_to, &body[..body_words]);
        }
        ask(btf.blob());
    }

    #[test]
    fn random_bytes_are_answered(bytes in vec(any::<u8>(), 0..400), header in any::<bool>()) {
        let mut blob = bytes;
        if header {
            let half = (blob.len() / 2) as u32;
            let mut whole = vec![0x9f, 0xeb, 1, 0];
            for word in [24, 0, half, half, blob.len() as u32 - half] {
                whole.extend_from_slice(&u32::to_le_bytes(word));
            }
            whole.append(&mut blob);
            blob = whole;
        }
        ask(blob);
    }
}

/// A type as bpftool prints it.
struct Printed {
    kind: String,
    name: String,
    refers_to: u32,
    /// Name, type, place in bits, bits of a bit field.
    members: Vec<(String, u32, u32, u32)>,
}

/// Reads `bpftool btf dump ... format raw`; types are in the order of their numbers, from 1.
fn read_raw(text: &str) -> Vec<Printed> {
    let mut types: Vec<Printed> = Vec::new();
    for line in text.lines() {
        let name = line.split('\'').nth(1).unwrap_or_default().to_owned();
        let value = |key: &str| {
            let after =
                line.rsplit('\'').next()?.split_whitespace().find_map(|word| word.strip_prefix(key))?;
            after.parse().ok()
        };
        if line.starts_with('[') {
            let kind = line.split_whitespace().nth(1).unwrap_or_default().to_owned();
            types.push(Printed {
                kind,
                name,
                refers_to: value("type_id=").unwrap_or(0),
                members: Vec::new(),
            });
        } else if let (Some(type_), Some(bit)) = (value("type_id="), value("bits_offset=")) {
            let member = (name.replace("(anon)", ""), type_, bit, value("bitfield_size=").unwrap_or(0));
            types.last_mut().expect("a member follows its type").members.push(member);
        }
    }
    types
}

/// The bit and bits of `path`, found in what bpftool printed.
fn expected(types: &[Printed], structures: &HashMap<&str, usize>, path: &str) -> Option<(u32, u32)> {
    let (first, rest) = path.split_once('.')?;
    let mut at = *structures.get(first)?;
    let (mut bit, mut bits) = (0, 0);
    for name in rest.split('.') {
        while matches!(types[at].kind.as_str(), "TYPEDEF" | "CONST" | "VOLATILE" | "RESTRICT" | "TYPE_TAG") {
            at = types[at].refers_to as usize - 1;
        }
        // Anonymous members are opened in place until the name turns up.
        let mut queue: Vec<(u32, usize)> = vec![(bit, at)];
        let mut found = None;
        while let Some((base, at)) = queue.pop() {
            for (member, type_, place, member_bits) in &types[at].members {
                if member == name {
                    found = Some((base + place, *member_bits, *type_ as usize - 1));
                } else if member.is_empty() {
                    queue.push((base + place, *type_ as usize - 1));
                }
            }
        }
        (bit, bits, at) = found?;
    }
    Some((bit, bits))
}

#[test]
fn every_field_lies_where_bpftool_sees_it() {
    let skipped = |reason: &str| eprintln!("skipped: every_field_lies_where_bpftool_sees_it: {reason}");
    let Ok(btf) = Btf::from_file(Path::new(KERNEL_BTF)) else {
        return skipped("this kernel has no readable BTF");
    };
    let dump = Command::new("bpftool").args(["btf", "dump", "file", KERNEL_BTF, "format", "raw"]).output();
    let Some(dump) = dump.ok().filter(|dump| dump.status.success()) else {
        return skipped("bpftool is missing or cannot read this kernel's BTF");
    };
    let types = read_raw(&String::from_utf8_lossy(&dump.stdout));
    let structures: HashMap<&str, usize> = types
        .iter()
        .enumerate()
        .filter(|(_, type_)| type_.kind == "STRUCT")
        .map(|(at, type_)| (type_.name.as_str(), at))
        .collect();
    for field in FIELDS {
        for path in field.paths {
            // Pointer levels of a member have separate tests.
            let expected = expected(&types, &structures, path.trim_end_matches('*'))
                .map(|(bit, bits)| Member { offset: bit / 8, mask: ((1 << bits) - 1) << (bit % 8) });
            assert_eq!(btf.offset(path), expected, "{path}");
        }
        let Ok(member) = btf.first_offset(field.paths) else {
            assert!(!field.required, "{}", field.offset);
            continue;
        };
        assert_eq!(member.mask != 0, !field.mask.is_empty(), "{}", field.offset);
    }
    assert_eq!(btf.offset("task_struct.no_such_member"), None);
}
