//! Tar files of pictures, as WebDataset keeps them: `KEY.jpg` beside `KEY.cls`, whose text is the class.
//! Yields the place of each file's content. It reads ustar and the long names of GNU tar and Python's
//! tarfile, and writes ustar.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt as _,
};

/// Headers and contents begin at multiples of this.
const BLOCK: u64 = 512;
/// Checksum field of a header; its own bytes count as blanks.
const SUM: std::ops::Range<usize> = 148..156;
/// Offset of the type flag: an ordinary file, a folder, a link, or a header about the next entry.
const KIND: usize = 156;
/// Longest header content about the next entry that is read: no path of Linux is nearly as long.
const MOST_NAME_BYTES: u64 = 64 << 10;

/// Damage of a tar file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TarError {
    #[error("ends inside a file")]
    Truncated,
    #[error("no tar header at byte {0}")]
    Header(u64),
    #[error("cannot be read: {0}")]
    Read(io::ErrorKind),
}

/// An entry of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name with its folder.
    pub name: String,
    /// Offset of its content.
    pub at: u64,
    /// Length of its content.
    pub bytes: u64,
    /// Whether it is an ordinary file; else a folder or a link.
    pub is_file: bool,
    /// Offset of the next header.
    pub next: u64,
}

/// The entry whose headers begin at `at`, named by the last of them; none at the end of a file of `size`
/// bytes.
pub fn entry_at(file: &File, mut at: u64, size: u64) -> Result<Option<Entry>, TarError> {
    let mut long_name = None;
    loop {
        let Some((kind, mut entry)) = header_at(file, at, size)? else { return Ok(None) };
        match kind {
            // PAX header. It may hold no name: Python writes one for each time that is not a whole number.
            b'x' => long_name = about_next(file, &entry)?.as_deref().and_then(pax_path).or(long_name),
            // GNU tar's long name.
            b'L' => long_name = about_next(file, &entry)?.as_deref().map(text).or(long_name),
            // Global PAX records and long link targets name no file.
            b'g' | b'K' => {}
            _ => {
                if let Some(name) = long_name {
                    entry.name = name;
                }
                return Ok(Some(entry));
            }
        }
        at = entry.next;
    }
}

/// Content of a header about the next entry; none if it is too long: then the next entry's own header has to
/// do.
fn about_next(file: &File, entry: &Entry) -> Result<Option<Vec<u8>>, TarError> {
    if entry.bytes > MOST_NAME_BYTES {
        return Ok(None);
    }
    let mut content = vec![0; entry.bytes as usize];
    file.read_exact_at(&mut content, entry.at).map_err(|error| TarError::Read(error.kind()))?;
    Ok(Some(content))
}

/// The last path among PAX records: each is its own length, a blank, `KEY=VALUE` and the end of the line.
fn pax_path(mut records: &[u8]) -> Option<String> {
    let mut path = None;
    while let Some(blank) = records.iter().position(|byte| *byte == b' ') {
        let bytes = std::str::from_utf8(&records[..blank]).ok().and_then(|text| text.parse::<usize>().ok());
        // After a wrong length the start of the next record is unknown.
        let Some(bytes) = bytes.filter(|bytes| (blank + 1..=records.len()).contains(bytes)) else { break };
        let (record, rest) = records.split_at(bytes);
        if let Some(value) = record[blank + 1..].strip_prefix(b"path=") {
            path = Some(String::from_utf8_lossy(value.strip_suffix(b"\n").unwrap_or(value)).into_owned());
        }
        records = rest;
    }
    // An empty path revokes an earlier one.
    path.filter(|path| !path.is_empty())
}

