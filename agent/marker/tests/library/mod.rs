//! Builds what the tests load: libguestscope.so by its own nested cargo build, C programs against it by `cc`.
//! Yields paths. It deliberately uses the very command that the agent's build uses, so that the tests see
//! what users get.
#![allow(dead_code, reason = "each test builds what it is about")]

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use object::{Object, ObjectSection, read::elf::ElfFile64};

/// Where the probe point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// Offset in the file.
    pub(crate) file_offset: u64,
    /// The note's address of the point, before the file is loaded anywhere.
    pub(crate) address: u64,
}

pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Builds one of the shared libraries; the directory that holds it.
fn build(crate_: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(crate_);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--release", "--locked", "--offline", "--target-dir"]).arg(&target);
    cargo.arg("--manifest-path").arg(package().join(crate_).join("Cargo.toml"));
    // A thread-local variable without std is an unstable feature of the compiler, whichever the toolchain.
    cargo.env("RUSTC_BOOTSTRAP", "1").env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    assert!(cargo.status().expect("cargo starts").success(), "{crate_} builds");
    target.join("release")
}

/// The directory that holds libguestscope.so and libguestscope.so.1; built once per test program.
pub(crate) fn directory() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let directory = build("cdylib");
        let link = directory.join("libguestscope.so.1");
        if let Err(error) = std::os::unix::fs::symlink("libguestscope.so", &link) {
            assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{}", link.display());
        }
        directory
    })
}

pub(crate) fn shared_library() -> PathBuf {
    directory().join("libguestscope.so")
}

/// libguestscope-inject.so; built once per test program.
pub(crate) fn injection() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || build("inject").join("libguestscope_inject.so");
    BUILT.get_or_init(build).clone()
}

/// Compiles tests/programs/injected.c; None where there is no such compiler.
pub(crate) fn injected_program(compiler: &str) -> Option<PathBuf> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let to = directory.join(format!("injected-{compiler}-{}-{number}", std::process::id()));
    let source = package().join("tests/programs/injected.c");
    let mut command = Command::new(compiler);
    command.args([
        "-std=gnu11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-cast-function-type",
        "-rdynamic",
    ]);
    let status = command.arg(source).args(["-ldl", "-lpthread", "-o"]).arg(&to).status().ok()?;
    assert!(status.success(), "injected.c compiles");
    Some(to)
}

/// Compiles a C program of tests/programs against header and library; None where there is no C compiler.
pub(crate) fn c_program(source: &str) -> Option<PathBuf> {
    /// Tests of one process run side by side, and each removes its program.
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}-{}-{number}", source.trim_end_matches(".c"), std::process::id());
    let to = directory().join(name);
    let mut rpath = std::ffi::OsString::from("-Wl,-rpath,");
    rpath.push(directory());
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(package().join("include"));
    compiler.arg(package().join("tests/programs").join(source)).arg("-L").arg(directory());
    compiler.args([OsStr::new("-lguestscope"), OsStr::new("-lpthread"), &rpath, OsStr::new("-o")]).arg(&to);
    let status = compiler.status().ok()?;
    assert!(status.success(), "{source} compiles");
    Some(to)
}

/// Reads the probe notes of an ELF file and checks what every tool relies on. Empty where the file has none.
pub(crate) fn probes(file: &Path) -> Vec<Probe> {
    let bytes = std::fs::read(file).expect("the file is readable");
    let elf = ElfFile64::<object::Endianness>::parse(&*bytes).expect("an ELF file");
    let Some(section) = elf.section_by_name(".note.stapsdt") else { return Vec::new() };
    let mut notes = section.data().expect("the section is in the file");
    let mut probes = Vec::new();
    while !notes.is_empty() {
        let word = |at: usize| u32::from_le_bytes(notes[at..at + 4].try_into().expect("four bytes")) as usize;
        let (name_bytes, descriptor_bytes) = (word(0), word(4));
        let descriptor_at = 12 + name_bytes.next_multiple_of(4);
        let descriptor = &notes[descriptor_at..descriptor_at + descriptor_bytes];
        let long = |at: usize| u64::from_le_bytes(descriptor[at..at + 8].try_into().expect("eight bytes"));
        let strings: Vec<_> =
            descriptor[24..].split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        if strings[..2] == ["guestscope", "edge"] {
            assert_eq!(strings[2], "8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8 8@%r9");
            assert_eq!(long(16), 0, "no semaphore");
            let base = elf.section_by_name(".stapsdt.base").expect("a note has its base section");
            assert_eq!(long(8), base.address(), "no tool has to correct the address");
            probes.push(Probe { file_offset: file_offset(&elf, long(0)), address: long(0) });
        }
        notes = &notes[(descriptor_at + descriptor_bytes).next_multiple_of(4)..];
    }
    probes
}

fn file_offset(elf: &ElfFile64<'_>, address: u64) -> u64 {
    use object::ObjectSegment;
    let segment = elf
        .segments()
        .find(|segment| (segment.address()..segment.address() + segment.size()).contains(&address));
    let segment = segment.expect("the probe is in a segment");
    address - segment.address() + segment.file_range().0
}
