//! What an x86 processor reports about a hypervisor: the feature bit, and the name in the hypervisor's leaf.
//!
//! Yields [`Cpuid`] as plain data, so that a test can supply it. It is judged in `machine`.

/// The processor's answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpuid {
    /// Leaf 1, ECX bit 31: reserved for hypervisors, always 0 on bare metal.
    pub hypervisor: bool,
    /// Names in the hypervisor leaves, the first at 0x40000000: 12 bytes each, zeros cut. More than one where
    /// a hypervisor also offers another one's interface (Xen and KVM behind Hyper-V's).
    pub vendors: Vec<String>,
}

impl Cpuid {
    /// CPUID of the processor that this runs on.
    #[cfg(target_arch = "x86_64")]
    pub fn here() -> Option<Self> {
        use core::arch::x86_64::__cpuid;

        use crate::untrusted::Untrusted;

        if __cpuid(1).ecx >> 31 == 0 {
            return Some(Self::default());
        }
        // Each further interface stands 0x100 higher, up to 0x40010000. Leaves that do not exist answer with
        // those of the last one that does, so a range that does not name itself ends the search.
        let mut vendors = Vec::new();
        for leaf in (0x4000_0000..=0x4001_0000_u32).step_by(0x100) {
            let answer = __cpuid(leaf);
            let name = [answer.ebx, answer.ecx, answer.edx].map(u32::to_le_bytes).concat();
            let known = answer.eax >= leaf && answer.eax - leaf < 0x100;
            if !known {
                break;
            }
            vendors.extend(super::root::clean(Untrusted::of_bytes(&name).stored()));
        }
        Some(Self { hypervisor: true, vendors })
    }

    /// None on this architecture: only x86-64 has CPUID.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn here() -> Option<Self> {
        None
    }
}
