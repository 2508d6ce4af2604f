//! What is known of all rows: of each the last time that it was run and ended well, whichever call that was of.
//!
//! Yields `studies.json`, written after every row, so that a call that is broken off loses one row and not hours.

use std::{fs, io, path::PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::{cache::write_whole, failure::failure};

/// The file and what is in it.
pub(super) struct Record {
    file: PathBuf,
    /// Each with its `name`, and the `commit` that it was run of.
    rows: Vec<Value>,
    /// Names and errors of those that ended badly the last time.
    failed: Vec<Value>,
}

impl Record {
    /// Reads what earlier calls left.
    pub(super) fn open(file: PathBuf) -> Result<Self> {
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => "{}".to_owned(),
            Err(error) => return Err(error).with_context(|| format!("file: {}", file.display())),
        };
        let known: Value = serde_json::from_str(&text).map_err(|error| {
            let hint = "move it away to begin a new one";
            failure(format!("no table of studies: {} ({error})", file.display()), hint)
        })?;
        let list = |key: &str| known[key].as_array().cloned().unwrap_or_default();
        Ok(Self { rows: list("rows"), failed: list("failed"), file })
    }

    /// A row that ended well, in the place of the one of that name.
    pub(super) fn keep(&mut self, row: Value) -> Result<()> {
        self.failed.retain(|known| known["name"] != row["name"]);
        put(&mut self.rows, row);
        self.write()
    }

    /// One that did not. What is known of an earlier time stays.
    pub(super) fn fail(&mut self, row: Value) -> Result<()> {
        put(&mut self.failed, row);
        self.write()
    }

    fn write(&self) -> Result<()> {
        let all = json!({ "rows": self.rows, "failed": self.failed });
        write_whole(&self.file, (serde_json::to_string_pretty(&all)? + "\n").as_bytes())
    }
}

fn put(rows: &mut Vec<Value>, row: Value) {
    match rows.iter_mut().find(|known| known["name"] == row["name"]) {
        Some(known) => *known = row,
        None => rows.push(row),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::Record;

    #[test]
    fn rows_of_other_calls_stay() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("studies.json");
        let read = || serde_json::from_slice::<Value>(&fs::read(&file).unwrap()).unwrap();
        let row = |name: &str, commit: &str| json!({ "name": name, "commit": commit });
        let mut first = Record::open(file.clone()).unwrap();
        first.keep(row("infer ic", "1")).unwrap();
        first.keep(row("h2o glm", "1")).unwrap();
        let mut second = Record::open(file.clone()).unwrap();
        second.fail(json!({ "name": "h2o glm", "error": "no" })).unwrap();
        second.keep(row("infer ic", "2")).unwrap();
        assert_eq!(read()["rows"], json!([row("infer ic", "2"), row("h2o glm", "1")]));
        assert_eq!(read()["failed"][0]["error"], "no");
        second.keep(row("h2o glm", "2")).unwrap();
        assert_eq!(read()["failed"], json!([]));
        fs::write(&file, "half").unwrap();
        let error = Record::open(file.clone()).err().unwrap();
        assert!(error.to_string().starts_with("no table of studies: "), "{error}");
    }
}
