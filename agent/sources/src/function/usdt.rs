//! USDT probes of an ELF file, by its notes (format: SystemTap's UserSpaceProbeImplementation): two of them
//! make a phase.
//!
//! The file may be anybody's: notes are read up to a size, and sites up to a number.

use std::fs::File;

use guestscope_contract::calls::{Argument, ArgumentKind};
use object::{LittleEndian, ReadRef as _, read::elf::SectionHeader as _};

use super::{error::ProbesError, found::MOST_FUNCTIONS, place::Place};
use crate::{
    loader::functions::{Carrier, Spot},
    probes::phase::{self, Tables},
    untrusted::Untrusted,
};

/// Most bytes of notes: libjvm, which has the most, has 200 kB.
const MOST_NOTES: u64 = 4 << 20;
/// Last words of a pair of names: the first probe's, and those of a matching end.
const PAIRS: [(&str, &[&str]); 4] = [
    ("start", &["done", "end", "stop", "finish", "complete"]),
    ("begin", &["end", "done", "finish"]),
    ("entry", &["return", "exit"]),
    ("enter", &["exit", "leave", "return"]),
];
/// Separators between a pair's common name and these words.
const JOINTS: [&str; 2] = ["__", "_"];

/// One site of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Site {
    provider: String,
    name: String,
    spot: Spot,
    arguments: String,
}

/// The phase between two probes. If only one name is given, the other one follows from its last word.
pub(super) fn find(
    file: &File,
    provider: &str,
    begin: &str,
    end: Option<&str>,
    argument: Option<u8>,
) -> Result<Vec<Place>, ProbesError> {
    let sites = sites(file)?;
    let of = |name: &str| -> Vec<&Site> {
        sites.iter().filter(|site| site.provider == provider && site.name == name).collect()
    };
    let (begins, ends) = match end {
        Some(end) => (of(begin), of(end)),
        None => pair(begin, &of),
    };
    for (sites, name) in [(&begins, begin), (&ends, end.unwrap_or(begin))] {
        if sites.len() > MOST_FUNCTIONS {
            return Err(ProbesError::TooMany(name.to_owned()));
        }
    }
    if begins.is_empty() || (ends.is_empty() && end.is_some()) {
        let missing = if begins.is_empty() { begin } else { end.unwrap_or(begin) };
        let near = near(&sites, provider, missing);
        return Err(ProbesError::NotThere(provider.to_owned(), missing.to_owned(), near));
    }
    if ends.is_empty() {
        return Err(ProbesError::NoEnd(begin.to_owned()));
    }
    // Each site has its arguments elsewhere.
    let mut places: Vec<Place> = Vec::new();
    for site in &begins {
        let found = match argument {
            Some(number) => operand(&site.arguments, number).ok_or(ProbesError::NoArgument(number))?,
            None => Argument::default(),
        };
        match places.iter_mut().find(|place| place.argument == found) {
            Some(place) => place.begins.push(site.spot),
            None => places.push(Place {
                name: Untrusted::from(format!("{}:{}", site.provider, site.name)),
                begins: vec![site.spot],
                ends: Vec::new(),
                on: Carrier::Place,
                argument: found,
            }),
        }
    }
    for place in &mut places {
        place.ends = ends.iter().map(|site| site.spot).collect();
    }
    Ok(places)
}

/// The two probes with this common name, or the one with this name and its counterpart.
fn pair<'a>(name: &str, of: &impl Fn(&str) -> Vec<&'a Site>) -> (Vec<&'a Site>, Vec<&'a Site>) {
    for joint in JOINTS {
        for (word, ends) in PAIRS {
            let whole = format!("{name}{joint}{word}");
            let base = name.strip_suffix(word).and_then(|rest| rest.strip_suffix(joint));
            let (begin, base) = match base {
                Some(base) => (name, base),
                None => (whole.as_str(), name),
            };
            let begins = of(begin);
            if begins.is_empty() {
                continue;
            }
            let ends =
                ends.iter().map(|end| of(&format!("{base}{joint}{end}"))).find(|ends| !ends.is_empty());
            if let Some(ends) = ends {
                return (begins, ends);
            }
        }
    }
    (of(name), Vec::new())
}

