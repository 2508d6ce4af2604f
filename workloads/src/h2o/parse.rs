//! Parses the file chunk by chunk, a request each, with the phases `read`, `parse` (text to columns) and
//! `append` (columns into a summary of the file). Memory does not grow with the file. Yields the summary.

use serde::Serialize;

use super::{
    columns::{Columns, MISSING, MISSING_LEVEL, Values},
    error::{H2oError, go_on},
    reader::{Bad, Parser},
    schema::COLUMNS,
    source::{Data, Source},
};
use crate::{
    digest::Digest,
    progress,
    steps::{Phases, Steps},
};

/// Settings from the command line.
#[derive(Clone, Debug)]
pub struct Settings {
    pub data: Data,
    /// Number of passes over the file.
    pub passes: u64,
    pub chunk_bytes: usize,
    /// Whether the kernel forgets the file before each pass.
    pub cold: bool,
    pub progress: bool,
}

/// Summary of one column of the whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ColumnSummary {
    pub name: &'static str,
    pub missing: u64,
    /// Minimum, maximum and sum of the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum: Option<i64>,
    /// Number of different texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<usize>,
    /// Checksum of all values in their order.
    #[serde(skip)]
    pub checksum: u64,
}

/// Summary of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub rows: u64,
    pub columns: Vec<ColumnSummary>,
    pub bad: Bad,
}

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    pub steps: Steps,
    /// Size of the file, bytes.
    pub bytes: u64,
    /// Summary of the last pass.
    pub summary: Summary,
    pub work: Digest,
    /// Hash of the summaries of all passes.
    pub outputs: Digest,
}

pub const PHASES: &[&str] = &["read", "parse", "append"];

/// Parses the file as `settings` say.
pub fn run(settings: &Settings) -> Result<Outcome, H2oError> {
    let mut source = settings.data.open(settings.chunk_bytes, settings.progress)?;
    let bytes = source.bytes;
    let bar = settings.progress.then(|| progress::bar(source.chunks() * settings.passes, "chunks"));
    let mut steps = Steps::new(PHASES);
    let mut outputs = Digest::default();
    let mut summary = Summary::default();
    for pass in 0..settings.passes {
        if pass > 0 {
            source.rewind()?;
        }
        if settings.cold {
            steps.outside(|| source.forget())?;
        }
        summary = Summary::default();
        let parser = load(&mut source, &mut steps, "chunk", |columns| {
            summary.append(columns);
            if let Some(bar) = &bar {
                bar.inc(1);
            }
            Ok(())
        })?;
        summary.finish(parser);
        summary.add_to(&mut outputs);
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    if summary.rows == 0 {
        return Err(H2oError::NoRows { path: source.path, rows: summary.bad.rows });
    }
    let mut work = Digest::default();
    work.text("h2o parse").u64(bytes).u64(settings.chunk_bytes as u64).u64(settings.passes);
    work.u64(u64::from(settings.cold));
    summary.add_to(&mut work);
    Ok(Outcome { steps, bytes, summary, work, outputs })
}

/// Reads the whole source, a step per chunk; passes each chunk's columns to `append`, whose error ends it.
pub fn load(
    source: &mut Source,
    steps: &mut Steps,
    name: &str,
    mut append: impl FnMut(&Columns) -> Result<(), H2oError>,
) -> Result<Parser, H2oError> {
    let mut parser = Parser::new(source.path.clone());
    let mut is_over = false;
    while !is_over {
        go_on(steps.count())?;
        let first = steps.count();
        steps.step(name, first, |phases| -> Result<(), H2oError> {
            let bytes = phases.run("read", || source.read())?;
            is_over = source.is_over(bytes);
            parse(&mut parser, source.chunk(bytes), is_over, phases)?;
            phases.run("append", || append(&parser.columns))
        })?;
    }
    Ok(parser)
}

fn parse(parser: &mut Parser, bytes: &[u8], is_over: bool, phases: &mut Phases) -> Result<(), H2oError> {
    phases.run("parse", || {
        parser.columns.clear();
        parser.feed(bytes)?;
        if is_over { parser.finish() } else { Ok(()) }
    })
}

impl Summary {
    /// Adds the rows of a chunk.
    pub fn append(&mut self, chunk: &Columns) {
        if self.columns.is_empty() {
            let names = COLUMNS.iter().zip(&chunk.values);
            self.columns = names.map(|(column, values)| ColumnSummary::new(column.name, values)).collect();
        }
        self.rows += chunk.rows as u64;
        for (own, values) in self.columns.iter_mut().zip(&chunk.values) {
            match values {
                Values::Numbers(numbers) => own.append_numbers(numbers),
                Values::Levels(codes) => own.append_codes(codes),
            }
        }
    }

    fn finish(&mut self, parser: Parser) {
        for (column, levels) in self.columns.iter_mut().zip(&parser.levels) {
            if column.levels.is_some() {
                column.levels = Some(levels.names.len());
            }
        }
        self.bad = parser.bad;
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.u64(self.rows).u64(self.bad.rows).u64(self.bad.fields);
        for column in &self.columns {
            digest.text(column.name).u64(column.missing).u64(column.checksum);
        }
    }
}

impl ColumnSummary {
    fn new(name: &'static str, values: &Values) -> Self {
        let levels = matches!(values, Values::Levels(_)).then_some(0);
        Self { name, levels, ..Self::default() }
    }

    /// FNV-1a over words instead of bytes: 31 columns by 152 million rows would take minutes otherwise.
    fn mix(&mut self, word: u32) {
        self.checksum = (self.checksum ^ u64::from(word)).wrapping_mul(0x0000_0100_0000_01b3);
    }

    fn append_numbers(&mut self, numbers: &[i32]) {
        for number in numbers {
            self.mix(*number as u32);
            if *number == MISSING {
                self.missing += 1;
                continue;
            }
            self.least = Some(self.least.map_or(*number, |least| least.min(*number)));
            self.most = Some(self.most.map_or(*number, |most| most.max(*number)));
            self.sum = Some(self.sum.unwrap_or(0) + i64::from(*number));
        }
    }

    fn append_codes(&mut self, codes: &[u16]) {
        for code in codes {
            self.mix(u32::from(*code));
            self.missing += u64::from(*code == MISSING_LEVEL);
        }
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
