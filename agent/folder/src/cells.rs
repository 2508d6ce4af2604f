//! Columns that tables share, and short ways to define one.
//!
//! Yields columns for numbers, flags and names from fields of a row, of its thread and of its ledger.

use std::sync::LazyLock;

use guestscope_contract::Account;

use super::table::{Access, Column, Width};
use crate::phase::{Accounts, COUNT_NAMES, Counts, ThreadId};
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
                set: Box::new(|row: &mut $row, value| row.$field = value as u32),
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
/// Placeholder in rows that are about to be filled.
pub(super) static NO_WORD: LazyLock<Untrusted> = LazyLock::new(Untrusted::default);

pub(super) fn thread_id<R: 'static>(
    read: fn(&R) -> &ThreadId,
    write: fn(&mut R) -> &mut ThreadId,
) -> Vec<Column<R>> {
    let short = |name, help, get: fn(&ThreadId) -> u32, set: fn(&mut ThreadId, u32)| {
        let get = Box::new(move |row: &R| u64::from(get(read(row))));
        let set = Box::new(move |row: &mut R, value| set(write(row), value as u32));
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
        let column = integer(
            "",
            "time in this account",
            move |row| read(row).0.get(account),
            move |row, value| write(row).0.0[account as usize] = value,
        );
        Column { name: format!("time_{}_ns", account.name()).into(), may_lack: true, ..column }
    });
    let counts = COUNT_NAMES.into_iter().enumerate().map(move |(index, name)| {
        let set = move |row: &mut R, value| {
            let counts = write(row).1;
            let mut values = counts.to_array();
            values[index] = value;
            *counts = Counts::from_array(values);
        };
        let help = match name.rsplit('_').next() {
            Some("ns") if name.starts_with("block.") || name.starts_with("net.") => {
                "time that events took, added up: they may overlap"
            }
            Some("ns") => "time that events took",
            Some("bytes") => "bytes of such events",
            _ => "events",
        };
        let column = integer("", help, move |row| read(row).1.to_array()[index], set);
        Column { name: format!("count_{}", name.replace('.', "_")).into(), may_lack: true, ..column }
    });
    times.chain(counts)
}

pub(super) fn integer<R>(
    name: &'static str,
    help: &'static str,
    get: impl Fn(&R) -> u64 + Send + Sync + 'static,
    set: impl Fn(&mut R, u64) + Send + Sync + 'static,
) -> Column<R> {
    Column::new(name, help, Access::Integer { width: Width::Signed, get: Box::new(get), set: Box::new(set) })
}
