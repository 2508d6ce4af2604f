//! Programs' files for the target `elf`, small and complete: functions, a table of them, unwinding, probes, a
//! library's name; and Go's.

/// Address of a file's first byte.
const BASE: u64 = 0x1000;
/// Bytes before the sections: the header, and one segment.
const HEADERS: usize = 64 + 56;
/// Kinds of sections, from elf.h.
const PROGBITS: u32 = 1;
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;
const DYNAMIC: u32 = 6;
const NOTE: u32 = 7;

/// Functions by name: start from the start of the text, and length.
const FUNCTIONS: [(&str, u64, u64); 3] = [("base", 0, 8), ("first", 16, 3), ("second", 32, 10)];
/// The same of a program that Go's tools built.
const GO: [(&str, u64, u64); 2] = [("main.handle", 48, 8), ("runtime.schedule", 56, 8)];
const TEXT_BYTES: u64 = 64;

/// A file that grows section by section.
struct Image {
    bytes: Vec<u8>,
    sections: Vec<u8>,
    names: Vec<u8>,
    count: u16,
}

/// Appends integers of these widths.
fn put(bytes: &mut Vec<u8>, fields: &[(u64, usize)]) {
    for (value, width) in fields {
        bytes.extend_from_slice(&value.to_le_bytes()[..*width]);
    }
}

impl Image {
    fn new() -> Self {
        let mut image = Self { bytes: vec![0; HEADERS], sections: vec![0; 64], names: vec![0], count: 1 };
        image.bytes.resize(HEADERS.next_multiple_of(16), 0);
        image
    }

    /// The address that the next section will have.
    fn next(&self) -> u64 {
        BASE + self.bytes.len() as u64
    }

