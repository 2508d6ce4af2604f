//! What libguestscope.so promises to loaders, linkers and tracers, and that the probe point outlives the
//! linker's clean-up in a Rust program as well.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod library;

use std::{
    collections::BTreeSet,
    ffi::{CStr, c_char, c_void},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
};

use library::{injection, package, probes, shared_library};
use object::{Object, ObjectSection, ObjectSymbol, read::elf::ElfFile64};
use rstest::rstest;

fn bytes(library: &Path) -> Vec<u8> {
    std::fs::read(library).expect("just built")
}

/// The functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header =
        std::fs::read_to_string(package().join("include/guestscope.h")).expect("the header is there");
    let code = header.lines().filter(|line| line.ends_with(");") && !line.starts_with([' ', '*', '/']));
    let name = |line: &str| {
        let before = line.split('(').next().expect("split yields at least one part");
        before.split_whitespace().last().expect("a declaration has a name").to_owned()
    };
    code.map(name).collect()
}

fn injected() -> BTreeSet<String> {
    ["InitializeInjectionNvtx2", "__itt_api_init"].map(str::to_owned).into()
}

#[rstest]
#[case::marker(shared_library(), declared(), c"libguestscope.so.1")]
#[case::injection(injection(), injected(), c"libguestscope-inject.so")]
fn exports_what_is_declared_and_needs_nothing(
    #[case] library: PathBuf,
    #[case] exported: BTreeSet<String>,
    #[case] expected: &CStr,
) {
    let bytes = bytes(&library);
    let elf = ElfFile64::<object::Endianness>::parse(&*bytes).expect("an ELF file");
    let name = |symbol: object::read::elf::ElfSymbol64<'_, '_>| symbol.name().expect("UTF-8").to_owned();
    let defined = elf.dynamic_symbols().filter(ObjectSymbol::is_definition).map(name);
    assert_eq!(defined.collect::<BTreeSet<_>>(), exported);
    let from_any_libc = [
        "__tls_get_addr",
        "bcmp",
        "clock_gettime",
        "environ",
        "getenv",
        "memcmp",
        "memcpy",
        "memmove",
        "memset",
        "strlen",
    ];
    for symbol in elf.dynamic_symbols().filter(ObjectSymbol::is_undefined).map(name) {
        assert!(from_any_libc.contains(&symbol.as_str()), "{symbol}");
    }
    let dynamic = elf.section_by_name(".dynamic").expect("a shared library");
    let entries = dynamic.data().expect("in the file").chunks_exact(16);
    let long = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let entries: Vec<(u64, u64)> = entries.map(|entry| (long(&entry[..8]), long(&entry[8..]))).collect();
    let (needed, soname, version_needs) = (1, 14, 0x6fff_fffe);
    assert!(entries.iter().all(|(tag, _)| ![needed, version_needs].contains(tag)));
    let (_, at) = entries.iter().find(|(tag, _)| *tag == soname).expect("it has a name");
    let strings = elf.section_by_name(".dynstr").expect("a shared library").data().expect("in the file");
    let soname = CStr::from_bytes_until_nul(&strings[*at as usize..]).expect("NUL-terminated");
    assert_eq!(soname, expected);
}

#[rstest]
#[case::marker(shared_library())]
#[case::injection(injection())]
fn contains_no_panic(#[case] library: PathBuf) {
    // Every panic carries the path of its source file.
    assert!(!bytes(&library).windows(3).any(|window| window == b".rs"));
}

#[rstest]
#[case::marker(shared_library())]
#[case::injection(injection())]
fn has_one_probe_point_that_lies_in_one_page(#[case] library: PathBuf) {
    let [probe] = probes(&library)[..] else { panic!("one note") };
    assert_eq!(probe.address % 8, 0);
    // perf takes the one for the other, and would probe the middle of some instruction if they differed.
    assert_eq!(probe.address, probe.file_offset);
    assert_eq!(
        bytes(&library)[probe.file_offset as usize..][..7],
        [0x90, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3]
    );
}

#[rstest]
#[case::fat("\"fat\"", 1)]
#[case::thin("\"thin\"", 4)]
#[case::off("false", 16)]
fn rust_programs_keep_the_probe_point(#[case] lto: &str, #[case] codegen_units: u32) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let manifest = format!(
        "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
         [dependencies]\nguestscope-marker = {{ path = {:?} }}\n\
         [profile.release]\nlto = {lto}\ncodegen-units = {codegen_units}\nstrip = true\n",
        package()
    );
    std::fs::write(directory.path().join("Cargo.toml"), manifest).expect("writable");
    std::fs::create_dir(directory.path().join("src")).expect("writable");
    let source = "fn main() { drop(guestscope_marker::phase(\"x\")); }";
    std::fs::write(directory.path().join("src/main.rs"), source).expect("writable");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--release", "--offline", "--target-dir"])
        .arg(directory.path().join("target"));
    cargo.current_dir(directory.path()).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    assert!(cargo.status().expect("cargo starts").success());
    assert_eq!(probes(&directory.path().join("target/release/user")).len(), 1);
}

/// The library's functions, loaded as a program without it at link time would.
struct Loaded(*mut c_void);

impl Loaded {
    fn new(path: &Path) -> Self {
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("a path has no NUL");
        // SAFETY: the library runs no code when it is loaded.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        Self(handle)
    }

    fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the handle is open: the library is never unloaded.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!symbol.is_null());
        symbol
    }
}

#[rstest]
#[case::room_for_the_nul(56, 55)]
#[case::more_room(80, 55)]
#[case::no_room_for_the_nul(55, 0)]
#[case::no_room(0, 0)]
fn a_header_is_written_whole_or_not_at_all(#[case] room: usize, #[case] expected: usize) {
    let library = Loaded::new(&shared_library());
    // SAFETY: the types are those of guestscope.h.
    let (request, header, end) = unsafe {
        (
            std::mem::transmute::<*mut c_void, extern "C" fn(*const u8, usize, u64, u64) -> u64>(
                library.symbol(c"guestscope_request"),
            ),
            std::mem::transmute::<*mut c_void, extern "C" fn(u64, *mut c_char, usize) -> usize>(
                library.symbol(c"guestscope_traceparent"),
            ),
            std::mem::transmute::<*mut c_void, extern "C" fn(u64)>(library.symbol(c"guestscope_end")),
        )
    };
    let token = request(b"r".as_ptr(), 1, 1, 0);
    let mut out = [0x55_u8; 80];
    assert_eq!(header(token, out.as_mut_ptr().cast(), room), expected);
    assert!(
        out[if expected == 0 { 0 } else { 56 }..].iter().all(|byte| *byte == 0x55),
        "nothing beyond is touched"
    );
    if expected != 0 {
        let text = CStr::from_bytes_until_nul(&out).expect("NUL-terminated").to_str().expect("ASCII");
        assert_eq!((text.len(), &text[..3], &text[52..]), (55, "00-", "-01"));
    }
    assert_eq!(header(token, std::ptr::null_mut(), room), 0);
    end(token);
    assert_eq!(header(0, out.as_mut_ptr().cast(), 80), 0, "no request is open on this thread");
}