/// Names of the provider's probes most like this one.
fn near(sites: &[Site], provider: &str, wanted: &str) -> Untrusted {
    let mut names: Vec<(f64, String)> = sites
        .iter()
        .map(|site| {
            let full = format!("{}:{}", site.provider, site.name);
            (strsim::jaro_winkler(&format!("{provider}:{wanted}"), &full), full)
        })
        .collect();
    names.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    names.dedup();
    let names: Vec<String> = names.into_iter().take(3).map(|(_, name)| name).collect();
    let text = if names.is_empty() { String::new() } else { format!("; nearest: {}", names.join(", ")) };
    Untrusted::from(text)
}

fn sites(file: &File) -> Result<Vec<Site>, ProbesError> {
    let cache = phase::cache(file).map_err(|error| ProbesError::Read(error.kind()))?;
    let tables = Tables::read(&cache).ok_or(ProbesError::NotElf)?;
    let section = tables.section(".note.stapsdt").ok_or(ProbesError::None)?;
    let (offset, bytes) = section.file_range(LittleEndian).ok_or(ProbesError::None)?;
    if bytes > MOST_NOTES {
        return Err(ProbesError::TooLarge);
    }
    let notes = (&cache).read_bytes_at(offset, bytes).map_err(|()| ProbesError::Damaged)?;
    let base = tables.section(".stapsdt.base").map(|section| section.sh_addr.get(LittleEndian));
    Ok(parse(notes, base, |address| tables.offset_of(address)))
}

/// Sites by the notes, as far as they are valid. A tool that moved the sections leaves addresses at the same
/// distance from `base`.
fn parse(mut notes: &[u8], base: Option<u64>, offset_of: impl Fn(u64) -> Option<u64>) -> Vec<Site> {
    let mut sites = Vec::new();
    while let Some((body, rest)) = split_note(notes) {
        notes = rest;
        sites.extend(site(body, base, &offset_of));
    }
    sites
}

fn split_note(notes: &[u8]) -> Option<(&[u8], &[u8])> {
    let word = |at: usize| Some(u32::from_le_bytes(notes.get(at..at + 4)?.try_into().ok()?) as usize);
    let owner = word(0)?.checked_next_multiple_of(4)?;
    let bytes = word(4)?;
    let description = notes.get(12_usize.checked_add(owner)?..)?;
    let body = description.get(..bytes)?;
    Some((body, description.get(bytes.checked_next_multiple_of(4)?..).unwrap_or_default()))
}

fn site(body: &[u8], base: Option<u64>, offset_of: &impl Fn(u64) -> Option<u64>) -> Option<Site> {
    let long = |at: usize| Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?));
    let moved = match (base, long(8)?) {
        (Some(base), noted) if noted != 0 => base.wrapping_sub(noted),
        _ => 0,
    };
    let mut texts = body.get(24..)?.split(|byte| *byte == 0).map(std::str::from_utf8);
    let mut text = || texts.next()?.ok().map(str::to_owned);
    let (provider, name, arguments) = (text()?, text()?, text()?);
    let semaphore = match long(16)? {
        0 => 0,
        address => u32::try_from(offset_of(address.wrapping_add(moved))?).ok()?,
    };
    let offset = offset_of(long(0)?.wrapping_add(moved))?;
    Some(Site { provider, name, spot: Spot { offset, semaphore, ..Spot::default() }, arguments })
}

/// Argument `number` (1 for the first) of a note's list: `8@%rdi -4@$7 8@-16(%rbp)`.
fn operand(arguments: &str, number: u8) -> Option<Argument> {
    let text = arguments.split(' ').nth(usize::from(number).checked_sub(1)?)?;
    let (size, operand) = text.split_once('@')?;
    let size: i32 = size.parse().ok()?;
    let bytes = size.unsigned_abs();
    if ![1, 2, 4, 8].contains(&bytes) {
        return None;
    }
    let argument = |kind: ArgumentKind, register: u32, value: i64| Argument {
        kind: kind as u32,
        register,
        value: value.cast_unsigned(),
        bytes,
        signed: u32::from(size < 0),
    };
    if let Some(constant) = operand.strip_prefix('$') {
        return Some(argument(ArgumentKind::Constant, 0, constant.parse().ok()?));
    }
    if let Some(name) = operand.strip_prefix('%') {
        return Some(argument(ArgumentKind::Register, register(name)?, 0));
    }
    let (distance, name) = operand.strip_suffix(')')?.split_once("(%")?;
    let distance = if distance.is_empty() { 0 } else { distance.parse().ok()? };
    Some(argument(ArgumentKind::Memory, register(name)?, distance))
}

