//! A table of columns, and rows into columns by it; back into rows: `decode`.
//!
//! Yields record batches from rows. Independent of files and of single columns.

use std::{borrow::Cow, sync::Arc};

use arrow::{
    array::{
        ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringDictionaryBuilder, UInt64Array,
    },
    datatypes::{DataType, Field, Int32Type, Schema, SchemaRef},
    error::ArrowError,
};

use super::{
    access::{Borrow, Check, Get, Set, SetAll},
    closed::Empty,
    texts::encode_hex,
};
use crate::untrusted::Untrusted;

/// How an integer is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// Int64. All times and counts: SQL and pandas subtract them without surprise, and 2^63 ns are 292 years.
    Signed,
    /// Int32: thread numbers.
    Short,
    /// UInt64: numbers that a program chose, all bits of them.
    Unsigned,
}

/// How a value is taken from a row and put back.
pub(super) enum Access<R> {
    Integer {
        width: Width,
        get: Get<R, u64>,
        set: SetAll<R>,
    },
    OptionalInteger {
        get: Get<R, Option<u64>>,
        set: Set<R, u64>,
    },
    Flag {
        get: Get<R, bool>,
        set: Set<R, bool>,
    },
    /// Words that repeat: a dictionary.
    Word {
        get: Borrow<R, str>,
        set: Check<R, Untrusted>,
        optional: bool,
    },
    /// Bytes as lower-case hexadecimal text.
    Hex {
        get: Borrow<R, [u8]>,
        set: Check<R, [u8]>,
        optional: bool,
    },
}

/// One column.
pub(super) struct Column<R> {
    pub(super) name: Cow<'static, str>,
    /// Description, one line.
    pub(super) help: &'static str,
    pub(super) access: Access<R>,
    /// Known only when the run is over: not in the stream.
    pub(super) at_close: bool,
    /// A folder without it is from before it existed, and reads as zero or none.
    pub(super) may_lack: bool,
}

/// The columns of one file.
pub(super) struct Table<R: 'static> {
    /// File name without its extension.
    pub(super) name: &'static str,
    pub(super) columns: Vec<Column<R>>,
    /// The row that setters start from.
    pub(super) blank: fn() -> R,
}

/// A column as documentation shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnHelp {
    /// File name without its extension.
    pub table: &'static str,
    /// Name of the column.
    pub name: String,
    /// Arrow type; a dictionary of words is `Utf8`.
    pub data_type: String,
    /// Some rows may lack it.
    pub nullable: bool,
    /// Description, one line.
    pub help: &'static str,
}

/// Why columns cannot be converted to rows.
#[derive(Debug)]
pub(super) enum Mismatch {
    /// A column that this program must not leave out.
    Unknown(String),
    /// An invalid value, described.
    Senseless(String),
}

/// Puts an integer into each row by this function.
pub(super) fn each<R>(set: impl Fn(&mut R, u64) + Send + Sync + 'static) -> SetAll<R> {
    Box::new(move |rows, values| {
        rows.iter_mut().zip(values).for_each(|(row, value)| set(row, value.cast_unsigned()));
    })
}

impl<R> Column<R> {
    pub(super) fn new(name: &'static str, help: &'static str, access: Access<R>) -> Self {
        Self { name: Cow::Borrowed(name), help, access, at_close: false, may_lack: false }
    }

    pub(super) fn data_type(&self) -> DataType {
        match self.access {
            Access::Integer { width: Width::Signed, .. } | Access::OptionalInteger { .. } => DataType::Int64,
            Access::Integer { width: Width::Short, .. } => DataType::Int32,
            Access::Integer { width: Width::Unsigned, .. } => DataType::UInt64,
            Access::Flag { .. } => DataType::Boolean,
            Access::Word { .. } => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            Access::Hex { .. } => DataType::Utf8,
        }
    }

