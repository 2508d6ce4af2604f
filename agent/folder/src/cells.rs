//! Columns that tables share, and short ways to define one.
//!
//! Yields columns for numbers, flags and names from fields of a row, of its thread and of its ledger.

use std::sync::LazyLock;

use guestscope_contract::{
    Account,
    metrics::{self, Counts, Metric, Quantity},
};

use super::table::{Access, Column, Width, each};
use crate::phase::{Accounts, ThreadId};
use crate::untrusted::Untrusted;

/// A column of the field at this path in the row: row type, name, help, path.
macro_rules! integer {
    ($row:ty: $name:literal, $help:literal, $($field:ident).+) => {
        integer($name, $help, |row: &$row| row.$($field).+, |row: &mut $row, value| row.$($field).+ = value)
    };
}
macro_rules! optional {
    ($row:ty: $name:literal, $help:literal, $($field:ident).+) => {
        Column::new($name, $help, Access::OptionalInteger {
            get: Box::new(|row: &$row| row.$($field).+),
            set: Box::new(|row: &mut $row, value| row.$($field).+ = Some(value)),
        })
    };
}
/// The same for 32 bits.
macro_rules! number32 {
    ($row:ty: $name:literal, $help:literal, $field:ident) => {
        Column::new(
            $name,
            $help,
            Access::Integer {
                width: Width::Short,
                get: Box::new(|row: &$row| u64::from(row.$field)),
                set: each(|row: &mut $row, value| row.$field = value as u32),
            },
        )
    };
}
macro_rules! optional32 {
    ($row:ty: $name:literal, $help:literal, $field:ident) => {
        Column::new(
            $name,
            $help,
            Access::OptionalInteger {
                get: Box::new(|row: &$row| row.$field.map(u64::from)),
                set: Box::new(|row: &mut $row, value| row.$field = Some(value as u32)),
            },
        )
    };
}
macro_rules! flag {
    ($row:ty: $name:literal, $help:literal, $($field:ident).+) => {
        Column::new($name, $help, Access::Flag {
            get: Box::new(|row: &$row| row.$($field).+),
            set: Box::new(|row: &mut $row, value| row.$($field).+ = value),
        })
    };
}
macro_rules! name {
    ($row:ty: $name:literal, $help:literal, $($field:ident).+) => {
        Column::new($name, $help, Access::Word {
            get: Box::new(|row: &$row| Some(row.$($field).+.stored())),
            set: Box::new(|row: &mut $row, word| {
                row.$($field).+ = word.clone();
                true
            }),
            optional: false,
        })
    };
}
macro_rules! optional_name {
    ($row:ty: $name:literal, $help:literal, $field:ident) => {
        Column::new(
            $name,
            $help,
            Access::Word {
                get: Box::new(|row: &$row| row.$field.as_ref().map(Untrusted::stored)),
                set: Box::new(|row: &mut $row, word| {
                    row.$field = Some(word.clone());
                    true
                }),
                optional: true,
            },
        )
    };
}
/// Placeholder in rows that are about to be filled.
pub(super) static NO_WORD: LazyLock<Untrusted> = LazyLock::new(Untrusted::default);

pub(super) fn thread_id<R: 'static>(
    read: fn(&R) -> &ThreadId,
    write: fn(&mut R) -> &mut ThreadId,
) -> Vec<Column<R>> {
    let short = |name, help, get: fn(&ThreadId) -> u32, set: fn(&mut ThreadId, u32)| {
        let get = Box::new(move |row: &R| u64::from(get(read(row))));
        let set = each(move |row: &mut R, value| set(write(row), value as u32));
        Column::new(name, help, Access::Integer { width: Width::Short, get, set })
    };
    vec![
        short("tid", "thread, number in the initial namespace", |id| id.tid, |id, tid| id.tid = tid),
        short("tgid", "process, number in the initial namespace", |id| id.tgid, |id, tgid| id.tgid = tgid),
        integer(
            "thread_born_ns",
            "CLOCK_MONOTONIC when tracking began: tells two users of one number apart",
            move |row| read(row).born_ns,
            move |row, value| write(row).born_ns = value,
        ),
    ]
}

pub(super) fn ledger<R: 'static>(
    read: fn(&R) -> (&Accounts, &Counts),
    write: fn(&mut R) -> (&mut Accounts, &mut Counts),
) -> impl Iterator<Item = Column<R>> {
    let times = Account::ALL.into_iter().map(move |account| {
        metric(
            Quantity::Time(account).row(),
            move |row| read(row).0.get(account),
            move |row, value| write(row).0.0[account as usize] = value,
        )
    });
    let counts = Metric::ALL.into_iter().map(move |count| {
        metric(
            count.row(),
            move |row| read(row).1.get(count),
            move |row, value| *write(row).1.get_mut(count) = value,
        )
    });
    times.chain(counts)
}

/// The column of a row of the table of metrics; a folder from before there was one lacks it.
pub(super) fn metric<R>(
    of: &metrics::Row,
    get: impl Fn(&R) -> u64 + Send + Sync + 'static,
    set: impl Fn(&mut R, u64) + Send + Sync + 'static,
) -> Column<R> {
    let column = integer("", of.help.trim_start(), get, set);
    Column { name: of.column().into(), may_lack: true, ..column }
}

pub(super) fn integer<R>(
    name: &'static str,
    help: &'static str,
    get: impl Fn(&R) -> u64 + Send + Sync + 'static,
    set: impl Fn(&mut R, u64) + Send + Sync + 'static,
) -> Column<R> {
    Column::new(name, help, Access::Integer { width: Width::Signed, get: Box::new(get), set: each(set) })
}
