//! Calls of kernel functions (kfuncs): their BTF IDs in this kernel are written into the object before
//! loading.
//!
//! aya does not support such calls. The verifier checks each call, reached or not: so where the kernel lacks
//! the function, the call is replaced by another instruction. Loading is done elsewhere.

use guestscope_contract::CALL_RDONLY_CAST;

use super::btf::Btf;

/// `r0 = 0`, in a branch that is never taken.
const NOTHING: u64 = 0xb7;

/// BTF numbers that calls of `bpf_rdonly_cast` need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Casts {
    /// The function itself; all numbers are 0 where there is none.
    function: u32,
    /// `struct bio`; 0 in a kernel without block devices.
    pub bio: u32,
    /// `struct file`.
    pub file: u32,
    /// A structure that begins with a pointer.
    pub pointer: u32,
    /// `struct pt_regs`.
    pub registers: u32,
    /// `struct request`; 0 likewise.
    pub request: u32,
    /// `struct task_struct`.
    pub task: u32,
}

impl Casts {
    /// All IDs, or none: kernels before 6.2 lack these functions, and the programs do without.
    pub fn find(btf: &Btf) -> Self {
        let all = || {
            let function = btf.function("bpf_rdonly_cast")?;
            Some(Self {
                function,
                bio: btf.structure("bio").unwrap_or(0),
                file: btf.structure("file")?,
                pointer: btf.structure("list_head")?,
                registers: btf.structure("pt_regs")?,
                request: btf.structure("request").unwrap_or(0),
                task: btf.structure("task_struct")?,
            })
        };
        all().unwrap_or_default()
    }

    /// Patches the calls of an object.
    pub fn put_into(&self, object: &mut [u8]) {
        let call = CALL_RDONLY_CAST.to_le_bytes();
        let fixed = match self.function {
            0 => NOTHING,
            number => u64::from(number) << 32 | CALL_RDONLY_CAST & 0xffff_ffff,
        };
        for word in object.chunks_exact_mut(8).filter(|word| **word == call) {
            word.copy_from_slice(&fixed.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_calls_are_replaced() {
        let mut object = [1_u64, CALL_RDONLY_CAST, 2, CALL_RDONLY_CAST, 0x85].map(u64::to_le_bytes).concat();
        object.extend([9, 9, 9]);
        let words = |casts: Casts| {
            let mut object = object.clone();
            casts.put_into(&mut object);
            assert_eq!(object[40..], [9, 9, 9]);
            let word =
                |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
            object[..40].chunks(8).map(word).collect::<Vec<_>>()
        };
        let casts = Casts { function: 0x0001_2345, ..Casts::default() };
        assert_eq!(words(casts), [1, 0x0001_2345_0000_2085, 2, 0x0001_2345_0000_2085, 0x85]);
        assert_eq!(words(Casts::default()), [1, 0xb7, 2, 0xb7, 0x85]);
    }
}
