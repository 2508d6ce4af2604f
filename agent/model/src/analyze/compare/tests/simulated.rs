//! Verdicts about platforms whose truth is known: runs differ among themselves, requests depend on each
//! other, the tail comes in bursts. Fixed seeds, so that no result depends on luck twice.

use super::{
    super::{chance::Chance, verdict::Overall},
    *,
};

/// How platforms are drawn.
#[derive(Clone, Copy)]
struct World {
    runs: usize,
    requests: usize,
    /// Standard deviation between runs, of the logarithm.
    between: f64,
}

impl Chance {
    /// Above 0, at most 1.
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Box and Muller.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Latencies of one run: log-normal, each one correlated with the last (0.6), 3 % of them in a slow burst.
fn latencies(chance: &mut Chance, world: World, ratio: f64) -> Vec<u64> {
    let level = 5e7 * ratio * (chance.normal() * world.between).exp();
    let (mut noise, mut burst) = (0.0, false);
    (0..world.requests)
        .map(|_| {
            noise = 0.6 * noise + 0.8 * chance.normal();
            burst = chance.uniform() < if burst { 0.8 } else { 0.006 };
            let slow = if burst { 1.8 } else { 1.0 };
            (level * slow * (0.05 * noise).exp()) as u64
        })
        .collect()
}

/// Without the requests themselves, which no metric looks at.
fn platform(chance: &mut Chance, world: World, label: &str, ratio: f64) -> Platform {
    let run = |index: usize, chance: &mut Chance| {
        let mut latencies_ns = latencies(chance, world, ratio);
        let mean_ns = latencies_ns.iter().sum::<u64>() as f64 / world.requests as f64;
        latencies_ns.sort_unstable();
        let requests = GroupDigest {
            name: "request".into(),
            latencies_ns,
            mean_ns,
            throughput_per_s: 1e9 / mean_ns,
            drift: None,
            autocorrelation: None,
            warmup: 0,
            counts: [0.0; crate::phase::COUNTS],
            profile: Profile::default(),
            tails: Vec::new(),
            gpu: None,
        };
        Run { start_ns: index as u64, is_emulated: false, requests }
    };
    let runs = (0..world.runs).map(|index| run(index, chance)).collect();
    Platform { label: label.to_owned(), runs, limits: Vec::new() }
}

fn declared() -> Declared {
    let metrics = [Metric::Mean, Metric::P50, Metric::P90].map(|metric| (metric, metric.usual_margin()));
    Declared { metrics: metrics.to_vec(), is_usual: false, allow_drift: false, fold: None }
}

/// The verdicts alone: what differences are made of has its own tests, and takes longer.
fn experiment(chance: &mut Chance, world: World, ratio: f64) -> Verdicts {
    let baseline = platform(chance, world, "a", 1.0);
    let other = platform(chance, world, "b", ratio);
    verdicts(&baseline, &[other], &declared()).remove(0)
}

/// 1,000 comparisons of a platform with itself, with little and with much difference between runs.
#[test]
fn equal_platforms_are_called_different_in_at_most_5_of_100() {
    let mut different = 0;
    for (seed, (runs, between)) in [(5, 0.0), (5, 0.05), (10, 0.02), (10, 0.05)].into_iter().enumerate() {
        let mut chance = Chance::new(seed as u64);
        let world = World { runs, requests: 120, between };
        let called = (0..250).filter(|_| is_difference(experiment(&mut chance, world, 1.0).overall)).count();
        assert!(called <= 20, "{runs} runs, {between} between them: {called} of 250");
        different += called;
    }
    assert!(different <= 50, "{different} of 1,000");
}

fn is_difference(overall: Overall) -> bool {
    matches!(overall, Overall::Slower | Overall::Faster | Overall::Mixed)
}

#[test]
fn large_differences_are_found_and_in_the_right_direction() {
    let mut chance = Chance::new(7);
    let world = World { runs: 10, requests: 120, between: 0.02 };
    for (ratio, expected) in [(1.08, Overall::Slower), (0.92, Overall::Faster)] {
        let found = (0..200).filter(|_| experiment(&mut chance, world, ratio).overall == expected).count();
        assert!(found >= 190, "{ratio}: {found} of 200");
    }
}

#[test]
fn small_differences_are_not_called_large() {
    let mut chance = Chance::new(8);
    // Mostly sure to be there, and below every margin.
    let world = World { runs: 10, requests: 1_200, between: 0.001 };
    for ratio in [1.0, 1.005] {
        let (mut alike, mut different) = (0, 0);
        for _ in 0..100 {
            let found = experiment(&mut chance, world, ratio);
            different += u32::from(is_difference(found.overall));
            let settled =
                |judged: &Judged| matches!(judged.verdict, Verdict::Equivalent | Verdict::Negligible);
            // Bursts make the 90th percentile of so few requests uncertain.
            alike += u32::from(found.judged[..2].iter().all(settled));
        }
        let expected = if ratio > 1.0 { 75 } else { 95 };
        assert!(different <= 5 && alike >= expected, "{ratio}: {different} different, {alike} alike of 100");
    }
}

/// The interval of the ratio, for all three metrics, at three sizes of the true difference.
#[test]
fn intervals_cover_the_truth_in_95_of_100() {
    for (seed, ratio) in [(11, 1.0), (12, 1.03), (13, 0.8)] {
        let mut chance = Chance::new(seed);
        let world = World { runs: 8, requests: 120, between: 0.03 };
        let (mut covered, mut all) = (0_u32, 0_u32);
        for _ in 0..2_000 {
            // The log-normal level cancels in the ratio, so the truth is the ratio itself.
            for judged in experiment(&mut chance, world, ratio).judged {
                covered += u32::from(!judged.ratio.excludes(ratio));
                all += 1;
            }
        }
        let share = f64::from(covered) / f64::from(all);
        assert!((0.93..=0.97).contains(&share), "{ratio}: {share}");
    }
}

/// Intervals of the whole, of each cause and of each phase's. Runs differ in each account, and a cause is
/// rarer on one platform than on the other.
#[test]
fn intervals_of_parts_cover_the_truth_in_95_of_100() {
    use guestscope_contract::Account;

    use super::super::profile::Means;
    use crate::analyze::Cause;

    /// By account: the baseline's mean, ns, the platform's, and the standard deviation between runs.
    const WORLD: [(Account, [f64; 2], f64); 3] = [
        (Account::Cpu, [20e6, 21e6], 0.6e6),
        (Account::Runq, [0.4e6, 2.4e6], 0.3e6),
        (Account::BlockIo, [1.5e6, 1.5e6], 0.5e6),
    ];
    const PHASES: [(&str, f64); 2] = [("preprocess", 0.25), ("inference", 0.75)];
    let mut chance = Chance::new(21);
    let mut run = |side: usize, start_ns: u64| {
        let mut requests = GroupDigest { mean_ns: 0.0, profile: Profile::default(), ..group(vec![1]) };
        for (name, share) in PHASES {
            let mut means = Means::default();
            for (account, mean, deviation) in WORLD {
                means.accounts[account as usize] = share * mean[side] + deviation * chance.normal() / 2.0;
            }
            requests.profile.add(vec![name.into()], &means);
            requests.mean_ns += means.accounts.iter().sum::<f64>();
        }
        Run { start_ns, is_emulated: false, requests }
    };
    let differs = |account: Account| {
        let (_, [baseline, value], _) = *WORLD.iter().find(|row| row.0 == account).unwrap();
        value - baseline
    };
    // Intervals found: for the whole, for causes, for parts.
    let mut found = [(0_u32, 0_u32); 3];
    for _ in 0..2_000 {
        let [baseline, other] = [0, 1].map(|side| Platform {
            label: side.to_string(),
            limits: Vec::new(),
            runs: (0..8).map(|turn| run(side, turn * 2 + side as u64)).collect(),
        });
        let mean = &compare(&baseline, &[other], &declared()).platforms[0].mean;
        assert!(mean.residual_ns.abs() < 1e-3, "{}", mean.residual_ns);
        let mut look = |of: usize, interval: Interval, truth: f64| {
            found[of].0 += u32::from(!interval.excludes(truth));
            found[of].1 += 1;
        };
        look(0, mean.difference_ns, WORLD.iter().map(|row| differs(row.0)).sum());
        for cause in &mean.causes {
            let Cause::Account(account) = cause.cause else { panic!("{:?}", cause.cause) };
            look(1, cause.difference_ns, differs(account));
        }
        for part in &mean.parts {
            let Cause::Account(account) = part.cause else { panic!("{:?}", part.cause) };
            let (_, share) = PHASES.into_iter().find(|phase| part.path[0] == *phase.0).unwrap();
            look(2, part.difference_ns, share * differs(account));
        }
    }
    let shares = found.map(|(covered, all)| f64::from(covered) / f64::from(all));
    assert_eq!(found.map(|(_, all)| all), [2_000, 6_000, 12_000]);
    assert!(shares.iter().all(|share| (0.93..=0.97).contains(share)), "{shares:?}");
}

#[test]
fn too_few_runs_get_no_verdict() {
    let mut chance = Chance::new(9);
    for runs in [1, 2, 4] {
        let world = World { runs, requests: 120, between: 0.0 };
        let found = experiment(&mut chance, world, 2.0);
        assert_eq!(found.overall, Overall::TooFewRuns);
        assert!(found.judged.iter().all(|judged| judged.verdict == Verdict::TooFewRuns));
        assert!((found.judged[0].ratio.value / 2.0 - 1.0).abs() < 0.2);
    }
}

/// The runs that an inconclusive verdict asks for find a difference of the margin in about 80 of 100.
#[test]
fn the_runs_asked_for_are_enough() {
    let mut chance = Chance::new(10);
    let mut world = World { runs: 5, requests: 60, between: 0.02 };
    let asked: Vec<u64> = (0..60)
        .filter_map(|_| match experiment(&mut chance, world, 1.02).judged[1].verdict {
            Verdict::Inconclusive { runs_needed } => Some(runs_needed),
            Verdict::TooFewRuns
            | Verdict::Drift
            | Verdict::Slower { .. }
            | Verdict::Faster { .. }
            | Verdict::Negligible
            | Verdict::Equivalent => None,
        })
        .collect();
    let mean = asked.iter().sum::<u64>() as f64 / asked.len() as f64;
    // 15.7 * (0.02 / ln 1.02)^2 = 16, and some for what a run's own requests scatter.
    assert!((12.0..=30.0).contains(&mean), "{mean}");
    world.runs = mean.ceil() as usize;
    let certain = (0..100).filter(|_| {
        let found = experiment(&mut chance, world, 1.02);
        found.judged[1].probability.unwrap() < 0.05
    });
    let certain = certain.count();
    assert!((70..=95).contains(&certain), "{certain} of 100");
}

#[test]
fn halves_of_one_platform_look_alike() {
    let mut chance = Chance::new(14);
    let world = World { runs: 12, requests: 120, between: 0.03 };
    let platform = platform(&mut chance, world, "a", 1.0);
    let test = SelfTest::of(&platform, &declared(), 1);
    assert_eq!(test.splits, SPLITS);
    assert_eq!(test.passes(), Some(true), "{test:?}");
    assert_eq!(SelfTest { different: 101, ..test }.passes(), Some(false));
    // Half of them are too few for a verdict.
    let few = Platform { runs: platform.runs[..9].to_vec(), ..platform };
    assert_eq!(SelfTest::of(&few, &declared(), 1).passes(), None);
}

#[test]
fn several_platforms_share_one_level() {
    let mut chance = Chance::new(15);
    let world = World { runs: 6, requests: 60, between: 0.03 };
    let mut different = 0;
    for _ in 0..150 {
        let baseline = platform(&mut chance, world, "a", 1.0);
        let others: Vec<Platform> =
            (0..6).map(|index| platform(&mut chance, world, &format!("b{index}"), 1.0)).collect();
        let found = verdicts(&baseline, &others, &declared());
        different += usize::from(found.iter().any(|one| is_difference(one.overall)));
    }
    // 18 tests in each experiment: without Holm a half would find something.
    assert!(different <= 12, "{different} of 150");
}
