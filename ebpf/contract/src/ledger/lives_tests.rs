//! The ledger is exact under the kernel's own order of events.
//!
//! A simulator of one thread knows what the thread did, nanosecond by nanosecond, and which events the kernel
//! would have sent; the ledger must come to the same sums.

use proptest::{collection::vec, prelude::*};

use super::*;

/// How a thread leaves the CPU, and its way back.
#[derive(Clone, Copy, Debug)]
enum Off {
    Preempted,
    /// Blocked; woken after `sleep_ns`, enqueued `enqueue_ns` later.
    Blocked {
        account: u8,
        sleep_ns: u64,
        enqueue_ns: u64,
    },
    /// The waking came `early_ns` before the switch-out (it raced with it), the enqueueing after.
    Raced {
        account: u8,
        early_ns: u64,
        enqueue_ns: u64,
    },
}

/// On a CPU for `run_ns` (with a wake-up while awake in the middle, if `spurious`), then off it.
#[derive(Clone, Copy, Debug)]
struct Step {
    run_ns: u64,
    spurious: bool,
    off: Off,
    wait_ns: u64,
    cpu: u16,
    /// The hook under test misses this step.
    lost: bool,
}

impl Step {
    /// How long before the switch-out the waking came; the thread was running then, and any waking that found
    /// it awake was over.
    fn early_ns(&self) -> u64 {
        match self.off {
            Off::Raced { early_ns, .. } => early_ns.min(self.run_ns.div_ceil(2) - 1) + 1,
            Off::Preempted | Off::Blocked { .. } => 0,
        }
    }

    /// Durations of the block and of the enqueueing in a raced wait.
    fn raced_ns(&self, enqueue_ns: u64) -> (u64, u64) {
        if self.is_raced() { (0, enqueue_ns) } else { (enqueue_ns, 0) }
    }

    /// The waking can still be recognised as this wait's.
    fn is_raced(&self) -> bool {
        self.early_ns() <= RACE_NS
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let ns = || prop_oneof![0..50_u64, 0..5_000_000_u64];
    let off = prop_oneof![
        Just(Off::Preempted),
        (3..ACCOUNTS as u8, ns(), ns()).prop_map(|(account, sleep_ns, enqueue_ns)| Off::Blocked {
            account,
            sleep_ns,
            enqueue_ns
        }),
        (3..ACCOUNTS as u8, ns(), ns()).prop_map(|(account, early_ns, enqueue_ns)| Off::Raced {
            account,
            early_ns,
            enqueue_ns
        }),
    ];
    // A step of 1 ns at least separates a stale waking from the next block.
    (1..5_000_000_u64, any::<bool>(), off, ns(), 0..3_u16, any::<bool>()).prop_map(
        |(run_ns, spurious, off, wait_ns, cpu, lost)| Step { run_ns, spurious, off, wait_ns, cpu, lost },
    )
}

/// The classes of events, one of which a test leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Nothing,
    Out,
    Waking,
    Wakeup,
    In,
}

/// The thread's times, and the known part of them if events of one class are lost.
#[derive(Debug, Default)]
struct Truth {
    accounts: [u64; ACCOUNTS],
    voluntary: u32,
    involuntary: u32,
    wakeups: u32,
    wakeup_delay_ns: u64,
    migrations: u32,
    missed: u32,
    events: Vec<(u64, Event)>,
    now_ns: u64,
}

impl Truth {
    /// The thread's life from `now_ns` on, which begins on CPU 0.
    fn live(now_ns: u64, steps: &[Step], lost: Lost) -> Self {
        let mut truth = Truth { now_ns, ..Truth::default() };
        let (mut last_cpu, mut in_lost) = (0, false);
        for step in steps {
            let lost = if step.lost { lost } else { Lost::Nothing };
            // A thread whose switch-in was lost is in the run queue, as far as the ledger can know.
            truth.spend(if in_lost { RUNQ } else { CPU }, step.run_ns, step.spurious);
            truth.missed += u32::from(in_lost);
            truth.off(step, lost);
            in_lost = lost == Lost::In;
            if !in_lost {
                truth.missed += u32::from(lost == Lost::Out);
                truth.migrations += u32::from(step.cpu != last_cpu);
                last_cpu = step.cpu;
                truth.events.push((truth.now_ns, Event::In { cpu: step.cpu }));
            }
        }
        truth
    }

