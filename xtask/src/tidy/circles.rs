//! Circles of files: which files of a crate need each other, where they lie in different folders; of some
//! crates, in one folder as well.
//!
//! Reads words, not types: imports, and paths that begin with `crate`, `super`, `self`, a module or something
//! imported. A name that a module hands on counts for the file that has it. Tests may use anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Sources in which files of one folder do not need each other either. The other crates have a few such
/// circles left.
const NONE_IN_A_FOLDER: [&str; 4] =
    ["agent/folder/src", "agent/kernel/src", "agent/model/src", "agent/render/src"];

/// Most re-exports that a name is followed through.
const MOST_STEPS: usize = 8;

/// A module's path below its crate's root.
type Key = Vec<String>;

#[derive(Debug, Default)]
struct Module {
    file: PathBuf,
    /// Imports by the name that each has here; `*` for all of a module.
    uses: Vec<(Key, String)>,
    /// Other paths in it.
    paths: Vec<Key>,
    defines: BTreeSet<String>,
}

/// The modules of one crate.
#[derive(Debug, Default)]
pub(super) struct Crate(BTreeMap<Key, Module>);

impl Crate {
    /// Takes in a file by its path below `src/`; `has_library` if `main.rs` is not the root.
    pub(super) fn add(&mut self, below: &Path, file: &Path, text: &str, has_library: bool) {
        let mut key: Key =
            below.with_extension("").iter().map(|part| part.to_string_lossy().into()).collect();
        let is_root = key.len() == 1 && (key[0] == "lib" || (key[0] == "main" && !has_library));
        if is_root || key.last().is_some_and(|last| last == "mod") {
            key.pop();
        }
        if key.iter().any(|part| part == "tests" || part.ends_with("_tests")) {
            return;
        }
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        let end = text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(text.len());
        module.read(&words(&text[..end]));
        self.0.insert(key, module);
    }

    /// The files of each circle that reaches over several folders, or that is refused in one folder too.
    pub(super) fn circles(&self, src: &Path) -> Vec<Vec<&Path>> {
        let fewest = if NONE_IN_A_FOLDER.iter().any(|none| src == Path::new(none)) { 1 } else { 2 };
        let needs: BTreeMap<&Key, BTreeSet<&Key>> =
            self.0.keys().map(|key| (key, self.reached(key))).collect();
        let mut seen = BTreeSet::new();
        let mut circles = Vec::new();
        for (key, reached) in &needs {
            let round: Vec<&Key> =
                reached.iter().copied().filter(|other| needs[other].contains(key)).collect();
            let folders: BTreeSet<Key> = round.iter().map(|key| self.folder(key)).collect();
            if round.len() > 1 && folders.len() >= fewest && seen.insert(round.clone()) {
                circles.push(round.iter().map(|key| self.0[*key].file.as_path()).collect());
            }
        }
        circles
    }

    /// Files of modules that have others below them, and lie outside of the folder of those.
    pub(super) fn beside_their_folders(&self) -> impl Iterator<Item = &Path> {
        let is_apart = |key: &&Key| !key.is_empty() && self.folder(key) == **key;
        let files = self.0.keys().filter(is_apart).map(|key| self.0[key].file.as_path());
        files.filter(|file| !file.ends_with("mod.rs"))
    }

    /// The folder of a module's file; a module with modules of its own lies beside those.
    fn folder(&self, key: &Key) -> Key {
        let has_own = self.0.keys().any(|other| other.len() > key.len() && other.starts_with(key));
        key[..if has_own { key.len() } else { key.len().saturating_sub(1) }].to_vec()
    }

    /// All modules that a module needs, directly or not.
    fn reached<'a>(&'a self, key: &'a Key) -> BTreeSet<&'a Key> {
        let (mut reached, mut next) = (BTreeSet::new(), vec![key]);
        while let Some(at) = next.pop() {
            for need in self.needs(at).filter(|need| *need != at) {
                if reached.insert(need) {
                    next.push(need);
                }
            }
        }
        reached
    }

    fn needs<'a>(&'a self, at: &'a Key) -> impl Iterator<Item = &'a Key> {
        let module = &self.0[at];
        let imports = module.uses.iter().map(|(path, _)| path);
        // A module that is imported is needed only where something of it is named.
        let found = |path: &Key| self.find(at, path, 0).filter(|(_, is_item)| *is_item);
        imports.chain(&module.paths).filter_map(move |path| Some(found(path)?.0))
    }

