//! The size of each row: as in its study, or with fewer steps, requests or lines, so that it takes minutes on
//! two cores. Yields arguments.

use std::ffi::OsString;

use super::data::Data;

/// The row that writes flights, and the one that reads them.
pub(super) const GENERATE: &str = "h2o generate";
pub(super) const PARSE: &str = "h2o parse";

/// A row's arguments.
pub(super) struct Planned {
    /// The arguments of `guestscope-workloads`.
    pub(super) words: Vec<OsString>,
    /// For people: what was cut, if anything.
    pub(super) cut: Option<&'static str>,
}

/// Rows for further scenarios of a listed one, those of Lin, Pai & Chou: with pictures from the disk, with a
/// parameter server and two workers, and beside a second job. The network between the workers is in plans of
/// the lab.
const SCENARIOS: [(&str, &str); 6] = [
    ("train inception3 real", "train inception3"),
    ("train resnet50 real", "train resnet50"),
    ("train alexnet-tf real", "train alexnet-tf"),
    ("train resnet50 distributed", "train resnet50"),
    ("train resnet50 shared", "train resnet50"),
    ("train alexnet-tf shared", "train alexnet-tf"),
];

/// The second job of the shared scenarios; it runs until the first one ends.
const BESIDE: &str = "train alexnet-tf --batch 512 --steps 100000";

/// Suffix of rows that read pictures.
const REAL: &str = " real";
/// Number of pictures at full and at cut size: enough for all steps, so that none is read twice, since a
/// second read would come from the page cache.
const PICTURES: [(&str, u32, u32); 2] = [("train alexnet", 110 * 512, 4 * 512), ("train", 110 * 32, 11 * 32)];

