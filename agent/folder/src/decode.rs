//! Columns of a file back into rows.
//!
//! A file may come from another tool or be damaged: types, places of values and words are checked.

use std::{collections::VecDeque, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch},
    compute::cast,
    datatypes::{DataType, Int32Type, Int64Type, UInt64Type},
};

use super::{
    former,
    table::{Access, Column, Mismatch, Table, Width, is_account},
    texts::{Words, decode_hex, decode_words},
};

/// Rows that are filled with all their numbers before the next ones: a phase takes 0.7 KB, and so many fit
/// into a core's nearest cache.
const ROWS_AT_ONCE: usize = 32;

impl<R> Column<R> {
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

    /// The values in the column's own type, each `factor` times; none if they are those of blank rows.
    fn checked(&self, array: &ArrayRef, factor: u64) -> Result<Option<ArrayRef>, Mismatch> {
        let senseless = |what: &str| self.senseless(what);
        if !self.takes(array.data_type()) {
            return Err(senseless("values of another kind"));
        }
        let own_type = self.data_type();
        let array = if *array.data_type() == own_type {
            Arc::clone(array)
        } else {
            cast(array, &own_type).map_err(|error| senseless(&error.to_string()))?
        };
        let array = if factor == 1 { array } else { multiplied(&array, factor) };
        if array.null_count() > 0 && !self.is_nullable() {
            return Err(senseless("a value is missing"));
        }
        // Most counts of most programs are zero, as rows are before.
        let is_number = matches!(self.access, Access::Integer { .. } | Access::Flag { .. });
        Ok((!is_number || !is_blank(&array)).then_some(array))
    }

    /// Puts values into rows, except those of [`Access::Integer`].
    fn put(&self, array: &ArrayRef, rows: &mut [R], words: &mut Words) -> Result<(), Mismatch> {
        let sensible = match &self.access {
            Access::Integer { .. } => true,
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
            Access::Word { set, .. } => decode_words(array, rows, words, set),
            Access::Hex { set, .. } => decode_hex(array.as_string(), rows, set),
        };
        if sensible { Ok(()) } else { Err(self.senseless("a word that has no meaning there")) }
    }

    fn senseless(&self, what: &str) -> Mismatch {
        Mismatch::Senseless(format!("column `{}`: {what}", self.name))
    }
}

/// Integers of any width, their bits unchanged.
fn integers(width: Width, array: &ArrayRef) -> Int64Array {
    match width {
        Width::Signed => array.as_primitive::<Int64Type>().clone(),
        Width::Short => array.as_primitive::<Int32Type>().unary(|value| i64::from(value.cast_unsigned())),
        Width::Unsigned => array.as_primitive::<UInt64Type>().unary(u64::cast_signed),
    }
}

/// The same array if it is none of Int64.
fn multiplied(array: &ArrayRef, factor: u64) -> ArrayRef {
    let times = |value: i64| value.saturating_mul(factor.cast_signed());
    let signed = array.as_primitive_opt::<Int64Type>();
    signed.map_or_else(|| Arc::clone(array), |array| Arc::new(array.unary::<_, Int64Type>(times)))
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
        let mut numbers = Vec::with_capacity(batch.num_columns());
        for (index, column) in self.columns.iter().enumerate() {
            if left_out.get(index).is_some_and(|left_out| *left_out) {
                continue;
            }
            let former = || {
                let former = former::of(&column.name)?;
                batch.column_by_name(former.name).map(|array| (array, former.factor))
            };
            let array = match batch.column_by_name(&column.name).map(|array| (array, 1)).or_else(former) {
                Some((array, factor)) => column.checked(array, factor)?,
                None if column.may_lack || column.at_close => None,
                None => return Err(Mismatch::Senseless(format!("column `{}` is missing", column.name))),
            };
            let Some(array) = array else { continue };
            match &column.access {
                Access::Integer { width, set, .. } => numbers.push((set, integers(*width, &array))),
                Access::OptionalInteger { .. }
                | Access::Flag { .. }
                | Access::Word { .. }
                | Access::Hex { .. } => column.put(&array, rows, words)?,
            }
        }
        for (at, rows) in rows.chunks_mut(ROWS_AT_ONCE).enumerate() {
            for (set, values) in &numbers {
                set(rows, &values.values()[at * ROWS_AT_ONCE..][..rows.len()]);
            }
        }
        Ok(rows)
    }
}