    /// The module in which a path ends, and whether it names something in it.
    fn find(&self, at: &Key, path: &[String], steps: usize) -> Option<(&Key, bool)> {
        let (mut base, mut rest) = (at.clone(), path);
        let first = path.first().filter(|_| steps < MOST_STEPS)?;
        let is_child = |base: &Key, name: &String| {
            self.0.contains_key(&[base.as_slice(), std::slice::from_ref(name)].concat())
        };
        match first.as_str() {
            "crate" => (base, rest) = (Key::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {}
            _ if is_child(at, first) => {}
            _ => {
                let import =
                    self.0[at].uses.iter().find(|(used, name)| name == first && used[0] != *first)?;
                return self.find(at, &[&import.0, &path[1..]].concat(), steps + 1);
            }
        }
        while rest.first().is_some_and(|word| word == "super") {
            base.pop();
            rest = &rest[1..];
        }
        while let Some(name) = rest.first().filter(|name| is_child(&base, name)) {
            base.push(name.clone());
            rest = &rest[1..];
        }
        let (key, module) = self.0.get_key_value(&base)?;
        let Some(item) = rest.first() else { return Some((key, false)) };
        if let Some((used, _)) = module.uses.iter().find(|(_, name)| name == item && item != "*") {
            return self.find(key, &[used, &rest[1..]].concat(), steps + 1);
        }
        let mut all = module.uses.iter().filter(|(used, name)| name == "*" && used != path);
        let handed_on = all.find_map(|(used, _)| {
            let (other, _) = self.find(key, &[&used[..used.len() - 1], rest].concat(), steps + 1)?;
            self.0[other].defines.contains(item).then_some((other, true))
        });
        handed_on.or(Some((key, true)))
    }
}

impl Module {
    fn read(&mut self, words: &[&str]) {
        let is_name = |word: &str| word.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let mut at = 0;
        while let Some(word) = words.get(at).copied() {
            at += 1;
            if word == "use" && words.get(at) != Some(&"<") {
                self.import(words, &mut at, &[]);
            } else if ["struct", "enum", "trait", "fn", "const", "static", "type"].contains(&word) {
                self.defines.extend(words.get(at).map(|name| (*name).to_owned()));
            } else if is_name(word) && words.get(at) == Some(&"::") {
                let mut path = vec![word.to_owned()];
                while words.get(at) == Some(&"::") && words.get(at + 1).is_some_and(|next| is_name(next)) {
                    path.push(words[at + 1].to_owned());
                    at += 2;
                }
                // `pub(in crate::a)` names nobody.
                if words.get(at.wrapping_sub(2 * path.len())) != Some(&"in") || path[0] != "crate" {
                    self.paths.push(path);
                }
            }
        }
    }

