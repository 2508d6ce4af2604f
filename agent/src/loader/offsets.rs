//! What the object needs to know of this kernel, found in its BTF, and told to the object as read-only globals.

use std::path::Path;

use aya::EbpfLoader;
use guestscope_ebpf::fields::{FIELDS, Field};

use crate::{
    kernel::{
        btf::{Btf, BtfError, KERNEL_BTF, Member},
        casts::Casts,
        registers::Registers,
        throttle,
    },
    probes::{FAMILIES, Hook, Place},
};

use super::{LoadError, supplied};

fn lacks(btf: &Btf, hook: &Hook) -> bool {
    matches!(hook.place, Place::BtfTracepoint(name) if btf.tracepoint_arguments(name).is_none())
}

/// All of it.
pub(super) struct Offsets {
    fields: Vec<(&'static Field, Member)>,
    /// sched_switch carries the state of the task that leaves.
    switch_state: u32,
    /// A [`guestscope_ebpf::ThrottleMode`].
    throttle_mode: u32,
    /// The place of the bio among the arguments of block_bio_queue.
    bio_argument: u32,
    /// The running task and saved registers have types.
    has_typed_helpers: u32,
    registers: Registers,
    /// Of bpf(2).
    number_bpf: u32,
    pub(super) casts: Casts,
    /// Hooks whose tracepoints this kernel does not have.
    pub(super) absent: Vec<&'static str>,
}

impl Offsets {
    /// Of the running kernel: as its own BTF has them, or as this file does.
    pub(super) fn resolve(file: Option<&Path>) -> Result<Self, LoadError> {
        let Some(path) = file else { return Ok(Self::of(&Btf::from_file(Path::new(KERNEL_BTF))?, true)?) };
        let resolved = supplied::read(path).and_then(|btf| Ok(Self::of(&btf, false)?));
        resolved.map_err(|error| error.at(path))
    }

    /// What takes types that the kernel knows is left out where it does not.
    fn of(btf: &Btf, has_types: bool) -> Result<Self, BtfError> {
        let mut fields = Vec::new();
        for field in FIELDS {
            match btf.first_offset(field.paths) {
                Ok(member) => fields.push((field, member)),
                Err(error) if field.required => return Err(error),
                Err(_) => {}
            }
        }
        let registers = Registers::find(btf);
        Ok(Self {
            fields,
            switch_state: u32::from(btf.tracepoint_arguments("sched_switch") >= Some(4)),
            throttle_mode: throttle::mode(btf) as u32,
            bio_argument: u32::from(btf.tracepoint_arguments("block_bio_queue") >= Some(2)),
            has_typed_helpers: u32::from(has_types && registers.is_typed),
            registers,
            number_bpf: libc::SYS_bpf as u32,
            casts: if has_types { Casts::find(btf) } else { Casts::default() },
            absent: FAMILIES
                .iter()
                .copied()
                .flatten()
                .filter(|hook| lacks(btf, hook))
                .map(|hook| hook.id)
                .collect(),
        })
    }

    /// Tells them.
    pub(super) fn tell<'a>(&'a self, loader: &mut EbpfLoader<'a>) {
        for (field, member) in &self.fields {
            loader.override_global(field.offset, &member.offset, true);
            if !field.mask.is_empty() {
                loader.override_global(field.mask, &member.mask, true);
            }
        }
        let globals = [
            ("HAS_SWITCH_STATE", &self.switch_state),
            ("THROTTLE_MODE", &self.throttle_mode),
            ("BIO_ARGUMENT", &self.bio_argument),
            ("HAS_TYPED_HELPERS", &self.has_typed_helpers),
            ("DISTANCE_REGISTERS", &self.registers.distance),
            ("NUMBER_BPF", &self.number_bpf),
            ("TYPE_FILE", &self.casts.file),
            ("TYPE_POINTER", &self.casts.pointer),
            ("TYPE_REGISTERS", &self.casts.registers),
        ];
        for (name, value) in globals {
            loader.override_global(name, value, true);
        }
    }
}
