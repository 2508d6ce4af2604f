//! Distance of a thread's move: from its last CPU to the one that runs this program.
//!
//! The agent writes the CPUs' positions into a map, which is read only where a thread has moved.

use aya_ebpf::helpers::bpf_get_smp_processor_id;
use guestscope_contract::{
    Distance,
    ledger::{Arrival, Ledger},
};

use crate::maps::TOPOLOGY;

/// The thread of this ledger gets onto this CPU, or got there unseen.
#[inline(always)]
pub(crate) fn arrival(ledger: &Ledger) -> Arrival {
    // SAFETY: the BPF helper has no preconditions.
    arrival_on(ledger, unsafe { bpf_get_smp_processor_id() } as u16)
}

/// The same for any CPU.
#[inline(always)]
pub(crate) fn arrival_on(ledger: &Ledger, cpu: u16) -> Arrival {
    let distance = if ledger.cpu == cpu { 0 } else { distance(ledger.cpu, cpu) as u8 };
    Arrival { cpu, distance }
}

/// A CPU that the agent did not know counts as being at the largest distance.
#[inline(always)]
fn distance(from: u16, to: u16) -> Distance {
    let Some(from) = TOPOLOGY.get(u32::from(from)) else { return Distance::Remote };
    let Some(to) = TOPOLOGY.get(u32::from(to)) else { return Distance::Remote };
    from.distance(*to)
}
