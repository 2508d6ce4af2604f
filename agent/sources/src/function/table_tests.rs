//! Tables in files that a test makes: found, refused, and never a panic, whatever the bytes.

use std::{hint::black_box, io::Write as _};

use proptest::{collection::vec, prelude::*};
use rstest::rstest;

use super::*;

static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libguestscope.so"));
const HERE: &str = "guestscope_sources::function::table::tests::";

type Entry = extern "C" fn(u32) -> u32;

struct Base {
    get: extern "C" fn(u32) -> Option<&'static [Entry; 3]>,
    version: extern "C" fn(u32) -> u32,
}

static ENTRIES: [Entry; 3] = [first, second, third];
static BASE: Base = Base { get, version: first };

#[inline(never)]
extern "C" fn first(number: u32) -> u32 {
    black_box(number) + 1
}

#[inline(never)]
extern "C" fn second(number: u32) -> u32 {
    black_box(number) + 2
}

#[inline(never)]
extern "C" fn third(number: u32) -> u32 {
    black_box(number) + 3
}

#[inline(never)]
extern "C" fn base() -> &'static Base {
    &BASE
}

#[inline(never)]
extern "C" fn get(version: u32) -> Option<&'static [Entry; 3]> {
    (1..=black_box(9)).contains(&version).then_some(&ENTRIES)
}

fn own() -> File {
    File::open("/proc/self/exe").expect("it runs")
}

fn behind(file: &File, text: &str) -> Result<Found, TableError> {
    find(file, &Way::parse(text).expect("it is a way"))
}

#[test]
fn an_entry_is_the_function_that_a_call_of_it_reaches() {
    let table = (black_box(base as extern "C" fn() -> &'static Base)().get)(1).expect("of this version");
    assert_eq!(table[1](5) + (BASE.version)(0), 8);
    let found = behind(&own(), &format!("{HERE}base()[0]()[1]")).unwrap();
    let named = symbols::find(&own(), &format!("{HERE}second")).unwrap();
    assert_eq!(
        (found.address, found.offset, found.bytes),
        (named[0].address, named[0].offset, named[0].bytes)
    );
    assert_eq!(found.name.stored(), format!("{HERE}base()[0]()[1]"));
}

#[rstest]
#[case::behind_the_end("base()[9]", "has no table of 10 functions that ")]
#[case::of_a_function_without_one("second()[0]", "has no table of 1 functions that ")]
#[case::not_there("nothing()[0]", "has no function of that name")]
fn what_is_not_behind_a_table_is_said(#[case] way: &str, #[case] expected: &str) {
    let error = behind(&own(), &format!("{HERE}{way}")).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[rstest]
#[case("get()[9]", Some(("get", vec![9])))]
#[case("get()[0]()[4095]", Some(("get", vec![0, 4095])))]
#[case("get", None)]
#[case("get()[4096]", None)]
#[case("get()[-1]", None)]
#[case("get()[1", None)]
#[case("g*()[1]", None)]
#[case("()[1]", None)]
fn a_way_is_read(#[case] text: &str, #[case] expected: Option<(&str, Vec<u32>)>) {
    let read = Way::parse(text);
    assert_eq!(read.as_ref().map(|way| (way.exported, way.entries.clone())), expected);
    assert!(read.is_none_or(|way| way.until(way.entries.len()) == text));
}

#[rstest]
// endbr64; lea rax,[rip+0x10]; ret
#[case::at_once(&[0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8d, 0x05, 0x15, 0, 0, 0, 0xc3], &[0x1020])]
// lea rdx,[rip+2]: an odd address; the same one twice
#[case::of_two(&[0x48, 0x8d, 0x15, 2, 0, 0, 0, 0x48, 0x8d, 0x05, 0x12, 0, 0, 0, 0x48, 0x8d, 0x0d, 0x0b, 0, 0, 0], &[0x1020])]
// mov rax,[rip+0x11]: what lies there, not where
#[case::loads(&[0x48, 0x8b, 0x05, 0x11, 0, 0, 0, 0xc3], &[])]
fn code_mentions_addresses(#[case] code: &[u8], #[case] expected: &[u64]) {
    assert_eq!(mentioned_x86_64(code, 0x1000), expected);
}

#[rstest]
// adrp x0, 2 pages on; add x0, x0, #0x18
#[case::forwards(&[0xd000_0000, 0x9100_6000], &[0x3018])]
// adrp x1, a page back; nop; add x0, x1, #0x8
#[case::backwards(&[0xf0ff_ffe1, 0xd503_201f, 0x9100_2020], &[0x8])]
#[case::no_page(&[0x9100_2020], &[])]
fn arm64_code_mentions_addresses(#[case] words: &[u32], #[case] expected: &[u64]) {
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(mentioned_arm64(&code, 0x1004), expected);
}

proptest! {
    #[test]
    fn code_may_be_anything(code in vec(any::<u8>(), 0..300), address in any::<u64>()) {
        prop_assert!(mentioned_x86_64(&code, address).len() <= MOST_MENTIONED);
        prop_assert!(mentioned_arm64(&code, address).len() <= MOST_MENTIONED);
    }

    #[test]
    fn a_way_may_be_anything(text in "[a-z]{0,3}(\\(\\)\\[[-0-9+]{0,6}\\]?){0,7}") {
        prop_assert!(Way::parse(&text).is_none_or(|way| way.entries.len() <= MOST_STEPS));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_file_may_hold_anything(changes in vec((any::<usize>(), any::<u8>()), 1..40), header in any::<bool>()) {
        let mut bytes = LIBRARY.to_vec();
        let length = if header { 64 } else { bytes.len() };
        for (at, byte) in changes {
            bytes[at % length] = byte;
        }
        let mut file = tempfile::tempfile().expect("a file can be made");
        file.write_all(&bytes).expect("it is ours");
        let _ = behind(&file, "guestscope_begin()[0]()[1]");
    }
}