    fn spend(&mut self, account: usize, ns: u64, spurious: bool) {
        if spurious {
            let at = self.now_ns + ns / 2;
            self.events.extend([(at, Event::Waking { waker: 1 }), (at, Event::Wakeup)]);
        }
        self.accounts[account] += ns;
        self.now_ns += ns;
    }

    /// Off the CPU, until the next switch-in.
    fn off(&mut self, step: &Step, lost: Lost) {
        let out_ns = self.now_ns;
        let out_is_lost = lost == Lost::Out;
        let (event, block_ns, enqueue_ns, waking_ns, account) = match step.off {
            Off::Preempted => (Event::OutRunnable, 0, 0, None, RUNQ),
            Off::Blocked { account, sleep_ns, enqueue_ns } => {
                let woken_ns = out_ns + sleep_ns;
                let event = Event::OutBlocked { account, syscall: 7 };
                (event, sleep_ns, enqueue_ns, Some(woken_ns), usize::from(account))
            }
            // It had been woken before it left. A bound decides whether that is a race or the rest of an
            // unseen event: the wait ended at once, or when the thread was enqueued.
            Off::Raced { account, enqueue_ns, .. } => {
                let event = Event::OutBlocked { account, syscall: 7 };
                let woken_ns = out_ns - step.early_ns();
                let (block_ns, enqueue_ns) = step.raced_ns(enqueue_ns);
                (event, block_ns, enqueue_ns, Some(woken_ns), usize::from(account))
            }
        };
        if !out_is_lost {
            self.events.push((out_ns, event));
            self.voluntary += u32::from(waking_ns.is_some());
            self.involuntary += u32::from(waking_ns.is_none());
        }
        if let Some(waking_ns) = waking_ns {
            if lost != Lost::Waking {
                self.events.push((waking_ns, Event::Waking { waker: 9 }));
            }
            if lost != Lost::Wakeup {
                self.events.push((out_ns + block_ns + enqueue_ns, Event::Wakeup));
            }
            // The switch-in shows the wake-up as well; only both events show the time of the enqueueing.
            self.wakeups += u32::from(!out_is_lost);
            if matches!(lost, Lost::Nothing | Lost::In) {
                self.wakeup_delay_ns += enqueue_ns;
            }
        }
        // The part that the ledger can know; see the cases of `lost_events_cost_what_they_must`.
        let wait_ns = enqueue_ns + step.wait_ns;
        let known_block_ns = match (lost, step.off) {
            (Lost::Waking, Off::Blocked { .. } | Off::Raced { .. }) => block_ns + enqueue_ns,
            (Lost::Wakeup, Off::Raced { .. }) if !step.is_raced() => block_ns + wait_ns,
            _ => block_ns,
        };
        let total_ns = block_ns + wait_ns;
        self.accounts[if out_is_lost { CPU } else { account }] += known_block_ns;
        self.accounts[if out_is_lost { CPU } else { RUNQ }] += total_ns - known_block_ns;
        self.now_ns += total_ns;
    }

    /// The ledger after all events.
    fn ledger(&mut self, start_ns: u64) -> Ledger {
        // Stable: events of one instant stay in the kernel's order.
        self.events.sort_by_key(|event| event.0);
        let mut ledger = born(start_ns, RUNNING);
        for (at_ns, event) in &self.events {
            event.apply(&mut ledger, *at_ns);
        }
        ledger
    }
}

/// A switch-in that is lost at the very end is not known yet; all others are.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    vec(any_step(), 1..40).prop_map(|mut steps| {
        steps.last_mut().expect("one step at least").lost = false;
        steps
    })
}

fn check(steps: &[Step], lost: Lost) -> Result<(), TestCaseError> {
    let start_ns = 1_000;
    let mut truth = Truth::live(start_ns, steps, lost);
    let ledger = truth.ledger(start_ns);
    prop_assert_eq!(ledger.accounts_at(truth.now_ns), truth.accounts);
    prop_assert_eq!(sum(&ledger), truth.now_ns - start_ns);
    prop_assert_eq!((ledger.voluntary, ledger.involuntary), (truth.voluntary, truth.involuntary));
    prop_assert_eq!((ledger.wakeups, migrations(&ledger)), (truth.wakeups, truth.migrations));
    prop_assert_eq!((ledger.missed, ledger.backwards), (truth.missed, 0));
    prop_assert_eq!(ledger.wakeup_delay_ns, truth.wakeup_delay_ns);
    prop_assert_eq!(ledger.state, RUNNING);
    Ok(())
}

