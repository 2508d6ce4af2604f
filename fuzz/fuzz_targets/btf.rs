//! The kernel's types (BTF), which a person may supply as a file: whatever it holds, a member has a place or
//! none. The input is the file.
#![no_main]

use guestscope_base::untrusted;
use guestscope_contract::fields::FIELDS;
use libfuzzer_sys::fuzz_target;

#[allow(dead_code, unreachable_pub, reason = "as much of the agent as reads it")]
#[path = "../../agent/kernel/src/facts/btf.rs"]
mod btf;

use btf::Btf;

/// Paths of the seed's structures: into nameless ones, bit fields, through typedefs, pointers and not.
const PATHS: [&str; 6] =
    ["outer.deep.x", "outer.three", "outer.named.y", "outer.pointer*", "outer.pointers**", "outer.broken.x"];

fuzz_target!(|bytes: &[u8]| {
    let Ok(btf) = Btf::parse(bytes.to_vec()) else { return };
    for path in FIELDS.iter().flat_map(|field| field.paths).chain(&PATHS) {
        if let Some(member) = btf.offset(path) {
            assert!(member.mask <= 0xff, "{path}: a bit field's mask is within a byte: {member:?}");
            assert_eq!(btf.first_offset(&[path]).ok(), Some(member), "{path}");
        }
    }
    let _ = btf.tracepoint_arguments("switch");
    let _ = btf.has_enumerator("plain", "B");
    let _ = (btf.function("schedule"), btf.size("outer"), btf.structure("leaf"));
});