    /// Rows may lack a value.
    pub(super) fn is_nullable(&self) -> bool {
        match self.access {
            Access::Integer { .. } | Access::Flag { .. } => false,
            Access::OptionalInteger { .. } => true,
            Access::Word { optional, .. } | Access::Hex { optional, .. } => optional,
        }
    }

    pub(super) fn field(&self) -> Field {
        Field::new(self.name.as_ref(), self.data_type(), self.is_nullable())
    }

    /// Whether a blank row already has the content of an empty column.
    pub(super) fn is_blank(&self, empty: Empty) -> bool {
        match empty {
            Empty::Zeros => matches!(self.access, Access::Integer { .. } | Access::Flag { .. }),
            Empty::Nulls => self.is_nullable(),
        }
    }

    pub(super) fn encode(&self, rows: &[R]) -> ArrayRef {
        match &self.access {
            Access::Integer { width, get, .. } => {
                let values = rows.iter().map(get);
                match width {
                    Width::Signed => Arc::new(Int64Array::from_iter_values(values.map(u64::cast_signed))),
                    Width::Short => Arc::new(Int32Array::from_iter_values(values.map(|value| value as i32))),
                    Width::Unsigned => Arc::new(UInt64Array::from_iter_values(values)),
                }
            }
            Access::OptionalInteger { get, .. } => {
                Arc::new(rows.iter().map(|row| get(row).map(u64::cast_signed)).collect::<Int64Array>())
            }
            Access::Flag { get, .. } => {
                Arc::new(rows.iter().map(|row| Some(get(row))).collect::<BooleanArray>())
            }
            Access::Word { get, .. } => {
                let mut words = StringDictionaryBuilder::<Int32Type>::new();
                for row in rows {
                    words.append_option(get(row));
                }
                Arc::new(words.finish())
            }
            Access::Hex { get, .. } => Arc::new(encode_hex(rows, get)),
        }
    }
}

/// A time that some accounts need to add up.
pub(super) fn is_account(column: &str) -> bool {
    column.starts_with("time_") && column.ends_with("_ns")
}

impl<R> Table<R> {
    /// Schema of the stream (without columns known only at the end), or of the closed file.
    pub(super) fn schema(&self, closed: bool) -> SchemaRef {
        let columns = self.columns.iter().filter(|column| closed || !column.at_close);
        Arc::new(Schema::new(columns.map(Column::field).collect::<Vec<_>>()))
    }

    /// The columns as documentation shows them.
    pub(super) fn help(&self) -> impl Iterator<Item = ColumnHelp> {
        self.columns.iter().map(|column| {
            let field = column.field();
            let data_type = match column.access {
                Access::Word { .. } => DataType::Utf8,
                Access::Integer { .. }
                | Access::OptionalInteger { .. }
                | Access::Flag { .. }
                | Access::Hex { .. } => column.data_type(),
            };
            let data_type = data_type.to_string();
            let (name, nullable) = (field.name().clone(), field.is_nullable());
            ColumnHelp { table: self.name, name, data_type, nullable, help: column.help }
        })
    }

    /// The stream's columns of `rows`.
    pub(super) fn encode(&self, schema: &SchemaRef, rows: &[R]) -> Result<RecordBatch, ArrowError> {
        let columns = self.columns.iter().filter(|column| !column.at_close);
        RecordBatch::try_new(Arc::clone(schema), columns.map(|column| column.encode(rows)).collect())
    }

    /// Checks that a stream has exactly the columns as they are written: only this program writes streams.
    pub(super) fn check_types(&self, schema: &Schema) -> Result<(), Mismatch> {
        let is_other = |column: &&Column<R>| {
            schema.field_with_name(&column.name).is_ok_and(|field| *field.data_type() != column.data_type())
        };
        self.columns.iter().find(is_other).map_or(Ok(()), |column| {
            Err(Mismatch::Senseless(format!("column `{}`: values of another kind", column.name)))
        })
    }
}

/// Name of the table's file once closed.
pub(super) fn file_name<R>(table: &Table<R>) -> String {
    format!("{}.parquet", table.name)
}
