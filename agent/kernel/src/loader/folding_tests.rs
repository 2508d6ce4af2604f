//! Programs in a notation of their own, before and after; and random ones, which an interpreter runs both
//! ways.

use proptest::{collection::vec, prelude::*};

use super::*;

const EXIT_ONE: [u8; 8] = [EXIT, 0, 0, 0, 0, 0, 0, 0];

/// An instruction by code, registers (target, source), offset and number.
fn one(code: u8, target: u8, source: u8, offset: i16, number: i32) -> [u8; 8] {
    let ([low, high], [a, b, c, d]) = (offset.to_le_bytes(), number.to_le_bytes());
    [code, source << 4 | target, low, high, a, b, c, d]
}

/// The instructions of a line such as `r1 = &8; r2 = u32 r1 + 4; if r2 == 0 +1; exit`, each after a
/// semicolon; and its addresses.
fn program(text: &str) -> (Vec<u8>, Vec<Address>) {
    let (mut code, mut addresses) = (Vec::new(), Vec::new());
    let number = |word: &str| -> i32 { word.trim_start_matches('+').parse().expect("a number") };
    let register = |word: &str| word.trim_start_matches(['r', 'w']).parse::<u8>().expect("a register");
    for line in text.split(';').map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let all = match words[..] {
            [target, "=", global] if global.starts_with('&') => {
                addresses.push(Address { at: code.len(), symbol: number(&global[1..]) as usize });
                vec![one(LOAD_ADDRESS, register(target), 0, 0, 0), [0; 8]]
            }
            [target, "=", size, source, offset] => {
                let code = match size {
                    "u32" => 0x61,
                    "u64" => 0x79,
                    _ => 0x71,
                };
                vec![one(code, register(target), register(source), number(offset) as i16, 0)]
            }
            [target, "=", source] if source.starts_with('r') => {
                vec![one(COPY_64, register(target), register(source), 0, 0)]
            }
            [target, "=", value] => {
                let code = if target.starts_with('w') { CONSTANT_32 } else { CONSTANT_64 };
                vec![one(code, register(target), 0, 0, number(value))]
            }
            [target, "+=", source] => vec![one(0x0f, register(target), register(source), 0, 0)],
            ["if", target, relation, value, offset] => {
                let code = if relation == "==" { 0x15 } else { 0x55 };
                vec![one(code, register(target), 0, number(offset) as i16, number(value))]
            }
            ["goto", offset] => vec![one(0x05, 0, 0, number(offset) as i16, 0)],
            ["lock", target, "+=", source] => vec![one(0xdb, register(target), register(source), 0, 0)],
            ["call"] => vec![one(0x85, 0, 0, 0, 1)],
            ["exit"] => vec![EXIT_ONE],
            ["-"] => vec![NOTHING],
            _ => panic!("no instruction: {line}"),
        };
        code.extend(all.concat());
    }
    (code, addresses)
}

/// Global 0 is 0, global 4 is 7, global 8 is a word that fits into no constant, and global 16 is a small one.
fn rodata() -> Vec<u8> {
    [0_u32.to_le_bytes(), 7_u32.to_le_bytes(), [0xff; 4], [0xff; 4], [9, 0, 0, 0], [0; 4]].concat()
}

