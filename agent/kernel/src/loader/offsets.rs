//! What the object needs to know about this kernel: read from its BTF or from the formats of its tracepoints,
//! and written into read-only globals.

use std::{io::ErrorKind, path::Path};

use guestscope_contract::{
    ThrottleMode,
    fields::{EVENT_FIELDS, EventField, FIELDS, Field},
};

use crate::{
    facts::{
        btf::{Btf, BtfError, KERNEL_BTF, Member},
        casts::Casts,
        formats::{FormatError, Formats},
        registers::Registers,
        throttle,
    },
    health::Fidelity,
    probes::{FAMILIES, Hook, Place},
};

use super::{LoadError, globals::Globals, options::Knowledge, supplied};

/// The registers that the object reads are those of the processor that the agent is built for.
static IS_ARM64: u32 = cfg!(target_arch = "aarch64") as u32;

fn lacks(btf: &Btf, hook: &Hook) -> bool {
    matches!(hook.place, Place::BtfTracepoint(name) if btf.tracepoint_arguments(name).is_none())
}

/// Values of the object's globals.
pub(super) struct Offsets {
    /// Fidelity with these offsets.
    pub(super) fidelity: Fidelity,
    fields: Vec<(&'static Field, Member)>,
    event_fields: Vec<(&'static EventField, u32)>,
    /// Threads are known by their numbers alone.
    by_number: u32,
    /// sched_switch carries the state of the task that leaves.
    switch_state: u32,
    /// tcp_retransmit_skb also fires for failed sends, and has a field that says so.
    retransmit_error: u32,
    /// A [`guestscope_contract::ThrottleMode`], as a number.
    throttle_mode: u32,
    /// Index of the bio among the arguments of block_bio_queue.
    bio_argument: u32,
    /// Index of the request among the arguments of block_rq_issue.
    io_argument: u32,
    /// Whether submissions have a separate hook.
    has_io_start: u32,
    /// The running task and saved registers have types.
    has_typed_helpers: u32,
    registers: Registers,
    /// Number of the system call bpf(2).
    number_bpf: u32,
    pub(super) casts: Casts,
    /// Hooks whose tracepoints this kernel does not have.
    pub(super) absent: Vec<&'static str>,
}

impl Offsets {
    /// The offsets of the running kernel.
    pub(super) fn resolve(knowledge: &Knowledge) -> Result<Self, LoadError> {
        let path = match knowledge {
            Knowledge::File(path) => path,
            Knowledge::Formats => return Self::of_events(),
            Knowledge::Own => {
                return match Btf::from_file(Path::new(KERNEL_BTF)) {
                    Ok(btf) => Ok(Self::of(&btf, Fidelity::Full)?),
                    Err(BtfError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
                        Self::of_events()
                    }
                    Err(error) => Err(error.into()),
                };
            }
        };
        let resolved = supplied::read(path).and_then(|btf| Ok(Self::of(&btf, Fidelity::Raw)?));
        resolved.map_err(|error| error.at(path))
    }

    /// The offsets without BTF: no structure is known.
    fn of_events() -> Result<Self, LoadError> {
        let formats = Formats::here()?;
        let offset = |field: &'static EventField| Ok((field, formats.offset(field)?));
        Ok(Self {
            fidelity: Fidelity::Tracepoint,
            fields: Vec::new(),
            event_fields: EVENT_FIELDS.iter().map(offset).collect::<Result<_, FormatError>>()?,
            by_number: 1,
            switch_state: 0,
            retransmit_error: 0,
            throttle_mode: ThrottleMode::Absent as u32,
            bio_argument: 0,
            io_argument: 0,
            has_io_start: 0,
            has_typed_helpers: 0,
            registers: Registers { is_typed: false, distance: 0 },
            number_bpf: 0,
            casts: Casts::default(),
            absent: Vec::new(),
        })
    }

    /// Offsets from this BTF. Typed BPF helpers and casts are left out where the kernel does not know the
    /// types.
    fn of(btf: &Btf, fidelity: Fidelity) -> Result<Self, BtfError> {
        let has_types = fidelity == Fidelity::Full;
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
            fidelity,
            fields,
            event_fields: Vec::new(),
            by_number: 0,
            switch_state: u32::from(btf.tracepoint_arguments("sched_switch") >= Some(4)),
            retransmit_error: u32::from(btf.tracepoint_arguments("tcp_retransmit_skb") >= Some(3)),
            throttle_mode: throttle::mode(btf) as u32,
            bio_argument: u32::from(btf.tracepoint_arguments("block_bio_queue") >= Some(2)),
            io_argument: u32::from(btf.tracepoint_arguments("block_rq_issue") >= Some(2)),
            has_io_start: u32::from(btf.tracepoint_arguments("block_io_start").is_some()),
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

    /// Writes the values into the object's globals.
    pub(super) fn tell(&self, globals: &mut Globals) {
        for (field, member) in &self.fields {
            globals.set(field.offset, member.offset);
            if !field.mask.is_empty() {
                globals.set(field.mask, member.mask);
            }
        }
        for (field, offset) in &self.event_fields {
            globals.set(field.offset, *offset);
        }
        let flags = [
            ("IS_ARM64", IS_ARM64),
            ("BY_NUMBER", self.by_number),
            ("HAS_SWITCH_STATE", self.switch_state),
            ("HAS_RETRANSMIT_ERROR", self.retransmit_error),
            ("THROTTLE_MODE", self.throttle_mode),
            ("BIO_ARGUMENT", self.bio_argument),
            ("IO_ARGUMENT", self.io_argument),
            ("HAS_IO_START", self.has_io_start),
            ("HAS_TYPED_HELPERS", self.has_typed_helpers),
            ("DISTANCE_REGISTERS", self.registers.distance),
            ("NUMBER_BPF", self.number_bpf),
            ("TYPE_BIO", self.casts.bio),
            ("TYPE_FILE", self.casts.file),
            ("TYPE_POINTER", self.casts.pointer),
            ("TYPE_REGISTERS", self.casts.registers),
            ("TYPE_REQUEST", self.casts.request),
            ("TYPE_TASK", self.casts.task),
        ];
        for (name, value) in flags {
            globals.set(name, value);
        }
    }
}