    /// Reads an import up to its end, or up to the comma or brace behind a part of it.
    fn import(&mut self, words: &[&str], at: &mut usize, before: &[String]) {
        let mut path = before.to_vec();
        let mut name = None;
        while let Some(word) = words.get(*at).copied() {
            match word {
                ";" | "," | "}" => break,
                "{" => {
                    while words.get(*at).is_some_and(|word| *word != "}" && *word != ";") {
                        *at += 1;
                        self.import(words, at, &path);
                    }
                    *at += 1;
                    return;
                }
                "as" => {
                    *at += 1;
                    name = words.get(*at).map(|name| (*name).to_owned());
                }
                "::" => {}
                "self" if !path.is_empty() => {}
                word => path.push(word.to_owned()),
            }
            *at += 1;
        }
        if let Some(last) =
            path.last().filter(|_| path.len() > before.len() || words.get(*at - 1) == Some(&"self"))
        {
            let name = name.unwrap_or_else(|| last.clone());
            self.uses.push((path, name));
        }
    }
}

/// Names and signs of a program, without comments and what stands in quotes.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if c.is_alphanumeric() || c == '_' {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
            continue;
        } else if c == '"' {
            let mut is_escaped = false;
            let end = rest[1..].find(|c: char| {
                let ends = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                ends
            });
            rest = &rest[end.map_or(rest.len(), |end| end + 2)..];
            continue;
        } else if rest.starts_with("'\"'") {
            3
        } else if rest.starts_with("::") {
            2
        } else {
            c.len_utf8()
        };
        if !c.is_whitespace() {
            words.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    words
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rstest::rstest;

    use super::Crate;

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        circles_of("agent/src", files)
    }

    fn circles_of(src: &str, files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let mut crate_ = Crate::default();
        for (path, text) in files {
            crate_.add(Path::new(path), Path::new(path), text, false);
        }
        let circles = crate_.circles(Path::new(src));
        circles.iter().map(|files| files.iter().map(|file| file.display().to_string()).collect()).collect()
    }

    const A: &str = "use crate::b::B;\npub struct A(B);\n";

    #[rstest]
    #[case::import("use crate::a::A;\npub struct B;\n", 1)]
    #[case::group("use crate::{\n    c::{self, C},\n    a::{self as other, A},\n};\npub struct B;\n", 1)]
    #[case::path("pub struct B;\nfn f() -> super::a::A {}\n", 1)]
    #[case::of_a_module("use crate::a;\npub struct B;\nfn f() -> a::A {}\n", 1)]
    #[case::module_alone("use crate::a;\npub struct B;\n", 0)]
    #[case::comment("// crate::a::A\npub struct B;\nconst C: &str = \"crate::a::A \\\" crate::a::A\";\n", 0)]
    #[case::visibility("pub(in crate::b) struct B;\n", 0)]
    #[case::in_tests("pub struct B;\n\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n", 0)]
    #[case::another("use other::a::A;\npub struct B;\n", 0)]
    fn files_of_two_folders_need_each_other(#[case] b: &str, #[case] expected: usize) {
        let found = circles(&[
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a/mod.rs", "mod x;\n"),
            ("a/x.rs", ""),
            ("a/mod.rs", A),
            ("b.rs", b),
        ]);
        assert_eq!(found.len(), expected, "{found:?}");
    }

    #[rstest]
    #[case("c/mod.rs", &[])]
    #[case("c.rs", &["c.rs"])]
    fn a_module_lies_in_its_folder(#[case] file: &str, #[case] expected: &[&str]) {
        let mut crate_ = Crate::default();
        for path in ["lib.rs", "d.rs", file, "c/a.rs"] {
            crate_.add(Path::new(path), Path::new(path), "", false);
        }
        let found: Vec<&str> = crate_.beside_their_folders().filter_map(Path::to_str).collect();
        assert_eq!(found, expected);
    }

    #[rstest]
    #[case("agent/src", 0)]
    #[case("agent/model/src", 1)]
    fn files_of_one_folder_may_in_some_crates(#[case] src: &str, #[case] expected: usize) {
        let b = "use super::a::A;\npub struct B;\n";
        let found = circles_of(
            src,
            &[
                ("lib.rs", ""),
                ("c/mod.rs", ""),
                ("c/a.rs", "use super::b::B;\npub struct A;\n"),
                ("c/b.rs", b),
            ],
        );
        assert_eq!(found.len(), expected, "{found:?}");
    }

    /// What a module hands on is needed of the file that has it.
    #[rstest]
    #[case::by_name("pub use x::X;\npub use y::Y;\n")]
    #[case::all("pub use x::*;\npub use y::*;\n")]
    fn a_name_counts_for_its_file(#[case] handed_on: &str) {
        let files = |x| {
            let b = "use crate::a::Y;\npub struct B;\n";
            circles(&[
                ("lib.rs", ""),
                ("a/mod.rs", handed_on),
                ("a/x.rs", x),
                ("a/y.rs", "pub struct Y;\n"),
                ("b.rs", b),
            ])
        };
        assert!(files("use crate::b::B;\npub struct X;\n").is_empty());
        let b_needs_x = "use crate::b::B;\npub struct Y;\n";
        let found = circles(&[
            ("lib.rs", ""),
            ("a/mod.rs", handed_on),
            ("a/x.rs", ""),
            ("a/y.rs", b_needs_x),
            ("b.rs", "use crate::a::Y;\npub struct B;\n"),
        ]);
        assert_eq!(found, [["a/y.rs", "b.rs"]]);
    }
}