/// The first address is never taken out, so that relocations have a model.
#[rstest::rstest]
#[case::a_load("r1 = &0; r2 = &4; r2 = u32 r2 +0; exit", "r1 = &0; -; -; w2 = 7; exit")]
#[case::a_member("r1 = &0; r2 = &0; r2 = u32 r2 +4; exit", "r1 = &0; -; -; w2 = 7; exit")]
#[case::a_byte("r1 = &0; r2 = &4; r2 = u8 r2 +0; exit", "r1 = &0; -; -; w2 = 7; exit")]
#[case::a_word("r1 = &0; r2 = &16; r2 = u64 r2 +0; exit", "r1 = &0; -; -; r2 = 9; exit")]
#[case::a_word_that_does_not_fit(
    "r1 = &0; r2 = &8; r2 = u64 r2 +0; exit",
    "r1 = &0; r2 = &8; r2 = u64 r2 +0; exit"
)]
#[case::outside("r1 = &0; r2 = &16; r2 = u64 r2 +8; exit", "r1 = &0; r2 = &16; r2 = u64 r2 +8; exit")]
#[case::the_address_is_used_twice(
    "r1 = &0; r3 = &4; r2 = u32 r3 +0; r4 = u32 r3 +0; r3 = 1; exit",
    "r1 = &0; -; -; w2 = 7; w4 = 7; r3 = 1; exit"
)]
#[case::the_address_is_kept(
    "r1 = &0; r3 = &4; r2 = u32 r3 +0; r4 = r3; r3 = 1; exit",
    "r1 = &0; r3 = &4; w2 = 7; r4 = r3; r3 = 1; exit"
)]
#[case::the_address_may_live_on("r1 = &0; r3 = &4; r2 = u32 r3 +0; exit", "r1 = &0; r3 = &4; w2 = 7; exit")]
#[case::a_jump_to_the_load(
    "r1 = &0; r2 = &4; if r1 == 0 +2; r2 = &0; r2 = u32 r2 +0; exit",
    "r1 = &0; r2 = &4; if r1 == 0 +2; r2 = &0; r2 = u32 r2 +0; exit"
)]
#[case::a_call_between(
    "r1 = &0; r2 = &4; call; r2 = u32 r2 +0; exit",
    "r1 = &0; r2 = &4; call; r2 = u32 r2 +0; exit"
)]
#[case::an_atomic_operation_between(
    "r1 = &0; r3 = &4; lock r5 += r4; r2 = u32 r3 +0; r3 = 1; exit",
    "r1 = &0; r3 = &4; lock r5 += r4; r2 = u32 r3 +0; r3 = 1; exit"
)]
#[case::the_second_half_of_an_address_writes_nothing(
    "r1 = &0; r0 = &4; r3 = &4; r4 = u32 r0 +0; r0 = r3; exit",
    "r1 = &0; -; -; r3 = &4; w4 = 7; r0 = r3; exit"
)]
#[case::a_branch_that_is_never_taken(
    "r1 = &0; r2 = &4; r2 = u32 r2 +0; if r2 == 0 +2; if r3 == 0 +1; r4 = 1; exit",
    "r1 = &0; -; -; w2 = 7; -; if r3 == 0 +1; r4 = 1; exit"
)]
#[case::a_branch_that_is_always_taken(
    "r1 = &0; r2 = &4; if r3 == 0 +2; r2 = u32 r2 +0; if r2 != 0 +1; r4 = 1; exit",
    "r1 = &0; r2 = &4; if r3 == 0 +2; r2 = u32 r2 +0; if r2 != 0 +1; r4 = 1; exit"
)]
#[case::a_branch_to_code_that_nothing_else_leads_to(
    "r1 = &0; r2 = &4; r2 = u32 r2 +0; if r2 == 0 +1; exit; r4 = 1; exit",
    "r1 = &0; -; -; w2 = 7; if r2 == 0 +1; exit; r4 = 1; exit"
)]
#[case::a_branch_over_code_that_is_reached_otherwise(
    "r1 = &0; if r3 == 0 +4; r2 = &4; r2 = u32 r2 +0; if r2 != 0 +1; r4 = 1; exit",
    "r1 = &0; if r3 == 0 +4; -; -; w2 = 7; goto +1; r4 = 1; exit"
)]
fn only_what_is_known_is_folded(#[case] before: &str, #[case] after: &str) {
    let (mut code, addresses) = program(before);
    fold(&mut code, &addresses, &[0], &rodata());
    assert_eq!(code.as_chunks::<8>().0, program(after).0.as_chunks::<8>().0, "{before}");
}

/// Where globals lie when a test program runs.
const BASE: u64 = 1 << 40;