/// Prefix of a name, arguments of the study's size, arguments of the cut size, and what was cut.
type Size = (&'static str, &'static [&'static str], &'static [&'static str], &'static str);

/// The first match decides. Sizes of studies that are the workloads' defaults need no arguments.
const SIZES: &[Size] = &[
    ("infer ic", &[], &[], ""),
    ("infer nlp", &[], &["--requests", "20", "--warmup", "2"], "20 requests of 1,000"),
    ("infer rs", &[], &[], ""),
    ("infer sr", &["--requests", "1200"], &["--requests", "20", "--warmup", "2"], "20 requests of 1,200"),
    ("infer loop", &[], &[], ""),
    ("train mnist", &[], &[], ""),
    (
        "train resnet50 distributed",
        &["--workers", "2"],
        &["--workers", "2", "--steps", "3", "--warmup", "1"],
        "3 steps of 100",
    ),
    (
        "train resnet50 shared",
        &["--beside", BESIDE],
        &["--steps", "3", "--warmup", "1", "--beside", BESIDE],
        "3 steps of 100",
    ),
    (
        "train alexnet-tf shared",
        &["--beside", BESIDE],
        &["--steps", "3", "--warmup", "1", "--beside", BESIDE],
        "3 steps of 100",
    ),
    ("train alexnet", &[], &["--steps", "3", "--warmup", "1"], "3 steps of 100"),
    ("train", &[], &["--steps", "10", "--warmup", "1"], "10 steps of 100"),
    (GENERATE, &["--rows", "152000000"], &["--rows", "1000000"], "1 of 152 million flights"),
    // Bound by the disk, as in the study: without this, what was just written may still be in the page cache.
    (PARSE, &["--cold"], &["--cold"], "1 of 152 million flights"),
    ("h2o glm", &["--fits", "100"], &["--fits", "100"], ""),
    ("h2o mlp", &[], &[], ""),
];

/// Rows that accept a number of threads.
const THREADED: [&str; 6] = ["infer ic", "infer nlp", "infer rs", "infer sr", "train", "h2o mlp"];

/// Names of the rows that are not in the workloads' list.
pub(super) fn scenarios() -> impl Iterator<Item = &'static str> {
    SCENARIOS.iter().map(|(name, _)| *name)
}

/// Number of pictures that the row reads.
pub(super) fn pictures(name: &str, full: bool) -> u32 {
    let of = PICTURES.iter().find(|(begin, ..)| name.ends_with(REAL) && name.starts_with(begin));
    of.map_or(0, |(_, whole, cut)| if full { *whole } else { *cut })
}

/// Arguments of the row of that name, with its files in `data`.
pub(super) fn of(name: &str, full: bool, threads: Option<u16>, data: &Data) -> Planned {
    let command = SCENARIOS.iter().find(|(row, _)| *row == name).map_or(name, |(_, command)| command);
    let mut words: Vec<OsString> = command.split(' ').map(Into::into).collect();
    let size = SIZES.iter().find(|(begin, ..)| name.starts_with(begin));
    let (own, cut): (&[&str], &str) = match size {
        Some((_, words, ..)) if full => (words, ""),
        Some((_, _, words, cut)) => (words, cut),
        None => (&[], ""),
    };
    words.extend(own.iter().map(OsString::from));
    if let Some(threads) = threads
        && THREADED.iter().any(|begin| name.starts_with(begin))
    {
        words.extend(["--threads".into(), threads.to_string().into()]);
    }
    if [GENERATE, PARSE].contains(&name) {
        words.push((&data.flights).into());
    }
    if name.ends_with(REAL) {
        words.extend(["--drop-caches".into(), "--data".into(), (&data.shards).into()]);
    }
    Planned { words, cut: (!cut.is_empty()).then_some(cut) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Data, of, pictures};

    #[test]
    fn what_is_cut_is_said() {
        let words = |name: &str, full| {
            let planned = of(name, full, Some(2), &Data::new(Path::new("/x")));
            let words: Vec<String> =
                planned.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            (words.join(" "), planned.cut)
        };
        assert_eq!(words("train resnet50", true), ("train resnet50 --threads 2".to_owned(), None));
        let cut = "train resnet50 --steps 10 --warmup 1 --threads 2".to_owned();
        assert_eq!(words("train resnet50", false), (cut, Some("10 steps of 100")));
        assert_eq!(words("train alexnet-tf", false).1, Some("3 steps of 100"));
        assert_eq!(words("infer sr", true).0, "infer sr --requests 1200 --threads 2");
        assert_eq!(words("h2o generate", true).0, "h2o generate --rows 152000000 /x/flights.csv");
        assert_eq!(words("h2o parse", true), ("h2o parse --cold /x/flights.csv".to_owned(), None));
        assert_eq!(words("h2o parse", false).1, Some("1 of 152 million flights"));
        let memory = "h2o mlp --size memory --threads 2".to_owned();
        assert_eq!(words("h2o mlp --size memory", false), (memory, None));
        assert_eq!(words("a row of tomorrow", false), ("a row of tomorrow".to_owned(), None));
    }

    #[test]
    fn scenarios_are_commands_of_their_rows() {
        let planned = of("train resnet50 distributed", true, None, &Data::new(Path::new("/x")));
        assert_eq!(planned.words, ["train", "resnet50", "--workers", "2"]);
        let planned = of("train alexnet-tf shared", true, None, &Data::new(Path::new("/x")));
        let beside = "train alexnet-tf --batch 512 --steps 100000";
        assert_eq!(
            (planned.words, planned.cut),
            (["train", "alexnet-tf", "--beside", beside].map(Into::into).into(), None)
        );
        let real = of("train resnet50 real", false, None, &Data::new(Path::new("/x")));
        let steps = ["--steps", "10", "--warmup", "1", "--drop-caches", "--data", "/x/shards"];
        assert_eq!(real.words, [&["train", "resnet50"], &steps[..]].concat());
        let count = |name| [true, false].map(|full| pictures(name, full));
        assert_eq!(count("train resnet50 real"), [3_520, 352]);
        assert_eq!(count("train alexnet-tf real"), [56_320, 2_048]);
        assert_eq!(count("train resnet50"), [0, 0]);
        assert!(of("train resnet50 shared", false, None, &Data::new(Path::new("/x"))).cut.is_some());
    }
}
