//! A second job beside the measured one: both are observed, and their requests are counted separately.

use crate::ground::{Ground, skipped, variable};

const NAME: &str = "beside::two_jobs_are_told_apart";
const REQUESTS: usize = 40;

#[test]
fn two_jobs_are_told_apart() {
    let Some(workloads) = variable("GUESTSCOPE_WORKLOADS_BIN") else {
        return skipped(NAME, "GUESTSCOPE_WORKLOADS_BIN is not set");
    };
    let Some(ground) = Ground::new(NAME) else { return };
    let words = ["infer", "loop", "--work", "3ms", "--requests", "40", "--warmup", "2", "--json"];
    let second = ["--beside", "infer loop --work 5ms --requests 1000000 --warmup 1"];
    let done = ground.run().program(&workloads).words(&words).words(&second).spawn().finish();
    let seen = done.expect(0).seen();
    assert_eq!(seen.named("request").len(), REQUESTS);
    assert_eq!(seen.named("warmup").len(), 3);
    let beside = seen.named("beside request");
    assert!(beside.len() > 1);
    let processes = |name: &str| -> Vec<u32> {
        let mut all: Vec<u32> = seen.named(name).iter().map(|request| request.root().thread.tgid).collect();
        all.dedup();
        all
    };
    let (own, other) = (processes("request"), processes("beside request"));
    assert_eq!((own.len(), other.len()), (1, 1));
    assert_ne!(own, other);
}
