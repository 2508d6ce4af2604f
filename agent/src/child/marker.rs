//! How a program will find the marker, as far as its command shows: whether by the loader, and whether Python
//! reads PYTHONPATH.
//!
//! Both are guesses from the command alone; scripts that start other programs are not followed.

use std::{ffi::OsString, io::BufReader, path::Path};

use object::{
    LittleEndian,
    read::{ReadRef as _, elf::SectionHeader as _},
};

use crate::{
    guarded,
    probes::phase::{Cache, Tables},
};

/// The soname as it stands in a program that is linked against it.
const SONAME: &[u8] = b"\0libguestscope.so.1\0";
/// Most bytes of names looked at: a large C++ library has so many.
const NAMES_BYTES: u64 = 8 << 20;
/// Python options that take a word, or the rest of their own.
const WITH_A_WORD: [char; 3] = ['W', 'X', 'Q'];
const LAST: [char; 2] = ['c', 'm'];

/// Whether a program is linked against the marker's shared library.
pub fn is_linked(program: &Path) -> bool {
    names_the_library(program).unwrap_or(false)
}

fn names_the_library(program: &Path) -> Option<bool> {
    let cache = Cache::new(BufReader::new(guarded::open_file(program).ok()?));
    let names = Tables::read(&cache)?.section(".dynstr")?;
    let (offset, bytes) = names.file_range(LittleEndian).filter(|range| range.1 <= NAMES_BYTES)?;
    let names = (&cache).read_bytes_at(offset, bytes).ok()?;
    Some(names.windows(SONAME.len()).any(|window| window == SONAME))
}

/// The Python option that keeps it from loading what stands beside it: `I` and `E` ignore the environment,
/// and with it the path of the module; `S` runs no `sitecustomize`.
pub fn option_against_marks(command: &[OsString]) -> Option<char> {
    let (program, arguments) = command.split_first()?;
    let name = Path::new(program).file_name()?.to_str()?;
    let version = name.strip_prefix("python")?;
    if !version.chars().all(|letter| letter.is_ascii_digit() || letter == '.') {
        return None;
    }
    let mut arguments = arguments.iter().map_while(|word| word.to_str());
    while let Some(options) = arguments.next().and_then(|word| word.strip_prefix('-')) {
        if options.is_empty() {
            return None;
        }
        if options.starts_with('-') {
            continue;
        }
        let mut letters = options.chars();
        while let Some(letter) = letters.next() {
            if matches!(letter, 'I' | 'E' | 'S') {
                return Some(letter);
            }
            if LAST.contains(&letter) {
                return None;
            }
            if WITH_A_WORD.contains(&letter) {
                // The value may stand in the same word.
                if letters.next().is_none() {
                    arguments.next();
                }
                break;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::isolated("python3 -I serve.py", Some('I'))]
    #[case::without_the_environment("/usr/bin/python3.11 -E serve.py", Some('E'))]
    #[case::without_site("python3 -uS serve.py", Some('S'))]
    #[case::among_others("python -sE -m serve", Some('E'))]
    #[case::behind_a_word("python3 -X dev -W ignore -I serve.py", Some('I'))]
    #[case::behind_one_in_the_same_word("python3 -Xdev -I serve.py", Some('I'))]
    #[case::behind_a_long_one("python3 --check-hash-based-pycs default", None)]
    #[case::the_scripts_own("python3 serve.py -I", None)]
    #[case::the_modules_own("python3 -m serve -I", None)]
    #[case::in_the_word_of_another("python3 -W Ignore serve.py", None)]
    #[case::part_of_the_code("python3 -cI", None)]
    #[case::from_the_input("python3 - -I", None)]
    #[case::another_program("pythonic -I", None)]
    #[case::nothing("", None)]
    fn options_against_marks_are_known(#[case] command: &str, #[case] expected: Option<char>) {
        let command: Vec<OsString> = command.split_whitespace().map(OsString::from).collect();
        assert_eq!(option_against_marks(&command), expected);
    }

    #[test]
    fn a_program_without_the_library_is_not_linked_and_what_is_no_program_neither() {
        let own = std::env::current_exe().expect("a running program has a path");
        for path in [own.as_path(), Path::new("/dev/null"), Path::new("/"), Path::new("/no/such/file")] {
            assert!(!is_linked(path), "{}", path.display());
        }
    }
}