/// The registers at the end; jumps lead ahead, so there is one.
fn run(code: &[u8], addresses: &[Address], first: u64) -> [u64; 11] {
    let (rodata, mut registers, mut at) = (rodata(), [first; 11], 0);
    loop {
        let one = One(*code[at * 8..].first_chunk().expect("an end"));
        let (target, source) = (usize::from(one.target()), usize::from(one.source()));
        let value = i64::from(one.number()).cast_unsigned();
        match one.code() {
            LOAD_ADDRESS => {
                let address = addresses.iter().find(|address| address.at == at * 8).expect("it has one");
                registers[target] = BASE + address.symbol as u64;
            }
            CONSTANT_32 => registers[target] = value & 0xffff_ffff,
            CONSTANT_64 => registers[target] = value,
            COPY_64 => registers[target] = registers[source],
            0x0f => registers[target] = registers[target].wrapping_add(registers[source]),
            0x61 | 0x71 | 0x79 => {
                let from = registers[source].wrapping_sub(BASE).wrapping_add(one.offset() as u64);
                let bytes = LOADS.iter().find(|(code, _)| *code == one.code()).expect("a load").1;
                let read = rodata.get(from as usize..(from as usize).saturating_add(bytes));
                // What lies elsewhere is known by nobody: a number that depends on the address alone.
                registers[target] = read.map_or(registers[source] ^ 0x5555, |read| {
                    read.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
                });
            }
            EXIT => return registers,
            _ => {
                let is_taken = !one.is_conditional() || one.jumps_with(registers[target]) == Some(true);
                at = if is_taken { at.wrapping_add_signed(isize::from(one.offset())) } else { at };
            }
        }
        at += one.slots();
    }
}

/// One instruction of a random program; jumps go over up to three instructions.
fn random() -> impl Strategy<Value = String> {
    let register = || 0..5_u8;
    prop_oneof![
        3 => (register(), prop::sample::select(vec![0, 4, 8, 16])).prop_map(|(r, at)| format!("r{r} = &{at}")),
        4 => (register(), register(), prop::sample::select(vec!["u32", "u64", "u8"]), 0..8)
            .prop_map(|(r, s, size, at)| format!("r{r} = {size} r{s} +{at}")),
        1 => (register(), -2..9_i32).prop_map(|(r, value)| format!("r{r} = {value}")),
        1 => (register(), register()).prop_map(|(r, s)| format!("r{r} = r{s}")),
        1 => (register(), register()).prop_map(|(r, s)| format!("r{r} += r{s}")),
        3 => (register(), any::<bool>(), prop::sample::select(vec![0, 7, 9, 1]), 0..4_u8).prop_map(
            |(r, is_equal, value, over)| format!("if r{r} {} {value} +{over}", if is_equal { "==" } else { "!=" })
        ),
    ]
}

/// Jumps into the second half of an address are no programs.
fn is_program(code: &[u8]) -> bool {
    let program = Program::of(code);
    let places = program.places();
    (0..program.all.len()).all(|at| program.jumps[at] == 0 || places.contains(&at))
}

proptest! {
    /// A folded program does what it did, and the verifier finds a way to each of its instructions.
    #[test]
    fn a_folded_program_does_the_same(lines in vec(random(), 1..24), first in prop_oneof![0..9_u64, any::<u64>()]) {
        let (mut code, _) = program("exit; exit; exit; exit");
        let (before, addresses) = program(&lines.join(";"));
        code.splice(..0, before);
        prop_assume!(is_program(&code));
        let before = code.clone();
        let gone = fold(&mut code, &addresses, &[0], &rodata());
        prop_assert_eq!(run(&before, &addresses, first), run(&code, &addresses, first));
        let reachable = |code: &[u8]| Program::of(code).is_reachable(&[0]);
        prop_assert!(reachable(&code) || !reachable(&before));
        prop_assert!(gone.len() < addresses.len().max(1));
    }
}
