//! CPUs of a mask or set on which threads of the run stand in each other's way.
//!
//! Yields the limit. Where the CPUs that they may not use are idle meanwhile,
//! [`explaining`](crate::analyze::explaining) knows it by that; with neighbours on these, only by who had the
//! CPUs.

use guestscope_contract::Account;

use super::{
    ending::WORTH,
    explained::Explained,
    whose::{Circle, Whose},
};
use crate::{
    analyze::{Group, Limited, cause::Cause},
    limits::{Kind, Limit},
};

/// Part of the used CPU time that threads of the run have at least: as much as for advice on them.
const OWN: f64 = WORTH;
/// Part of the group's waits for CPUs that threads with the limit have at least.
const ENOUGH: f64 = 0.25;

impl Explained {
    /// The limit on CPUs under which threads of the run waited for each other in the explained requests.
    pub fn crowded<'a>(&self, group: &Group, circle: &Circle, limits: &'a [Limit]) -> Option<Limited<'a>> {
        let cause = Cause::Account(Account::Runq);
        let used = self.behind(cause, circle).used_ns();
        let of = |is_it: fn(Whose) -> bool| {
            let ns = used.iter().filter(|(whose, _)| is_it(*whose)).map(|(_, ns)| *ns);
            ns.fold(0, u64::saturating_add) as f64
        };
        let own_ns = of(|whose| matches!(whose, Whose::Own | Whose::Sibling));
        let own = own_ns / of(|_| true).max(1.0);
        if own < OWN {
            return None;
        }
        let limit =
            limits.iter().filter(|limit| limit.kind == Kind::Cpus).max_by_key(|limit| limit.hit_ns)?;
        let is_enough = limit.hit_ns as f64 >= group.sums.get(cause) as f64 * ENOUGH;
        (limit.hit_ns > 0 && is_enough).then_some(Limited { cause, limit, crowded: Some(own) })
    }
}
