//! The part of a manifest that a comparison keeps: words that are shown or compared, and numbers. Thousands
//! of runs are held at once, and each manifest may have 200,000 values.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use crate::{
    folder::{HealthRecord, HookRecord, Manifest, limits::VALUE_BYTES},
    limits::{Limit, Timeline},
    untrusted::Untrusted,
};

/// The keys of a workload's description that are used.
const WORDS: [&str; 4] = ["work_hash", "output_hash", "name", "model"];
/// Hooks and kinds of losses that are kept: there are some forty.
const MOST_ENTRIES: usize = 200;

/// The manifest, in short. Of times at which both clocks were read the first is left.
pub(super) fn slim(manifest: &Manifest) -> Manifest {
    let word = |text: &String| short(text);
    let Manifest { workload, health, .. } = manifest;
    let workload = workload.as_ref().map(|workload| {
        let words = WORDS.into_iter().filter_map(|key| Some((key, workload.get(key)?.as_str()?)));
        words.map(|(key, text)| (key.to_owned(), short(text).into())).collect()
    });
    Manifest {
        format: manifest.format,
        state: manifest.state,
        run_id: word(&manifest.run_id),
        name: word(&manifest.name),
        command: command(&manifest.command),
        start: word(&manifest.start),
        clocks: manifest.clocks.first().copied().into_iter().collect(),
        restored: manifest.restored.first().cloned().into_iter().collect(),
        scenario: word(&manifest.scenario),
        platform: word(&manifest.platform),
        hypervisor: word(&manifest.hypervisor),
        fidelity: word(&manifest.fidelity),
        kernel: word(&manifest.kernel),
        arch: word(&manifest.arch),
        cpu_model: word(&manifest.cpu_model),
        logical_cpus: manifest.logical_cpus,
        memory_bytes: manifest.memory_bytes,
        limits: manifest.limits,
        cpu_quota_group: word(&manifest.cpu_quota_group),
        limits_seen: manifest.limits_seen.iter().take(MOST_ENTRIES).map(limit).collect(),
        child: manifest.child,
        workload,
        versions: crate::folder::Versions {
            guestscope: word(&manifest.versions.guestscope),
            contract: manifest.versions.contract,
        },
        health: HealthRecord {
            hooks: health.hooks.iter().take(MOST_ENTRIES).map(hook).collect(),
            losses: losses(&health.losses),
            cost: health.cost,
            folder_error: health.folder_error.as_ref().map(|error| Untrusted::told(error).to_string()),
            ..HealthRecord::default()
        },
        rows: manifest.rows,
        rows_lost: manifest.rows_lost,
        ..Manifest::default()
    }
}

/// Without when it was hit.
fn limit(limit: &Limit) -> Limit {
    Limit {
        kind: limit.kind,
        file: short(&limit.file),
        group: short(&limit.group),
        device: short(&limit.device),
        cpus: short(&limit.cpus),
        other_cpus: short(&limit.other_cpus),
        value: limit.value,
        period_ns: limit.period_ns,
        is_count: limit.is_count,
        hits: limit.hits,
        hit_ns: limit.hit_ns,
        periods: limit.periods,
        refaults: limit.refaults,
        stalled_ns: limit.stalled_ns,
        idle_ns: limit.idle_ns,
        when: Timeline::default(),
        when_refaults: Timeline::default(),
        comm: short(&limit.comm),
        pid: limit.pid,
        seen_ns: limit.seen_ns,
        most_mhz: limit.most_mhz,
    }
}

fn hook(record: &HookRecord) -> HookRecord {
    HookRecord { hook: short(&record.hook), outcome: short(&record.outcome), ..HookRecord::default() }
}

/// The first ones; what others counted is in one number.
fn losses(losses: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut kept: BTreeMap<String, u64> =
        losses.iter().take(MOST_ENTRIES).map(|(name, count)| (short(name), *count)).collect();
    let others = losses.values().skip(MOST_ENTRIES).fold(0_u64, |sum, count| sum.saturating_add(*count));
    if others > 0 {
        kept.insert("others".to_owned(), others);
    }
    kept
}

/// Commands are the same where all their words are.
fn command(words: &[String]) -> Vec<String> {
    let bytes: usize = words.iter().map(String::len).sum();
    if bytes + words.len() <= VALUE_BYTES.most as usize {
        words.to_vec()
    } else {
        vec![short(&words.join(" "))]
    }
}

/// The text itself, or its start with length and hash, so that two long ones still differ.
fn short(text: &str) -> String {
    const BEGIN: usize = 200;
    if text.len() as u64 <= VALUE_BYTES.most {
        return text.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let begin: String = text.chars().take(BEGIN).collect();
    format!("{begin}\u{2026} ({} bytes, {:016x})", text.len(), hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_small_stays_as_it_is() {
        let mut manifest =
            Manifest { command: vec!["program".to_owned(), "--fast".to_owned()], ..Manifest::default() };
        manifest.health.losses = [("kernel.edges".to_owned(), 7)].into();
        assert_eq!(slim(&manifest), manifest);
    }

    #[test]
    fn what_is_large_differs_still_and_is_small() {
        let command = |last: &str| [vec!["a".to_owned(); 195_000], vec![last.to_owned()]].concat();
        let of = |last: &str| slim(&Manifest { command: command(last), ..Manifest::default() }).command;
        assert_ne!(of("b"), of("c"));
        assert_eq!(of("b"), of("b"));
        assert!(of("b")[0].starts_with("a a a ") && of("b")[0].len() < 300, "{:?}", of("b"));
    }

    #[test]
    fn losses_beyond_those_that_are_kept_are_counted() {
        let mut manifest = Manifest::default();
        manifest.health.losses = (0..100_000).map(|loss| (format!("loss.{loss}"), 1)).collect();
        let kept = slim(&manifest).health.losses;
        assert_eq!((kept.len(), kept.values().sum::<u64>()), (MOST_ENTRIES + 1, 100_000));
    }
}
