//! Writes flights into a file, block by block, so that memory does not grow with the rows. The file appears
//! whole or not at all: it is written under another name beside it, brought to the disk, then renamed.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use super::{
    error::H2oError,
    flights::{BLOCK, Flights},
    schema,
};
use crate::{data::partial::Partial, digest::Digest, progress, stall::machine::interrupt, steps::Steps};

/// Settings from the command line.
#[derive(Clone, Debug)]
pub struct Settings {
    pub file: PathBuf,
    pub rows: u64,
    pub seed: u64,
    /// Whether a terminal sees a bar.
    pub progress: bool,
}

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    pub steps: Steps,
    /// Size of the file, bytes.
    pub bytes: u64,
    pub content: Digest,
}

pub const PHASES: &[&str] = &["draw", "write"];

/// Writes the file.
pub fn write(settings: &Settings) -> Result<Outcome, H2oError> {
    interrupt::listen()?;
    let Settings { file: path, rows, seed, progress } = settings;
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(H2oError::NoFile { path: path.clone() });
    }
    let failed = |source| H2oError::Write { path: path.clone(), source };
    let mut partial = Partial::beside(path).map_err(failed)?;
    let bar = progress.then(|| progress::bar(rows.div_ceil(BLOCK), "blocks of 16,384 flights written"));
    let outcome = stream(&Flights::new(*seed), *rows, path, &mut partial, || {
        if let Some(bar) = &bar {
            bar.inc(1);
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let outcome = outcome?;
    partial.keep(path).map_err(failed)?;
    Ok(outcome)
}

/// Writes header and rows into `to`; `path` is named in errors.
fn stream(
    flights: &Flights,
    rows: u64,
    path: &Path,
    to: &mut impl Write,
    advance: impl Fn(),
) -> Result<Outcome, H2oError> {
    let mut steps = Steps::new(PHASES);
    let mut content = Digest::default();
    let mut text = schema::header().into_bytes();
    let mut bytes = 0;
    for block in 0..rows.div_ceil(BLOCK).max(1) {
        let first = block * BLOCK;
        if interrupt::stopped() {
            return Err(H2oError::Interrupted { what: "rows", count: first });
        }
        steps
            .step("block", block, |phases| {
                phases.run("draw", || {
                    flights.block(block, rows - first, &mut text);
                    content.bytes(&text);
                });
                phases.run("write", || to.write_all(&text))
            })
            .map_err(|source| H2oError::Write { path: path.to_owned(), source })?;
        bytes += text.len() as u64;
        text.clear();
        advance();
    }
    Ok(Outcome { steps, bytes, content })
}

#[cfg(test)]
mod tests {
    use std::{fs, io, path::Path};

    use super::{Settings, stream, write};
    use crate::{
        digest::Digest,
        h2o::{error::H2oError, flights::Flights},
    };

    fn settings(path: &Path, rows: u64) -> Settings {
        Settings { file: path.to_owned(), rows, seed: 1, progress: false }
    }

    #[test]
    fn a_file_has_its_rows_and_replaces_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flights.csv");
        fs::write(&path, "something else").unwrap();
        for rows in [0, 1, 2_000, 16_385] {
            let outcome = write(&settings(&path, rows)).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert_eq!(text.lines().count() as u64, rows + 1);
            assert_eq!(text.len() as u64, outcome.bytes);
            let mut content = Digest::default();
            content.bytes(text.as_bytes());
            assert_eq!(outcome.content, content);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no partial file stays behind");
        }
    }

    /// A disk with room for that many bytes.
    struct Disk(usize);

    impl io::Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let taken = bytes.len().min(self.0).min(1 << 16);
            self.0 -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_named() {
        let error =
            stream(&Flights::new(1), 100_000, Path::new("f.csv"), &mut Disk(5_000_000), || ()).unwrap_err();
        assert!(error.to_string().starts_with("cannot write data: f.csv ("), "{error}");
    }

    #[test]
    fn what_is_no_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let error = write(&settings(folder.path(), 1)).unwrap_err();
        assert!(matches!(error, H2oError::NoFile { .. }), "{error}");
        let error = write(&settings(Path::new("/dev/null"), 1)).unwrap_err();
        assert!(matches!(error, H2oError::NoFile { .. }), "{error}");
        let error = write(&settings(&folder.path().join("no/such"), 1)).unwrap_err();
        assert!(matches!(error, H2oError::Write { .. }), "{error}");
    }
}
