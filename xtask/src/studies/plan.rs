//! How much each row of the list does: as in its study, or cut to minutes on two cores. Yields words of a command line.

use std::{ffi::OsString, path::Path};

/// What a row is told beside its name.
pub(super) struct Planned {
    /// Behind its name.
    pub(super) words: Vec<OsString>,
    /// For people: what was cut, if anything was.
    pub(super) cut: Option<&'static str>,
}

/// By the begin of a name: words of the study's size, words of the one that is cut, and what those cut.
type Size = (&'static str, &'static [&'static str], &'static [&'static str], &'static str);

/// The first that fits counts. Studies' sizes that are the defaults of the workloads need no words.
const SIZES: &[Size] = &[
    ("infer ic", &[], &["--requests", "200"], "200 requests of 1,000"),
    ("infer nlp", &[], &["--requests", "20", "--warmup", "2"], "20 requests of 1,000"),
    ("infer rs", &[], &["--requests", "200"], "200 requests of 1,000"),
    ("infer sr", &[], &["--requests", "20", "--warmup", "2"], "20 requests of 1,000"),
    ("infer loop", &[], &[], ""),
    ("train mnist", &[], &[], ""),
    ("train alexnet", &[], &["--steps", "3", "--warmup", "1"], "3 steps of 100"),
    ("train", &[], &["--steps", "10", "--warmup", "1"], "10 steps of 100"),
    ("h2o generate", &["--rows", "152000000"], &["--rows", "1000000"], "1 of 152 million flights"),
    ("h2o parse", &["--rows", "152000000"], &["--rows", "1000000"], "1 of 152 million flights"),
    ("h2o glm", &["--fits", "100"], &["--fits", "10"], "10 fits of 100"),
    ("h2o mlp", &[], &[], ""),
];

/// Rows that take threads.
const THREADED: [&str; 6] = ["infer ic", "infer nlp", "infer rs", "infer sr", "train", "h2o mlp"];

/// Of the row of that name. `folder` is where files go.
pub(super) fn of(name: &str, full: bool, threads: Option<u16>, folder: &Path) -> Planned {
    let size = SIZES.iter().find(|(begin, ..)| name.starts_with(begin));
    let (words, cut): (&[&str], &str) = match size {
        Some((_, words, ..)) if full => (words, ""),
        Some((_, _, words, cut)) => (words, cut),
        None => (&[], ""),
    };
    let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
    if let Some(threads) = threads
        && THREADED.iter().any(|begin| name.starts_with(begin))
    {
        words.extend(["--threads".into(), threads.to_string().into()]);
    }
    if name == "h2o generate" {
        words.push(folder.join("flights.csv").into());
    }
    Planned { words, cut: (!cut.is_empty()).then_some(cut) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::of;

    #[test]
    fn what_is_cut_is_said() {
        let words = |name: &str, full| {
            let planned = of(name, full, Some(2), Path::new("/x"));
            let words: Vec<String> =
                planned.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            (words.join(" "), planned.cut)
        };
        assert_eq!(words("train resnet50", true), ("--threads 2".to_owned(), None));
        let cut = ("--steps 10 --warmup 1 --threads 2".to_owned(), Some("10 steps of 100"));
        assert_eq!(words("train resnet50", false), cut);
        assert_eq!(words("train alexnet-tf", false).1, Some("3 steps of 100"));
        assert_eq!(words("h2o generate", true).0, "--rows 152000000 /x/flights.csv");
        assert_eq!(words("h2o mlp --size memory", false), ("--threads 2".to_owned(), None));
        assert_eq!(words("a row of tomorrow", false), (String::new(), None));
    }
}
