//! Names of kernels as people read them. They come from an untrusted program, and are no longer than a
//! message.

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

use crate::untrusted::Untrusted;
use guestscope_base::bounded::Bounded;

/// Most nested types of a name.
const NESTED: u32 = 64;
/// Longest name that is kept, bytes: the ends of templates say little.
const KEPT: usize = 512;

/// The name without its parameters, cut where it is long.
pub(super) fn readable(mangled: &[u8]) -> Untrusted {
    match demangled(mangled) {
        Some(name) => name.into(),
        None => Untrusted::of_bytes(mangled.get(..KEPT).unwrap_or(mangled)),
    }
}

fn demangled(mangled: &[u8]) -> Option<String> {
    let parse = ParseOptions::default().recursion_limit(NESTED);
    let symbol = Symbol::new_with_options(mangled, &parse).ok()?;
    let options = DemangleOptions::default().no_params().no_return_type().recursion_limit(NESTED);
    let mut name = Bounded::new(KEPT);
    // It fails where the name is cut.
    let _ = symbol.structured_demangle(&mut name, &options);
    Some(name.into_text()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_named_as_in_their_source() {
        for (mangled, name) in [
            ("_Z4reluILi4EEvPfi", "relu<4>"),
            ("_ZN2at6native13reduce_kernelILi512ELi1EEEvi", "at::native::reduce_kernel<512, 1>"),
            ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
            ("", ""),
        ] {
            assert_eq!(readable(mangled.as_bytes()).stored(), name);
        }
        // Types that repeat each other: the whole name has more than a gigabyte.
        let bomb = format!("_Z1fI{}iE{}Evv", "1aI".repeat(20), "S0_S0_E".repeat(20));
        assert!(readable(bomb.as_bytes()).stored().len() <= KEPT.max(bomb.len()));
        assert_eq!(readable(&[b'x'; 2_000]).stored().len(), KEPT);
        assert_eq!(readable(b"\xff\xfe").stored(), "\u{fffd}\u{fffd}");
    }
}
