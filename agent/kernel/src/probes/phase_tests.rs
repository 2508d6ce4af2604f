//! `find` on files made here, byte by byte: every layout that linkers make, every damage, and files that are
//! no ELF at all.
//!
//! A file carries the probe at `PROBE_OFFSET`, so the expected answer does not come from addresses. Where
//! there is a C compiler, its linker's files are tested too.

use std::{fs, os::unix::ffi::OsStrExt as _, path::PathBuf, process::Command};

use proptest::{collection::vec, prelude::*};
use rstest::rstest;
use tempfile::TempDir;

use super::*;

const HEADERS: usize = 64 + 3 * 56;
const PROBE_OFFSET: u64 = HEADERS as u64 + 3;
const TEXT_BYTES: usize = 16;
/// Bytes of the segment in memory, beyond those in the file.
const ZEROED: u64 = 0x100;

/// A program as a linker writes it.
#[derive(Clone, Copy)]
struct Elf {
    /// 2: executable at fixed addresses. 3: position-independent, or a shared object.
    kind: u16,
    address: u64,
    /// How far addresses moved after the notes were written.
    moved: u64,
    /// The note's address, from the start of the text.
    within: u64,
    has_base: bool,
}

const PIE: Elf = Elf { kind: 3, address: 0x1000, moved: 0, within: 3, has_base: true };

