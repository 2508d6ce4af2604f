//! Tar files of pictures, as WebDataset keeps them: `KEY.jpg` beside `KEY.cls`, whose text is the class. Yields where each
//! file's content lies. It reads ustar and what GNU tar and Python's tarfile write, passes over their long-name headers, and
//! writes ustar.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt as _,
};

/// Headers and contents begin at multiples of this.
const BLOCK: u64 = 512;
/// Where a header has the sum of its bytes, for which these count as blanks.
const SUM: std::ops::Range<usize> = 148..156;

/// What a tar file can be damaged in.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TarError {
    #[error("ends inside a file")]
    Truncated,
    #[error("no tar header at byte {0}")]
    Header(u64),
    #[error("cannot be read: {0}")]
    Read(io::ErrorKind),
}

/// A file in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// With its folder.
    pub name: String,
    /// Where its content begins.
    pub at: u64,
    /// Of its content.
    pub bytes: u64,
    /// Whether it is an ordinary file; else a folder, a link or a header for what follows.
    pub is_file: bool,
    /// Where the next header is.
    pub next: u64,
}

/// The header at `at`; none at the end of a file of `size` bytes.
pub fn entry_at(file: &File, at: u64, size: u64) -> Result<Option<Entry>, TarError> {
    // Two empty blocks end it; one that ends without them was cut between two files, and lacks nothing that one can know.
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
    // Of the last file the padding may be missing.
    if size - at - BLOCK < bytes {
        return Err(TarError::Truncated);
    }
    let folder = if &header[257..262] == b"ustar" { text(&header[345..500]) } else { String::new() };
    let name = text(&header[..100]);
    let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
    Ok(Some(Entry { name, at: at + BLOCK, bytes, is_file: matches!(header[156], 0 | b'0'), next }))
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// Octal digits, or where the first bit is set a binary number.
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
    let mut header = [0; BLOCK as usize];
    let name = name.as_bytes().get(..100).unwrap_or(name.as_bytes());
    header[..name.len()].copy_from_slice(name);
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    // Mode, owner, group, size and time: the same bytes for the same pictures.
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", content.len()));
    put(136, "00000000000\0");
    put(SUM.start, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    header[SUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    to.write_all(&header)?;
    to.write_all(content)?;
    pad(to, content.len() as u64)
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

    use super::{TarError, entry_at, finish, number, write};

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

    /// Read by a program that everyone has.
    #[test]
    fn other_programs_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar");
        std::fs::write(&path, tar()).unwrap();
        let listed = std::process::Command::new("tar").arg("tf").arg(&path).output().unwrap();
        assert_eq!(String::from_utf8(listed.stdout).unwrap(), "00000000.jpg\n00000000.cls\n");
        // And what that program makes is read here.
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