/// Offset of a register of x86-64, or of the lower part of one, in its `pt_regs`.
fn register(name: &str) -> Option<u32> {
    const NAMES: [(&str, u32); 8] =
        [("bp", 32), ("bx", 40), ("ax", 80), ("cx", 88), ("dx", 96), ("si", 104), ("di", 112), ("sp", 152)];
    if cfg!(not(target_arch = "x86_64")) {
        return None;
    }
    if let Some(number) = name.strip_prefix('r').map(|rest| rest.trim_end_matches(['d', 'w', 'b']))
        && let Ok(number @ 8..=15) = number.parse::<u32>()
    {
        return Some(if number < 12 { 72 - (number - 8) * 8 } else { 24 - (number - 12) * 8 });
    }
    let whole = name.strip_prefix(['r', 'e']).unwrap_or(name);
    let low = whole.strip_suffix('l').filter(|low| low.len() == 1).map(|low| format!("{low}x"));
    let whole = low.as_deref().or_else(|| whole.strip_suffix('l')).unwrap_or(whole);
    NAMES.iter().find(|(known, _)| *known == whole).map(|(_, offset)| *offset)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("8@%rdi", 1, Some((ArgumentKind::Register, 112, 0, 8, 0)))]
    #[case("8@%rdi -4@%r12d", 2, Some((ArgumentKind::Register, 24, 0, 4, 1)))]
    #[case("2@%r8w", 1, Some((ArgumentKind::Register, 72, 0, 2, 0)))]
    #[case("4@%r11d", 1, Some((ArgumentKind::Register, 48, 0, 4, 0)))]
    #[case("4@%eax", 1, Some((ArgumentKind::Register, 80, 0, 4, 0)))]
    #[case("1@%al", 1, Some((ArgumentKind::Register, 80, 0, 1, 0)))]
    #[case("1@%sil", 1, Some((ArgumentKind::Register, 104, 0, 1, 0)))]
    #[case("-4@$-7", 1, Some((ArgumentKind::Constant, 0, -7, 4, 1)))]
    #[case("8@-16(%rbp)", 1, Some((ArgumentKind::Memory, 32, -16, 8, 0)))]
    #[case("8@(%rsp)", 1, Some((ArgumentKind::Memory, 152, 0, 8, 0)))]
    #[case::index("8@8(%rax,%rbx,4)", 1, None)]
    #[case::high("1@%ah", 1, None)]
    #[case::none("8@%rdi", 2, None)]
    #[case::vector("16@%xmm0", 1, None)]
    #[case::damaged("@", 1, None)]
    fn arguments_are_found(
        #[case] text: &str,
        #[case] number: u8,
        #[case] expected: Option<(ArgumentKind, u32, i64, u32, u32)>,
    ) {
        let expected = expected.map(|(kind, register, value, bytes, signed)| Argument {
            kind: kind as u32,
            register,
            value: value.cast_unsigned(),
            bytes,
            signed,
        });
        assert_eq!(operand(text, number), expected);
    }

    #[rstest]
    #[case("gc", Some(("gc__start", "gc__done")))]
    #[case("gc__start", Some(("gc__start", "gc__done")))]
    #[case("function", Some(("function__entry", "function__return")))]
    #[case("function__entry", Some(("function__entry", "function__return")))]
    #[case("request_begin", Some(("request_begin", "request_end")))]
    #[case("audit", None)]
    #[case("nonsense", None)]
    fn a_begin_has_its_end(#[case] name: &str, #[case] expected: Option<(&str, &str)>) {
        let names = [
            "gc__start",
            "gc__done",
            "function__entry",
            "function__return",
            "request_begin",
            "request_end",
            "audit",
        ];
        let sites = names.map(|name| Site {
            provider: String::new(),
            name: name.to_owned(),
            spot: Spot::default(),
            arguments: String::new(),
        });
        let of = |name: &str| sites.iter().filter(|site| site.name == name).collect::<Vec<_>>();
        let (begins, ends) = pair(name, &of);
        let found =
            begins.first().zip(ends.first()).map(|(begin, end)| (begin.name.as_str(), end.name.as_str()));
        assert_eq!(found, expected);
    }

    proptest! {
        #[test]
        fn notes_may_be_anything(notes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&notes, Some(7), Some);
        }

        #[test]
        fn arguments_may_be_anything(text in "[-0-9@%$() a-z,]{0,40}", number in 0..8_u8) {
            let _ = operand(&text, number);
        }
    }
}
