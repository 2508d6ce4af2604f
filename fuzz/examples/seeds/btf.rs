//! A kernel's types for the target `btf`: one of every kind, and structures in every way of nesting.

/// Set in a structure's header: its members have sizes in bits.
const FLAG: u32 = 1 << 31;
const STRUCT: u32 = 4;
const UNION: u32 = 5;

/// A file that grows type by type; they are numbered from 1.
struct Types {
    bytes: Vec<u8>,
    words: Vec<u8>,
    count: u32,
}

impl Types {
    fn word(&mut self, word: &str) -> u32 {
        if word.is_empty() {
            return 0;
        }
        let at = self.words.len() as u32;
        self.words.extend(word.bytes().chain([0]));
        at
    }

    /// A type: name, kind with its flag, number of members, size or type, then what follows.
    fn add(&mut self, name: &str, kind: u32, members: u32, size: u32, body: &[u32]) -> u32 {
        let head = [self.word(name), kind & FLAG | (kind & !FLAG) << 24 | members, size];
        self.bytes.extend(head.iter().chain(body).flat_map(|word| word.to_le_bytes()));
        self.count += 1;
        self.count
    }

    /// A structure or union of members: name, type, place in bits.
    fn group(&mut self, name: &str, kind: u32, members: &[(&str, u32, u32)]) -> u32 {
        let body: Vec<u32> = members.iter().flat_map(|&(name, of, at)| [self.word(name), of, at]).collect();
        self.add(name, kind, members.len() as u32, 64, &body)
    }

    fn finish(self) -> Vec<u8> {
        let (types, words) = (self.bytes.len() as u32, self.words.len() as u32);
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        bytes.extend([24, 0, types, types, words].into_iter().flat_map(u32::to_le_bytes));
        [bytes, self.bytes, self.words].concat()
    }
}

/// The file.
pub(super) fn kernel() -> Vec<u8> {
    let mut of = Types { bytes: Vec::new(), words: vec![0], count: 0 };
    let int = of.add("int", 1, 0, 4, &[32]);
    let prototype = of.add("", 13, 4, 0, &[0, 0, 0, int, 0, int, 0, int]);
    let pointer = of.add("", 2, 0, prototype, &[]);
    of.add("btf_trace_switch", 8, 0, pointer, &[]);
    of.add("btf_trace_sched_switch", 8, 0, pointer, &[]);
    of.add("", 3, 0, 0, &[int, int, 7]);
    let members = [of.word("A"), 0, of.word("B"), 1];
    of.add("plain", 6, 2, 4, &members);
    of.add("forward", 7, 0, 0, &[]);
    let volatile = of.add("", 9, 0, int, &[]);
    let constant = of.add("", 10, 0, volatile, &[]);
    let restrict = of.add("", 11, 0, constant, &[]);
    of.add("schedule", 12, 1, prototype, &[]);
    of.add("counter", 14, 0, int, &[1]);
    of.add(".data", 15, 1, 4, &[int, 0, 4]);
    of.add("float", 16, 0, 4, &[]);
    of.add("tag", 17, 0, int, &[0]);
    let tagged = of.add("user", 18, 0, restrict, &[]);
    of.add("wide", 19, 1, 8, &[0, 1, 2]);
    let leaf = of.group("leaf", STRUCT, &[("x", tagged, 0), ("y", int, 32)]);
    let renamed = of.add("leaf_t", 8, 0, leaf, &[]);
    let to_leaf = of.add("", 2, 0, leaf, &[]);
    let to_pointer = of.add("", 2, 0, to_leaf, &[]);
    let innermost = of.group("", UNION, &[("deep", renamed, 0), ("other", int, 0)]);
    let inner = of.group("", STRUCT, &[("first", int, 0), ("", innermost, 32)]);
    let flags = of.group("", FLAG | STRUCT, &[("whole", int, 0), ("three", int, 3 << 24 | 0x22)]);
    let members = [
        ("", inner, 64),
        ("", flags, 256),
        ("named", leaf, 512),
        ("pointer", to_leaf, 576),
        ("broken", 9_999, 640),
        ("pointers", to_pointer, 704),
    ];
    of.group("outer", STRUCT, &members);
    let info = of.group("", STRUCT, &[("last_arrival", int, 0), ("run_delay", int, 64)]);
    of.group("task_struct", STRUCT, &[("pid", int, 0), ("sched_info", info, 64), ("", inner, 512)]);
    of.finish()
}