proptest! {
    #[test]
    fn the_kernels_own_order_is_charged_exactly(steps in steps()) {
        check(&steps, Lost::Nothing)?;
        let mut truth = Truth::live(1_000, &steps, Lost::Nothing);
        prop_assert_eq!(truth.ledger(1_000).missed, 0);
    }

    #[test]
    fn each_wait_is_known_from_its_begin_to_its_end(steps in steps()) {
        let mut truth = Truth::live(1_000, &steps, Lost::Nothing);
        truth.ledger(1_000);
        let mut ledger = born(1_000, RUNNING);
        let mut seen = Vec::new();
        for (at_ns, event) in &truth.events {
            event.apply(&mut ledger, *at_ns);
            if let Event::In { .. } = event {
                seen.push((ledger.left_ns, ledger.ready_ns, *at_ns, ledger.account));
            }
        }
        let mut now_ns = 1_000;
        let waits = steps.iter().map(|step| {
            let left_ns = now_ns + step.run_ns;
            let (blocked_ns, queued_ns, account) = match step.off {
                Off::Preempted => (0, step.wait_ns, RUNQ as u8),
                Off::Blocked { account, sleep_ns, enqueue_ns } => (sleep_ns, enqueue_ns + step.wait_ns, account),
                Off::Raced { account, enqueue_ns, .. } => {
                    let (block_ns, enqueue_ns) = step.raced_ns(enqueue_ns);
                    (block_ns, enqueue_ns + step.wait_ns, account)
                }
            };
            now_ns = left_ns + blocked_ns + queued_ns;
            (left_ns, left_ns + blocked_ns, now_ns, account)
        });
        let waits: Vec<_> = waits.collect();
        prop_assert_eq!(seen, waits);
    }

    /// An out: the time off counts as `cpu`, and the switch-in tells. A waking: the block lasts to the
    /// enqueueing. A wakeup: nothing, since the waking tells. An in: the time on the CPU counts as `runq`,
    /// and the next out tells.
    #[test]
    fn lost_events_cost_what_they_must(
        steps in steps(),
        lost in prop_oneof![Just(Lost::Out), Just(Lost::Waking), Just(Lost::Wakeup), Just(Lost::In)],
    ) {
        check(&steps, lost)?;
    }

    /// With the kernel's own stamps a lost switch-in costs nothing but its count, once one was seen.
    #[test]
    fn stamps_make_up_for_lost_switch_ins(steps in steps(), their_zero_ns in 1..1_u64 << 62) {
        let mut truth = Truth::live(1_000, &steps, Lost::Nothing);
        truth.ledger(1_000);
        let (mut ledger, mut stamp, mut ins, mut lost) = (born(1_000, RUNNING), their_zero_ns, 0, 0);
        for (at_ns, event) in &truth.events {
            if event.is_out() {
                let cpu = steps[..ins].last().map_or(0, |step| step.cpu);
                ledger.leaving(*at_ns, Stamps { arrived: stamp, queued_ns: 0 }, on(cpu));
            }
            if let Event::In { .. } = event {
                (stamp, ins) = (their_zero_ns + at_ns, ins + 1);
                if ins > 1 && steps[ins - 1].lost {
                    lost += 1;
                    continue;
                }
            }
            event.apply(&mut ledger, *at_ns);
        }
        prop_assert_eq!(ledger.accounts_at(truth.now_ns), truth.accounts);
        prop_assert_eq!((ledger.missed, migrations(&ledger)), (lost, truth.migrations));
    }

    /// A tid is used again: the slot is cleared, and the new thread's ledger owes nothing to the old one's.
    #[test]
    fn a_slot_used_again_begins_anew(first in steps(), second in steps(), gap_ns in 0..1_000_000_u64) {
        let mut old = Truth::live(1_000, &first, Lost::Nothing);
        let mut slot = old.ledger(1_000);
        slot.out_blocked(old.now_ns, Account::Other as u8, 0xffff);
        let start_ns = old.now_ns + gap_ns;
        let mut new = Truth::live(start_ns, &second, Lost::Nothing);
        let expected = new.ledger(start_ns);
        slot = Ledger::EMPTY;
        slot.begin(start_ns, RUNNING, 0);
        for (at_ns, event) in &new.events {
            event.apply(&mut slot, *at_ns);
        }
        prop_assert_eq!(slot, expected);
        prop_assert_eq!(slot.born_ns, start_ns);
        prop_assert_eq!(slot.accounts_at(new.now_ns), new.accounts);
    }
}
