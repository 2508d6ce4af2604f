//! Results of all rows: for each the last run that succeeded, in any call.
//!
//! Yields `studies.json`, written after every row, so that an interrupted call loses one row and not hours.

use std::{fs, io, path::PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::table::Line;
use crate::{cache::write_whole, failure::failure};

/// The file and what is in it.
pub(super) struct Record {
    file: PathBuf,
    known: Known,
}

#[derive(Default, Serialize, Deserialize)]
struct Known {
    rows: Vec<Line>,
    /// Rows whose last run failed.
    failed: Vec<Failed>,
}

/// A row that failed.
#[derive(Serialize, Deserialize)]
pub(super) struct Failed {
    pub(super) name: String,
    pub(super) commit: Option<String>,
    pub(super) error: String,
}

impl Record {
    /// Reads the results of earlier calls.
    pub(super) fn open(file: PathBuf) -> Result<Self> {
        let known = match fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| {
                let hint = "move it away to begin a new one";
                failure(format!("no table of studies: {} ({error})", file.display()), hint)
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Known::default(),
            Err(error) => return Err(error).with_context(|| format!("file: {}", file.display())),
        };
        Ok(Self { file, known })
    }

    /// Keeps the result of a row, in place of its earlier one.
    pub(super) fn keep(&mut self, row: Line) -> Result<()> {
        self.known.failed.retain(|known| known.name != row.name);
        match self.known.rows.iter_mut().find(|known| known.name == row.name) {
            Some(known) => *known = row,
            None => self.known.rows.push(row),
        }
        self.write()
    }

    /// Records that a row failed. Its earlier result stays.
    pub(super) fn fail(&mut self, row: Failed) -> Result<()> {
        self.known.failed.retain(|known| known.name != row.name);
        self.known.failed.push(row);
        self.write()
    }

    /// The rows that succeeded.
    pub(super) fn rows(&self) -> &[Line] {
        &self.known.rows
    }

    fn write(&self) -> Result<()> {
        write_whole(&self.file, (serde_json::to_string_pretty(&self.known)? + "\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::{Failed, Line, Record};

    fn row(name: &str, commit: &str) -> Line {
        let row = json!({
            "name": name, "commit": commit, "cut": null, "fidelity": "full", "requests": 1, "p50_ns": 1.0, "speed": [2.0, "images/s"],
            "phases_cover": 1.0, "phases_p50_ns": [["work", 1.0]], "account_shares": [["cpu", 1.0]],
            "folder": "", "work_hash": "", "output_hash": null,
        });
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn rows_of_other_calls_stay() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("studies.json");
        let read = || serde_json::from_slice::<Value>(&fs::read(&file).unwrap()).unwrap();
        let mut first = Record::open(file.clone()).unwrap();
        first.keep(row("infer ic", "1")).unwrap();
        first.keep(row("h2o glm", "1")).unwrap();
        let mut second = Record::open(file.clone()).unwrap();
        let failed =
            |error: &str| Failed { name: "h2o glm".to_owned(), commit: None, error: error.to_owned() };
        second.fail(failed("no")).unwrap();
        second.fail(failed("still not")).unwrap();
        second.keep(row("infer ic", "2")).unwrap();
        let known = |record: &Record| -> Vec<(String, Option<String>)> {
            record.rows().iter().map(|row| (row.name.clone(), row.commit.clone())).collect()
        };
        let expected = [("infer ic", "2"), ("h2o glm", "1")];
        assert_eq!(known(&second), expected.map(|(name, commit)| (name.to_owned(), Some(commit.to_owned()))));
        assert_eq!(known(&Record::open(file.clone()).unwrap()), known(&second));
        assert_eq!(read()["failed"], json!([{ "name": "h2o glm", "commit": null, "error": "still not" }]));
        second.keep(row("h2o glm", "2")).unwrap();
        assert_eq!(read()["failed"], json!([]));
        fs::write(&file, "half").unwrap();
        let error = Record::open(file.clone()).err().unwrap();
        assert!(error.to_string().starts_with("no table of studies: "), "{error}");
    }
}
