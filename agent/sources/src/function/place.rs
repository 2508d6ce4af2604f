//! Probes of one phase: where its calls begin and end, and where their arguments are.

use std::fs::File;

use guestscope_contract::calls::{ARGUMENTS_X86_64, Argument, ArgumentKind};

use super::{
    code,
    error::FunctionError,
    found::Found,
    golang,
    registers::Registers,
    symbols,
    table::{self, Way},
};
use crate::{
    loader::functions::{Carrier, Spot},
    untrusted::Untrusted,
};

/// Registers of the arguments of C: on arm64 x0 to x7.
pub(super) const ARGUMENTS: Registers = Registers { x86_64: &ARGUMENTS_X86_64, arm64: 8 };

/// Probes of one phase.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Name for people.
    pub(super) name: Untrusted,
    pub(super) begins: Vec<Spot>,
    pub(super) ends: Vec<Spot>,
    pub(super) on: Carrier,
    pub(super) argument: Argument,
}

impl Place {
    /// Entry and exits of each matching function. Those that cannot be followed are left out, and the reasons
    /// returned, unless there is no other.
    pub(super) fn of_functions(
        file: &File,
        symbol: &str,
        argument: Option<u8>,
    ) -> Result<(Vec<Self>, Vec<String>), FunctionError> {
        let found = match Way::parse(symbol) {
            Some(way) => vec![table::find(file, &way)?],
            None => symbols::find(file, symbol)?,
        };
        let (mut places, mut left_out) = (Vec::new(), Vec::new());
        for found in &found {
            match Self::of_function(file, found, argument) {
                Ok(place) => places.push(place),
                Err(error) => left_out.push((found, error)),
            }
        }
        if places.is_empty()
            && let Some((_, error)) = left_out.pop()
        {
            return Err(error);
        }
        let text = |(found, error): (&Found, FunctionError)| format!("{error}: {}", found.name);
        Ok((places, left_out.into_iter().map(text).collect()))
    }

    fn of_function(file: &File, found: &Found, argument: Option<u8>) -> Result<Self, FunctionError> {
        let code::Ways { entry, exits } = code::ways(file, found)?;
        let spot = |offset| Spot { offset, ..Spot::default() };
        let registers = if found.is_go { golang::ARGUMENTS } else { ARGUMENTS };
        let argument = match argument {
            None => Argument::default(),
            Some(number) => Argument {
                kind: ArgumentKind::Register as u32,
                register: registers.of(number).ok_or(FunctionError::NotInRegister(number))?,
                bytes: 8,
                ..Argument::default()
            },
        };
        Ok(Self {
            name: found.name.clone(),
            begins: vec![spot(entry)],
            ends: exits.into_iter().map(spot).collect(),
            on: if found.is_go { Carrier::Goroutine } else { Carrier::Thread },
            argument,
        })
    }
}