    fn add(&mut self, name: &str, kind: u32, link: u16, bytes: &[u8]) {
        let (at, address) = (self.bytes.len() as u64, self.next());
        let name_at = self.names.len() as u64;
        self.names.extend(name.bytes().chain([0]));
        let head = [(name_at, 4), (u64::from(kind), 4), (2, 8), (address, 8), (at, 8)];
        put(&mut self.sections, &head);
        put(&mut self.sections, &[(bytes.len() as u64, 8), (u64::from(link), 4), (0, 4), (8, 8), (0, 8)]);
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(16), 0);
        self.count += 1;
    }

    fn finish(mut self) -> Vec<u8> {
        let names = [&self.names[..], b".shstrtab\0"].concat();
        self.add(".shstrtab", STRTAB, 0, &names);
        let (length, count) = (self.bytes.len() as u64, u64::from(self.count));
        let mut head = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        put(&mut head, &[(3, 2), (62, 2), (1, 4), (BASE, 8), (64, 8), (length, 8), (0, 4)]);
        put(&mut head, &[(64, 2), (56, 2), (1, 2), (64, 2), (count, 2), (count - 1, 2)]);
        put(&mut head, &[(1, 4), (5, 4), (0, 8), (BASE, 8), (BASE, 8), (length, 8), (length, 8), (16, 8)]);
        self.bytes[..HEADERS].copy_from_slice(&head);
        self.bytes.extend(self.sections);
        self.bytes
    }

    /// Functions, and a table of two of them behind the text; returns the text's address.
    fn text(&mut self) -> u64 {
        let text = self.next();
        let mut code = vec![0x90; TEXT_BYTES as usize];
        let parts: [(usize, &[u8]); 5] = [
            // lea rax, [rip + to the end of the text]; ret
            (0, &[0x48, 0x8d, 0x05, TEXT_BYTES as u8 - 7, 0, 0, 0, 0xc3]),
            // push rbp; pop rbp; ret
            (16, &[0x55, 0x5d, 0xc3]),
            // test edi, edi; je over the ret; ret; jmp far away
            (32, &[0x85, 0xff, 0x74, 1, 0xc3, 0xe9, 0, 1, 0, 0]),
            // cmp rsp, [r14 + 16]; jbe; push rbp; ret
            (48, &[0x49, 0x3b, 0x66, 0x10, 0x76, 0x20, 0x55, 0xc3]),
            (56, &[0x49, 0x3b, 0x66, 0x10, 0x76, 0x20, 0x55, 0xc3]),
        ];
        for (at, part) in parts {
            code[at..at + part.len()].copy_from_slice(part);
        }
        self.add(".text", PROGBITS, 0, &code);
        let mut table = Vec::new();
        put(&mut table, &[(text + 16, 8), (text + 32, 8)]);
        self.add(".data.rel.ro", PROGBITS, 0, &table);
        text
    }

    fn symbols(&mut self, text: u64, functions: &[(&str, u64, u64)]) {
        let (mut symbols, mut names) = (vec![0; 24], vec![0]);
        for (name, from, length) in functions {
            // A function (2) that all see (1), in the first section.
            put(&mut symbols, &[(names.len() as u64, 4), (0x12, 1), (0, 1), (1, 2), (text + from, 8)]);
            put(&mut symbols, &[(*length, 8)]);
            names.extend(name.bytes().chain([0]));
        }
        let link = self.count + 1;
        self.add(".symtab", SYMTAB, link, &symbols);
        self.add(".strtab", STRTAB, 0, &names);
    }

    /// The record of each function, and the table that is searched for them.
    fn unwinding(&mut self, text: u64) {
        let far = |to: u64, from: u64| (to.wrapping_sub(from), 4);
        let (frames_at, mut frames) = (self.next(), Vec::new());
        for (_, from, length) in FUNCTIONS {
            let at = frames_at + frames.len() as u64;
            put(&mut frames, &[(12, 4), (4, 4), far(text + from, at + 8), (length, 4)]);
        }
        self.add(".eh_frame", PROGBITS, 0, &frames);
        let (table_at, mut table) = (self.next(), vec![1, 0x1b, 0x03, 0x3b]);
        put(&mut table, &[far(frames_at, table_at + 4), (FUNCTIONS.len() as u64, 4)]);
        for (index, (_, from, _)) in FUNCTIONS.into_iter().enumerate() {
            put(&mut table, &[far(text + from, table_at), far(frames_at + 16 * index as u64, table_at)]);
        }
        self.add(".eh_frame_hdr", PROGBITS, 0, &table);
    }

    /// The marker's probe point, and two probes of a provider.
    fn probes(&mut self, text: u64) {
        let mut notes = Vec::new();
        for (provider, name, at) in [("guestscope", "edge", 16), ("p", "a__start", 33), ("p", "a__done", 36)]
        {
            let mut body = Vec::new();
            put(&mut body, &[(text + at, 8), (text, 8), (0, 8)]);
            for word in [provider, name, "8@%rdi -4@8(%rsp)"] {
                body.extend(word.bytes().chain([0]));
            }
            put(&mut notes, &[(8, 4), (body.len() as u64, 4), (3, 4)]);
            notes.extend_from_slice(b"stapsdt\0");
            notes.extend(body);
            notes.resize(notes.len().next_multiple_of(4), 0);
        }
        self.add(".note.stapsdt", NOTE, 0, &notes);
    }

    fn name(&mut self) {
        let mut entries = Vec::new();
        put(&mut entries, &[(14, 8), (1, 8), (0, 8), (0, 8)]);
        let link = self.count + 1;
        self.add(".dynamic", DYNAMIC, link, &entries);
        self.add(".dynstr", STRTAB, 0, b"\0libp.so.1\0");
    }

    /// What Go's linker adds: its version, and the runtime's table of functions.
    fn go(&mut self, text: u64) {
        self.add(".go.buildinfo", PROGBITS, 0, b"\xff Go buildinf:\x08\x02");
        let (mut names, mut entries, mut more) = (Vec::new(), Vec::new(), Vec::new());
        let more_from = 8 * GO.len() as u64 + 4;
        for (name, from, _) in GO {
            put(&mut entries, &[(from, 4), (more_from + more.len() as u64, 4)]);
            put(&mut more, &[(from, 4), (names.len() as u64, 4)]);
            names.extend(name.bytes().chain([0]));
        }
        put(&mut entries, &[(TEXT_BYTES, 4)]);
        let (header, mut table) = (72, vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8]);
        let words = [GO.len() as u64, 0, text, header, 0, 0, 0, header + names.len() as u64];
        put(&mut table, &words.map(|word| (word, 8)));
        table.extend([names, entries, more].concat());
        self.add(".gopclntab", PROGBITS, 0, &table);
    }
}

/// A library in C.
pub(super) fn library() -> Vec<u8> {
    let mut image = Image::new();
    let text = image.text();
    image.symbols(text, &FUNCTIONS);
    image.unwinding(text);
    image.probes(text);
    image.name();
    image.finish()
}

/// A program in Go, with symbols or without.
pub(super) fn go(is_stripped: bool) -> Vec<u8> {
    let mut image = Image::new();
    let text = image.text();
    if !is_stripped {
        image.symbols(text, &GO);
    }
    image.go(text);
    image.finish()
}

/// The table for unwinding alone: its address, one within its second function, and the table without its
/// first bytes.
pub(super) fn unwinding() -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, &[(BASE, 8), (BASE + 0x12, 8), (0, 4), (2, 4), (0, 4), (0, 4), (0x10, 4), (0, 4)]);
    bytes
}
