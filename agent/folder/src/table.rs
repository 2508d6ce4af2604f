//! Converts rows to columns and back, driven by a table of columns: the only module that uses Arrow's arrays.
//!
//! Yields record batches from rows and rows from record batches. Independent of files and of single columns.

use std::{borrow::Cow, collections::VecDeque, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BooleanArray, Int32Array, Int64Array, RecordBatch, StringDictionaryBuilder,
        UInt64Array,
    },
    compute::cast,
    datatypes::{DataType, Field, Int32Type, Int64Type, Schema, SchemaRef, UInt64Type},
    error::ArrowError,
};

use super::{
    closed::Empty,
    former,
    texts::{Words, decode_hex, decode_words, encode_hex},
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

/// Reads a value of type `T` from a row.
pub(super) type Get<R, T> = Box<dyn Fn(&R) -> T + Send + Sync>;
/// The same, borrowed from the row.
pub(super) type Borrow<R, T> = Box<dyn Fn(&R) -> Option<&T> + Send + Sync>;
/// Puts a value into a row.
pub(super) type Set<R, T> = Box<dyn Fn(&mut R, T) + Send + Sync>;
/// Puts a value into a row, or returns `false` if the value is invalid there.
pub(super) type Check<R, T> = Box<dyn Fn(&mut R, &T) -> bool + Send + Sync>;

/// How a value is taken from a row and put back.
pub(super) enum Access<R> {
    Integer {
        width: Width,
        get: Get<R, u64>,
        set: Set<R, u64>,
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

impl<R> Column<R> {
    pub(super) fn new(name: &'static str, help: &'static str, access: Access<R>) -> Self {
        Self { name: Cow::Borrowed(name), help, access, at_close: false, may_lack: false }
    }

    fn data_type(&self) -> DataType {
        match self.access {
            Access::Integer { width: Width::Signed, .. } | Access::OptionalInteger { .. } => DataType::Int64,
            Access::Integer { width: Width::Short, .. } => DataType::Int32,
            Access::Integer { width: Width::Unsigned, .. } => DataType::UInt64,
            Access::Flag { .. } => DataType::Boolean,
            Access::Word { .. } => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            Access::Hex { .. } => DataType::Utf8,
        }
    }

    /// Values of this type become those of the column: another tool may have written them wider, or without a
    /// dictionary. Not text for numbers: a number may have any length there.
    fn takes(&self, found: &DataType) -> bool {
        let is_text =
            |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        match (&self.access, found) {
            (_, DataType::Null) => true,
            (Access::Word { .. } | Access::Hex { .. }, DataType::Dictionary(_, words)) => is_text(words),
            (Access::Word { .. } | Access::Hex { .. }, _) => is_text(found),
            (_, DataType::Boolean) => true,
            _ => found.is_integer() || found.is_floating(),
        }
    }

    /// Rows may lack a value.
    fn is_nullable(&self) -> bool {
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

    /// Puts the values of an array into rows, each `factor` times.
    fn decode(
        &self,
        array: &ArrayRef,
        factor: u64,
        rows: &mut [R],
        words: &mut Words,
    ) -> Result<(), Mismatch> {
        let senseless = |what: &str| Mismatch::Senseless(format!("column `{}`: {what}", self.name));
        if !self.takes(array.data_type()) {
            return Err(senseless("values of another kind"));
        }
        let array = match cast(array, &self.data_type()) {
            Ok(array) => array,
            Err(error) => return Err(senseless(&error.to_string())),
        };
        let array = if factor == 1 { array } else { multiplied(&array, factor) };
        if array.null_count() > 0 && !self.is_nullable() {
            return Err(senseless("a value is missing"));
        }
        let sensible = match &self.access {
            // Most counts of most programs are zero, as rows are before.
            Access::Integer { .. } | Access::Flag { .. } if is_blank(&array) => true,
            Access::Integer { width, set, .. } => {
                let rows = rows.iter_mut();
                match width {
                    Width::Signed => rows
                        .zip(array.as_primitive::<Int64Type>().values())
                        .for_each(|(row, value)| set(row, value.cast_unsigned())),
                    Width::Short => rows
                        .zip(array.as_primitive::<Int32Type>().values())
                        .for_each(|(row, value)| set(row, u64::from(value.cast_unsigned()))),
                    Width::Unsigned => rows
                        .zip(array.as_primitive::<UInt64Type>().values())
                        .for_each(|(row, value)| set(row, *value)),
                }
                true
            }
            Access::OptionalInteger { set, .. } => {
                for (row, value) in rows.iter_mut().zip(array.as_primitive::<Int64Type>()) {
                    if let Some(value) = value {
                        set(row, value.cast_unsigned());
                    }
                }
                true
            }
            Access::Flag { set, .. } => {
                for (row, value) in rows.iter_mut().zip(array.as_boolean()) {
                    set(row, value.unwrap_or_default());
                }
                true
            }
            Access::Word { set, .. } => decode_words(&array, rows, words, set),
            Access::Hex { set, .. } => decode_hex(array.as_string(), rows, set),
        };
        if sensible { Ok(()) } else { Err(senseless("a word that has no meaning there")) }
    }
}

/// The same array if it is none of Int64.
fn multiplied(array: &ArrayRef, factor: u64) -> ArrayRef {
    let times = |value: i64| value.saturating_mul(factor.cast_signed());
    let signed = array.as_primitive_opt::<Int64Type>();
    signed.map_or_else(|| Arc::clone(array), |array| Arc::new(array.unary::<_, Int64Type>(times)))
}

/// A time that some accounts need to add up.
pub(super) fn is_account(column: &str) -> bool {
    column.starts_with("time_") && column.ends_with("_ns")
}

/// Whether all numbers are 0 and all flags unset.
fn is_blank(array: &ArrayRef) -> bool {
    if let Some(flags) = array.as_boolean_opt() {
        return flags.true_count() == 0;
    }
    let signed =
        array.as_primitive_opt::<Int64Type>().map(|array| array.values().iter().all(|&value| value == 0));
    let short =
        || array.as_primitive_opt::<Int32Type>().map(|array| array.values().iter().all(|&value| value == 0));
    let unsigned =
        || array.as_primitive_opt::<UInt64Type>().map(|array| array.values().iter().all(|&value| value == 0));
    signed.or_else(short).or_else(unsigned).unwrap_or(false)
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

    /// Decodes a batch of either form into `rows`, in place of the old ones. Unknown columns are left out,
    /// but not a time: without it the accounts of a phase would no longer add up. Columns in `left_out`, in
    /// the order of the table, stay blank, present or not.
    pub(super) fn decode<'a>(
        &self,
        batch: &RecordBatch,
        left_out: &[bool],
        words: &mut Words,
        rows: &'a mut VecDeque<R>,
    ) -> Result<&'a mut [R], Mismatch> {
        let known = |name: &str| self.columns.iter().any(|column| column.name == former::today(name));
        let fields = batch.schema_ref().fields();
        if let Some(field) = fields.iter().find(|field| is_account(field.name()) && !known(field.name())) {
            return Err(Mismatch::Unknown(field.name().clone()));
        }
        rows.clear();
        rows.extend(std::iter::repeat_with(self.blank).take(batch.num_rows()));
        let rows = rows.make_contiguous();
        for (index, column) in self.columns.iter().enumerate() {
            if left_out.get(index).is_some_and(|left_out| *left_out) {
                continue;
            }
            let former = || {
                let former = former::of(&column.name)?;
                batch.column_by_name(former.name).map(|array| (array, former.factor))
            };
            match batch.column_by_name(&column.name).map(|array| (array, 1)).or_else(former) {
                Some((array, factor)) => column.decode(array, factor, rows, words)?,
                None if column.may_lack || column.at_close => {}
                None => return Err(Mismatch::Senseless(format!("column `{}` is missing", column.name))),
            }
        }
        Ok(rows)
    }
}
