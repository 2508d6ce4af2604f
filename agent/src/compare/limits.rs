//! What limits the runs of a platform: CPUs, quota, memory, I/O, in words that can be compared.

use crate::{
    analyze::compare::PlatformLimit,
    folder::Manifest,
    limits::{Kind, Limit},
    sinks::terminal::units::{bytes, duration, thousands},
};

/// Most different values that are told of a platform's runs.
const MOST: usize = 3;
/// CPUs that threads could have used, on average, from which on a mask counts as hit.
const IDLE_CPUS: f64 = 0.25;
/// The word for no limit.
const NONE: &str = "none";

/// A value for each kind; nothing if some run does not tell, as out of Jaeger.
pub(super) fn of(manifests: &[&Manifest]) -> Vec<PlatformLimit> {
    if !manifests.iter().all(|manifest| manifest.limits.cpus.is_some()) {
        return Vec::new();
    }
    let kinds = [Kind::Cpus, Kind::Quota, Kind::Memory, Kind::Io];
    let one = |kind: Kind| {
        let mut texts: Vec<String> = Vec::new();
        let mut size = f64::INFINITY;
        for (text, of_run) in manifests.iter().map(|manifest| of_run(manifest, kind)) {
            size = size.min(of_run);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts.sort_unstable();
        if texts.len() > MOST {
            texts.truncate(MOST);
            texts.push("others".to_owned());
        }
        let seen = manifests.iter().flat_map(|manifest| &manifest.limits_seen);
        let hit = seen.filter(|limit| limit.kind == kind && is_hit(limit));
        let hit = hit.max_by_key(|limit| (limit.hits, limit.hit_ns)).cloned();
        PlatformLimit { kind, text: texts.join(" or "), size, hit }
    };
    kinds.into_iter().map(one).collect()
}

fn is_hit(limit: &Limit) -> bool {
    match limit.kind {
        Kind::Memory | Kind::Quota => limit.hits > 0,
        Kind::Io | Kind::GpuShared | Kind::GpuClock => limit.hit_ns > 0,
        Kind::Cpus => limit.hit_ns > 0 && limit.idle_cpus() >= IDLE_CPUS,
    }
}

/// The tightest limit of a run, in words and as a number.
fn of_run(manifest: &Manifest, kind: Kind) -> (String, f64) {
    let limits = &manifest.limits;
    let nothing = || (NONE.to_owned(), f64::INFINITY);
    match kind {
        // What happens during a run is no property of its platform.
        Kind::GpuShared | Kind::GpuClock => nothing(),
        Kind::Cpus => {
            let (cpus, all) = (limits.cpus.unwrap_or(0), manifest.logical_cpus);
            let text = if cpus < all { format!("{cpus} of {all}") } else { cpus.to_string() };
            (text, f64::from(cpus))
        }
        Kind::Quota => {
            limits.cpu_quota_ns.zip(limits.cpu_period_ns).map_or_else(nothing, |(ns, period_ns)| {
                let text = format!("{} per {}", duration(ns), duration(period_ns));
                (text, ns as f64 / period_ns.max(1) as f64)
            })
        }
        Kind::Memory => limits.memory_bytes.map_or_else(nothing, |value| (bytes(value), value as f64)),
        Kind::Io => {
            let of_io: Vec<&Limit> = manifest.limits_seen.iter().filter(|limit| limit.kind == kind).collect();
            if of_io.is_empty() {
                return nothing();
            }
            let each = of_io.iter().map(|limit| {
                let rate = if limit.is_count { thousands(limit.value) + " I/Os" } else { bytes(limit.value) };
                format!("{rate}/s of {} ({})", limit.device, limit.file)
            });
            let least = of_io.iter().map(|limit| limit.value as f64).fold(f64::INFINITY, f64::min);
            (each.take(MOST).collect::<Vec<_>>().join(" and "), least)
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::folder::Limits;

    fn manifest(cpus: Option<u32>) -> Manifest {
        Manifest { logical_cpus: 2, limits: Limits { cpus, ..Limits::default() }, ..Manifest::default() }
    }

    fn told(manifests: &[Manifest]) -> Vec<(String, bool)> {
        of(&manifests.iter().collect::<Vec<_>>())
            .into_iter()
            .map(|one| (one.text, one.hit.is_some()))
            .collect()
    }

    fn expected(texts: [&str; 4], hit: usize) -> Vec<(String, bool)> {
        texts.into_iter().enumerate().map(|(at, text)| (text.to_owned(), at == hit)).collect()
    }

    #[test]
    fn a_platform_without_limits_says_so_and_one_that_is_not_known_nothing() {
        assert_eq!(told(&[manifest(Some(2))]), expected(["2", NONE, NONE, NONE], 9));
        assert_eq!(
            told(&[manifest(Some(2)), manifest(Some(1))]),
            expected(["1 of 2 or 2", NONE, NONE, NONE], 9)
        );
        assert_eq!(told(&[manifest(Some(2)), manifest(None)]), []);
    }

    #[rstest]
    #[case::hit(3, true)]
    #[case::there(0, false)]
    fn a_limit_is_told_and_whether_it_was_hit(#[case] hits: u64, #[case] expected_hit: bool) {
        let mut one = manifest(Some(2));
        one.limits.memory_bytes = Some(300_000_000);
        one.limits_seen = vec![Limit { hits, value: 300_000_000, ..Limit::default() }];
        let at = if expected_hit { 2 } else { 9 };
        assert_eq!(told(&[one]), expected(["2", NONE, "300 MB", NONE], at));
    }

    #[test]
    fn every_kind_has_its_words() {
        let mut one = manifest(Some(1));
        (one.limits.cpu_quota_ns, one.limits.cpu_period_ns) = (Some(50_000_000), Some(100_000_000));
        let io = |file: &str, value, is_count| Limit {
            kind: Kind::Io,
            file: file.to_owned(),
            device: "vda".to_owned(),
            value,
            is_count,
            ..Limit::default()
        };
        one.limits_seen =
            vec![io("blkio.throttle.read_bps_device", 40_000_000, false), io("io.max", 7, true)];
        let of_io = "40.0 MB/s of vda (blkio.throttle.read_bps_device) and 7 I/Os/s of vda (io.max)";
        assert_eq!(told(&[one]), expected(["1 of 2", "50.0 ms per 100 ms", NONE, of_io], 9));
    }
}