fn note(owner: &str, provider: &str, name: &str, address: u64, base: u64) -> Vec<u8> {
    let mut body = Vec::new();
    for word in [address, base, 0] {
        body.extend_from_slice(&word.to_le_bytes());
    }
    for text in [provider, name, "8@%rdi"] {
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }
    let mut note = Vec::new();
    for word in [owner.len() + 1, body.len(), 3] {
        note.extend_from_slice(&(word as u32).to_le_bytes());
    }
    note.extend_from_slice(owner.as_bytes());
    note.push(0);
    note.resize(note.len().next_multiple_of(4), 0);
    note.append(&mut body);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

impl Elf {
    fn text_address(&self) -> u64 {
        self.address + HEADERS as u64
    }

    fn base_address(&self) -> u64 {
        self.address + 0x800
    }

    /// The marker's note, from before the addresses moved.
    fn note(&self) -> Vec<u8> {
        let before = |address: u64| address.wrapping_sub(self.moved);
        let base = if self.has_base { before(self.base_address()) } else { 0 };
        note("stapsdt", "guestscope", "edge", before(self.text_address() + self.within), base)
    }

    /// The file: headers, text, notes, names of sections, sections.
    fn file(&self, notes: &[u8]) -> Vec<u8> {
        let names = b"\0.text\0.note.stapsdt\0.stapsdt.base\0.shstrtab\0";
        let name = |at: usize| -> u32 { [0, 1, 7, 21, 35][at] };
        let (text, notes_at) = (HEADERS as u64, (HEADERS + TEXT_BYTES) as u64);
        let names_at = notes_at + notes.len() as u64;
        let sections_at = (names_at + names.len() as u64).next_multiple_of(8);
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        put(&mut file, &[(u64::from(self.kind), 2), (62, 2), (1, 4), (self.text_address(), 8), (64, 8)]);
        put(&mut file, &[(sections_at, 8), (0, 4), (64, 2), (56, 2), (3, 2), (64, 2), (5, 2), (4, 2)]);
        // The first one is not loaded (a note): its addresses mean nothing.
        for (kind, flags, offset, address, bytes, zeroed) in [
            (4, 4, 0, self.text_address(), TEXT_BYTES as u64, 0),
            (1, 4, 0, self.address, HEADERS as u64, 0),
            (1, 5, text, self.text_address(), TEXT_BYTES as u64, ZEROED),
        ] {
            put(&mut file, &[(kind, 4), (flags, 4), (offset, 8), (address, 8), (address, 8)]);
            put(&mut file, &[(bytes, 8), (bytes + zeroed, 8), (0x1000, 8)]);
        }
        file.resize(HEADERS, 0);
        file.extend_from_slice(&[0xcc, 0xcc, 0xcc, 0x90, 0x0f, 0x1f, 0x44, 0, 0, 0xc3, 0, 0, 0, 0, 0, 0]);
        file.extend_from_slice(notes);
        file.extend_from_slice(names);
        file.resize(sections_at as usize, 0);
        for (name, kind, address, offset, bytes) in [
            (name(0), 0, 0, 0, 0),
            (name(1), 1, self.text_address(), text, TEXT_BYTES as u64),
            (name(2), 7, 0, notes_at, notes.len() as u64),
            (if self.has_base { name(3) } else { name(1) }, 1, self.base_address(), text, 1),
            (name(4), 3, 0, names_at, names.len() as u64),
        ] {
            put(&mut file, &[(u64::from(name), 4), (kind, 4), (2, 8), (address, 8), (offset, 8)]);
            put(&mut file, &[(bytes, 8), (0, 4), (0, 4), (1, 8), (0, 8)]);
        }
        file
    }
}

/// Appends little-endian integers of these widths.
fn put(file: &mut Vec<u8>, fields: &[(u64, usize)]) {
    for (value, bytes) in fields {
        file.extend_from_slice(&value.to_le_bytes()[..*bytes]);
    }
}

/// A folder with one file in it.
struct Case {
    folder: TempDir,
}

impl Case {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    fn find(&self, bytes: &[u8]) -> Result<Option<u64>, MarkerError> {
        fs::write(self.path(), bytes).unwrap();
        find(&self.path())
    }
}

#[rstest]
#[case::pie(PIE)]
#[case::shared_object(Elf { address: 0x7000_0000, ..PIE })]
#[case::fixed_addresses(Elf { kind: 2, address: 0x40_0000, ..PIE })]
#[case::prelinked(Elf { moved: 0x3000_0000, address: 0x3000_0000, ..PIE })]
#[case::moved_down(Elf { moved: 0_u64.wrapping_sub(0x2000), ..PIE })]
#[case::without_base(Elf { has_base: false, ..PIE })]
fn the_probe_is_found(#[case] elf: Elf) {
    let file = elf.file(&elf.note());
    assert_eq!(file[PROBE_OFFSET as usize..][..2], [0x90, 0x0f]);
    assert_eq!(Case::new().find(&file).unwrap(), Some(PROBE_OFFSET));
}

#[test]
fn a_note_without_a_base_means_that_nothing_moved() {
    let mut note = PIE.note();
    note[28..36].fill(0);
    assert_eq!(Case::new().find(&PIE.file(&note)).unwrap(), Some(PROBE_OFFSET));
}

#[test]
fn other_notes_before_ours_are_passed_over() {
    let other = |owner, provider, name| note(owner, provider, name, 0x1111, 0x2222);
    let notes = [
        other("stapsdt", "libc", "setjmp"),
        other("stapsdt", "guestscope", "other"),
        other("a longer owner", "guestscope_edge", "edge"),
        // A body too short for three addresses, and one of no length.
        vec![4, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0, 1, 2, 3, 4, 5, 0, 0, 0],
        vec![0; 12],
        PIE.note(),
        other("stapsdt", "guestscope", "edge"),
    ];
    assert_eq!(Case::new().find(&PIE.file(&notes.concat())).unwrap(), Some(PROBE_OFFSET));
}

#[rstest]
#[case::no_notes(PIE.file(&[]))]
#[case::other_notes(PIE.file(&note("stapsdt", "libc", "setjmp", 1, 2)))]
#[case::script(b"#!/bin/sh\nexit 0\n".to_vec())]
#[case::empty(Vec::new())]
#[case::three_bytes(b"\x7fEL".to_vec())]
#[case::header_of_32_bits(with(&[(4, 1)]))]
#[case::other_byte_order(with(&[(5, 2)]))]
#[case::no_sections(with(&[(60, 0), (61, 0)]))]
#[case::notes_of_2_mib(PIE.file(&[note("stapsdt", "libc", "x", 0, 0).repeat(40_000), PIE.note()].concat()))]
fn a_file_without_the_probe_has_none(#[case] file: Vec<u8>) {
    assert_eq!(Case::new().find(&file).unwrap(), None);
}

/// The file of `PIE` with these bytes changed.
fn with(changes: &[(usize, u8)]) -> Vec<u8> {
    let mut file = PIE.file(&PIE.note());
    for (at, byte) in changes {
        file[*at] = *byte;
    }
    file
}

/// An address without bytes in the file behind it: the kernel would put the probe anywhere.
#[rstest]
#[case::below(0_u64.wrapping_sub(0x500))]
#[case::beyond(0x5_0000)]
#[case::in_zeroed_memory(TEXT_BYTES as u64)]
#[case::at_the_top(u64::MAX - 0x1000)]
fn a_probe_outside_the_files_bytes_is_damage(#[case] within: u64) {
    let elf = Elf { within: 0, ..PIE };
    let mut note = elf.note();
    note[20..28].copy_from_slice(&elf.text_address().wrapping_add(within).to_le_bytes());
    let error = Case::new().find(&elf.file(&note)).unwrap_err().to_string();
    assert!(error.starts_with("the marker's note is damaged: `"), "{error}");
}

#[rstest]
#[case::owner(0, u32::MAX)]
#[case::owner_wraps(0, u32::MAX - 3)]
#[case::owner_beyond(0, 4_096)]
#[case::body(4, u32::MAX)]
#[case::body_beyond(4, 4_096)]
#[case::body_without_names(4, 24)]
#[case::body_without_addresses(4, 3)]
#[case::no_body(4, 0)]
fn a_note_of_a_wrong_size_is_none(#[case] at: usize, #[case] size: u32) {
    let mut note = PIE.note();
    note[at..at + 4].copy_from_slice(&size.to_le_bytes());
    assert_eq!(Case::new().find(&PIE.file(&note)).unwrap(), None);
}

#[test]
fn a_file_cut_anywhere_is_answered() {
    let (case, file) = (Case::new(), PIE.file(&PIE.note()));
    for bytes in 0..file.len() {
        match case.find(&file[..bytes]) {
            Ok(None) | Err(MarkerError::Damaged(_)) => {}
            answer => panic!("cut at {bytes}: {answer:?}"),
        }
    }
    assert_eq!(case.find(&file).unwrap(), Some(PROBE_OFFSET));
}

/// Numbers of sections and segments beyond 16 bits stand elsewhere in the file. If they were believed, this
/// file (1 TiB, nearly all of it a hole) would take 256 GiB of memory.
#[rstest]
#[case::sections(60, &[0, 0])]
#[case::segments(56, &[0xff, 0xff])]
fn tables_of_any_size_are_not_read(#[case] at: usize, #[case] count: &[u8]) {
    let case = Case::new();
    let mut bytes = with(&[]);
    bytes[at..at + 2].copy_from_slice(count);
    let sections = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    bytes[sections + 32..][..8].copy_from_slice(&u64::to_le_bytes(1 << 32));
    bytes[sections + 44..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    fs::write(case.path(), bytes).unwrap();
    File::options().write(true).open(case.path()).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(find(&case.path()).unwrap(), None);
}

/// The name of each section is kept while a file is looked at: 65,279 of 4 kB would take 255 MiB.
#[rstest]
#[case::as_many_as_may_be(MOST_SECTIONS, Some(PROBE_OFFSET))]
#[case::one_more(MOST_SECTIONS + 1, None)]
fn sections_are_bounded(#[case] sections: u16, #[case] expected: Option<u64>) {
    let mut file = PIE.file(&PIE.note());
    file[60..62].copy_from_slice(&sections.to_le_bytes());
    // The table lies at the end, 64 bytes for each section.
    let there = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
    file.resize(there + 64 * usize::from(sections), 0);
    assert_eq!(Case::new().find(&file).unwrap(), expected);
}

proptest! {
    #[test]
    fn damaged_files_are_answered(
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut file = PIE.file(&PIE.note());
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.truncate(if is_cut { cut.index(file.len()) } else { file.len() });
        match Case::new().find(&file) {
            Ok(_) | Err(MarkerError::Damaged(_)) => {}
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn any_bytes_are_notes_or_none(notes in vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(our_note(&notes), None);
    }
}

#[test]
fn what_is_no_regular_file_is_not_opened() {
    let case = Case::new();
    assert_eq!(find(case.folder.path()).unwrap(), None, "a folder");
    assert_eq!(find(Path::new("/dev/null")).unwrap(), None, "a device");
    let missing = find(&case.path()).unwrap_err().to_string();
    assert!(missing.starts_with("reading `") && missing.contains("program"), "{missing}");

    // A pipe without a writer: opening it would wait forever.
    let pipe = case.path();
    nix::unistd::mkfifo(pipe.as_os_str().as_bytes(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(find(&pipe).unwrap(), None, "a pipe");
    // A writer waits for a reader. Opening and closing the pipe would break the writer's end.
    let path = pipe.clone();
    let writer = std::thread::spawn(move || fs::write(path, "unharmed"));
    for _ in 0..100 {
        assert_eq!(find(&pipe).unwrap(), None);
        std::thread::yield_now();
    }
    assert_eq!(fs::read_to_string(&pipe).unwrap(), "unharmed");
    writer.join().unwrap().unwrap();
}

#[test]
fn a_link_leads_to_its_file() {
    let case = Case::new();
    fs::write(case.path(), PIE.file(&PIE.note())).unwrap();
    let link = case.folder.path().join("link");
    std::os::unix::fs::symlink(case.path(), &link).unwrap();
    assert_eq!(find(&link).unwrap(), Some(PROBE_OFFSET));
}

/// What the marker library's probe point looks like to an assembler.
const PROBE_POINT: &str = "
    .text
    .globl guestscope_edge
    guestscope_edge: nop
    .byte 0x0f, 0x1f, 0x44, 0, 0
    ret
    .section .stapsdt.base, \"aG\", %progbits, .stapsdt.base, comdat
    .weak _.stapsdt.base
    .hidden _.stapsdt.base
    _.stapsdt.base: .space 1
    .section .note.stapsdt, \"\", %note
    .balign 4
    .4byte 8, 2f - 1f, 3
    .asciz \"stapsdt\"
    1: .8byte guestscope_edge, _.stapsdt.base, 0
    .asciz \"guestscope\", \"edge\", \"\"
    2: .balign 4
";

#[rstest]
#[case::pie(&["-pie"])]
#[case::pie_stripped(&["-pie", "-s"])]
#[case::fixed_addresses(&["-no-pie"])]
#[case::shared_object(&["-shared"])]
#[case::shared_object_stripped(&["-shared", "-s"])]
fn a_linkers_file_has_the_probe_where_we_find_it(#[case] flags: &[&str]) {
    let case = Case::new();
    let source = case.folder.path().join("probe.s");
    let start = ".globl _start\n_start: call guestscope_edge\n";
    fs::write(&source, format!("{PROBE_POINT}.text\n{start}.section .note.GNU-stack, \"\", %progbits\n"))
        .unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(flags).args(["-nostdlib", "-Wl,-Bsymbolic", "-o"]).arg(case.path()).arg(&source);
    if !cfg!(target_arch = "x86_64") || !compiler.status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: a_linkers_file_has_the_probe_where_we_find_it: no C compiler for x86-64");
        return;
    }
    let offset = find(&case.path()).unwrap().expect("the file carries the probe") as usize;
    assert_eq!(fs::read(case.path()).unwrap()[offset..][..7], [0x90, 0x0f, 0x1f, 0x44, 0, 0, 0xc3]);
}