/// The header at `at` alone, with its type flag; none at the end of a file of `size` bytes.
fn header_at(file: &File, at: u64, size: u64) -> Result<Option<(u8, Entry)>, TarError> {
    // Two empty blocks end a tar file; one without them was cut between two files, which cannot be told from
    // a whole one.
    if at >= size {
        return Ok(None);
    }
    if size - at < BLOCK {
        return Err(TarError::Truncated);
    }
    let mut header = [0; BLOCK as usize];
    file.read_exact_at(&mut header, at).map_err(|error| TarError::Read(error.kind()))?;
    if header == [0; BLOCK as usize] {
        return Ok(None);
    }
    let sum: u64 = header
        .iter()
        .enumerate()
        .map(|(place, byte)| u64::from(if SUM.contains(&place) { b' ' } else { *byte }))
        .sum();
    let bytes = number(&header[124..136]).ok_or(TarError::Header(at))?;
    if number(&header[SUM]) != Some(sum) {
        return Err(TarError::Header(at));
    }
    let next = bytes.checked_next_multiple_of(BLOCK).and_then(|bytes| (at + BLOCK).checked_add(bytes));
    let next = next.ok_or(TarError::Header(at))?;
    // The last file may lack its padding.
    if size - at - BLOCK < bytes {
        return Err(TarError::Truncated);
    }
    let folder = if &header[257..262] == b"ustar" { text(&header[345..500]) } else { String::new() };
    let name = text(&header[..100]);
    let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
    let kind = header[KIND];
    Ok(Some((kind, Entry { name, at: at + BLOCK, bytes, is_file: matches!(kind, 0 | b'0'), next })))
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// Octal digits, or a binary number if the first bit is set.
fn number(field: &[u8]) -> Option<u64> {
    if let [first @ 0x80..=0xff, rest @ ..] = field {
        let first = u64::from(first & 0x7f);
        return rest
            .iter()
            .try_fold(first, |number, byte| number.checked_mul(256)?.checked_add(u64::from(*byte)));
    }
    let text = std::str::from_utf8(field).ok()?.trim_matches(|letter| letter == ' ' || letter == '\0');
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

/// Writes one file; its name has at most 100 bytes.
pub fn write(to: &mut impl Write, name: &str, content: &[u8]) -> io::Result<()> {
    to.write_all(&header(b'0', name, content.len() as u64))?;
    to.write_all(content)?;
    pad(to, content.len() as u64)
}

/// The header of content of that kind and length, less than 8 GiB.
pub fn header(kind: u8, name: &str, bytes: u64) -> [u8; BLOCK as usize] {
    let mut header = [0; BLOCK as usize];
    let name = name.as_bytes().get(..100).unwrap_or(name.as_bytes());
    header[..name.len()].copy_from_slice(name);
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    // Mode, owner, group, size and time: the same bytes for the same pictures.
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{bytes:011o}\0"));
    put(136, "00000000000\0");
    put(SUM.start, "        ");
    put(257, "ustar\x0000");
    header[KIND] = kind;
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    header[SUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// Ends a tar file.
pub fn finish(to: &mut impl Write) -> io::Result<()> {
    to.write_all(&[0; 2 * BLOCK as usize])
}

fn pad(to: &mut impl Write, bytes: u64) -> io::Result<()> {
    let rest = (bytes.next_multiple_of(BLOCK) - bytes) as usize;
    to.write_all(&[0; BLOCK as usize][..rest])
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write as _};

    use rstest::rstest;

    use super::{BLOCK, MOST_NAME_BYTES, TarError, entry_at, finish, header, number, pad, pax_path, write};

    fn tar() -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, "00000000.jpg", &[7; 700]).unwrap();
        write(&mut bytes, "00000000.cls", b"3").unwrap();
        finish(&mut bytes).unwrap();
        bytes
    }

    fn entries(bytes: &[u8]) -> Result<Vec<(String, u64)>, TarError> {
        let mut file: File = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let (mut at, mut found) = (0, Vec::new());
        while let Some(entry) = entry_at(&file, at, bytes.len() as u64)? {
            assert!(entry.is_file);
            found.push((entry.name, entry.bytes));
            at = entry.next;
        }
        Ok(found)
    }

    #[test]
    fn what_is_written_is_read() {
        let expected = [("00000000.jpg".to_owned(), 700), ("00000000.cls".to_owned(), 1)];
        assert_eq!(entries(&tar()).unwrap(), expected);
    }

    /// GNU tar reads what is written here.
    #[test]
    fn other_programs_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar");
        std::fs::write(&path, tar()).unwrap();
        let listed = std::process::Command::new("tar").arg("tf").arg(&path).output().unwrap();
        assert_eq!(String::from_utf8(listed.stdout).unwrap(), "00000000.jpg\n00000000.cls\n");
        // And its output is read here.
        std::fs::write(folder.path().join("x.jpg"), [1; 1000]).unwrap();
        let other = folder.path().join("b.tar");
        let status = std::process::Command::new("tar")
            .arg("cf")
            .arg(&other)
            .args(["--directory".as_ref(), folder.path().as_os_str(), "x.jpg".as_ref()])
            .status();
        assert!(status.unwrap().success());
        assert_eq!(entries(&std::fs::read(other).unwrap()).unwrap(), [("x.jpg".to_owned(), 1000)]);
    }

    /// A name longer than the header's field.
    #[rstest]
    #[case("gnu")]
    #[case("posix")]
    fn long_names_of_other_programs_are_read(#[case] format: &str) {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("{}.jpg", "n".repeat(200));
        std::fs::write(folder.path().join(&name), [1; 1000]).unwrap();
        let path = folder.path().join("a.tar");
        let status = std::process::Command::new("tar")
            .args(["--format", format, "--directory"])
            .arg(folder.path())
            .arg("--create")
            .arg("--file")
            .arg(&path)
            .arg(&name)
            .status();
        assert!(status.unwrap().success());
        assert_eq!(entries(&std::fs::read(path).unwrap()).unwrap(), [(name, 1000)]);
    }

    /// Name of the file `short` after a header of that kind with that content.
    fn name_behind(kind: u8, content: &[u8]) -> String {
        let mut bytes = header(kind, "././@PaxHeader", content.len() as u64).to_vec();
        bytes.extend_from_slice(content);
        pad(&mut bytes, content.len() as u64).unwrap();
        write(&mut bytes, "short", b"3").unwrap();
        finish(&mut bytes).unwrap();
        entries(&bytes).unwrap().remove(0).0
    }

    #[rstest]
    #[case(b'x', b"13 mtime=1.5\n12 path=a/b\n", "a/b")]
    #[case(b'x', b"13 mtime=1.5\n", "short")]
    #[case(b'L', b"a/b\0", "a/b")]
    #[case(b'K', b"a/b\0", "short")]
    #[case(b'g', b"12 path=a/b\n", "short")]
    fn headers_before_a_file_name_it(#[case] kind: u8, #[case] content: &[u8], #[case] expected: &str) {
        assert_eq!(name_behind(kind, content), expected);
    }

    #[test]
    fn names_that_are_too_long_are_passed_over() {
        let most = MOST_NAME_BYTES as usize;
        assert_eq!(name_behind(b'L', &vec![b'n'; most]).len(), most);
        assert_eq!(name_behind(b'L', &vec![b'n'; most + 1]), "short");
        // Five digits, a blank, `path=` and the line's end.
        let record = format!("{most} path={}\n", "n".repeat(most - 12));
        assert_eq!(name_behind(b'x', record.as_bytes()).len(), most - 12);
        assert_eq!(name_behind(b'x', format!("{record}\n").as_bytes()), "short");
    }

    #[rstest]
    #[case(b"12 path=a/b\n9 path=c\n", Some("c"))]
    #[case(b"12 path=a/b\n8 path=\n", None)]
    #[case(b"12 path=a/b\n99 path=c\n", Some("a/b"))]
    #[case(b"0 path=a\n", None)]
    #[case(b"1 path=a\n", None)]
    #[case(b"99999999999999999999999 path=a\n", None)]
    #[case(b"no length", None)]
    #[case(b"", None)]
    fn records_that_are_wrong_end_them(#[case] records: &[u8], #[case] expected: Option<&str>) {
        assert_eq!(pax_path(records).as_deref(), expected);
    }

    /// A header that ends the file names nothing.
    #[test]
    fn nothing_may_follow_a_header() {
        let bytes = header(b'x', "././@PaxHeader", 0);
        assert_eq!(bytes.len() as u64, BLOCK);
        assert_eq!(entries(&bytes), Ok(vec![]));
    }

    #[test]
    fn damage_is_noticed() {
        let whole = tar();
        let mut changed = whole.clone();
        changed[3] ^= 1;
        assert_eq!(entries(&changed), Err(TarError::Header(0)));
        assert_eq!(entries(&whole[..900]), Err(TarError::Truncated));
        assert_eq!(entries(&whole[..1600]), Err(TarError::Truncated));
    }

    #[test]
    fn large_sizes_are_binary() {
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0]), Some(3 << 32));
        assert_eq!(number(&[0xff; 12]), None);
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"what\0"), None);
    }
}
