//! Time inside account `cpu` in which a hypervisor ran others.
//!
//! The kernel keeps, for each CPU, the hypervisor's own sum of such time, and reads it when it updates the
//! clock of that CPU's run queue, which it does in every switch. Its growth while a thread had the CPU was
//! taken from that thread. It charges no time: what was stolen lies inside `cpu`.

use super::{Ledger, RUNNING};

impl Ledger {
    /// The thread got its CPU, whose sum is `clock_ns`; 0 where none is known.
    #[inline(always)]
    pub fn stolen_from(&mut self, clock_ns: u64) {
        self.stolen_clock_ns = clock_ns;
    }

    /// Adds the time stolen since the last event, for a thread that is still on its CPU or about to leave it.
    /// `cpu` is the CPU of this sum.
    #[inline(always)]
    pub fn stolen_until(&mut self, now_ns: u64, cpu: u16, clock_ns: u64) {
        // If the switch-in was not seen, the sum belongs to another CPU and says nothing about this stay.
        if self.state != RUNNING || self.cpu != cpu || self.stolen_clock_ns == 0 || now_ns <= self.since_ns {
            return;
        }
        let mut stolen_ns = clock_ns.wrapping_sub(self.stolen_clock_ns);
        if stolen_ns.cast_signed() <= 0 {
            return;
        }
        // The sum is read a little earlier than our clock, at both ends.
        let open_ns = now_ns.wrapping_sub(self.since_ns);
        if stolen_ns > open_ns {
            stolen_ns = open_ns;
        }
        self.stolen_ns = self.stolen_ns.wrapping_add(stolen_ns);
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use crate::{
        Account, Distance,
        ledger::{Arrival, Ledger, RUNNING},
    };

    proptest! {
        /// Stays on CPUs of different sums, some of them unseen; time stolen elsewhere meanwhile does not
        /// count.
        #[test]
        fn what_is_stolen_while_it_runs_is_its(stays in vec((1..1000_u64, 0..1000_u64, 0..1000_u64, any::<bool>()), 1..50)) {
            let mut ledger = Ledger::EMPTY;
            ledger.begin(0, RUNNING, 0);
            ledger.stolen_from(0);
            ledger.out_runnable(1);
            let (mut now_ns, mut clock_ns, mut truth_ns) = (1, 1_000, 0);
            for (stay_ns, stolen_ns, elsewhere_ns, is_seen) in stays {
                (now_ns, clock_ns) = (now_ns + 10, clock_ns + elsewhere_ns);
                ledger.switched_in(now_ns, Arrival { cpu: 0, distance: Distance::Smt as u8 });
                ledger.stolen_from(if is_seen { clock_ns } else { 0 });
                let stolen_ns = stolen_ns.min(stay_ns);
                (now_ns, clock_ns) = (now_ns + stay_ns, clock_ns + stolen_ns);
                truth_ns += if is_seen { stolen_ns } else { 0 };
                ledger.stolen_until(now_ns, 0, clock_ns);
                ledger.stolen_until(now_ns, 1, clock_ns + 1_000);
                ledger.out_blocked(now_ns, Account::Lock as u8, 0);
                prop_assert_eq!(ledger.stolen_ns, truth_ns);
                prop_assert!(ledger.stolen_ns <= ledger.accounts[Account::Cpu as usize]);
            }
        }
    }
}
