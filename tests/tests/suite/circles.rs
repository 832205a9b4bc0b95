//! Files of a room do not depend on each other in circles: each can be read with those below it, and moved without
//! those above it.
//!
//! Cargo enforces directions between rooms, but not within one, so this test reads the paths in each file
//! (`crate::…`, `super::…`, and a module's own children), follows re-exports to the file that defines a name, and
//! searches for files that reach each other. Tests in a file do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Accepted circles: the room and its files. `docs/design/rooms.md` argues each.
const ARGUED: &[(&str, &[&str])] = &[];

/// A room's files by module, such as `load::driver`; the room's root is the empty path.
type Modules = BTreeMap<Vec<String>, Module>;

struct Module {
    file: String,
    text: String,
    /// Names that the module re-exports, and the path of each.
    exported: BTreeMap<String, Vec<String>>,
}

fn words(path: &[&str]) -> Vec<String> {
    path.iter().map(|&word| word.to_owned()).collect()
}

/// Returns a file without its comments and tests.
fn code(text: &str) -> String {
    let lines = text.lines().map(|line| match line.find("//") {
        Some(comment) => &line[..comment],
        None => line,
    });
    let code = lines.collect::<Vec<_>>().join("\n");
    let tests = code.find("\n#[cfg(test)]\nmod tests {").or_else(|| {
        // Test modules may have helpers for tests of other files.
        code.find("\n#[cfg(test)]\npub(crate) mod tests {")
    });
    code[..tests.unwrap_or(code.len())].to_owned()
}

/// Returns the paths in `a::{b, c::{self, d as e}, f}`; the new names come last.
fn expand(text: &str) -> Vec<Vec<String>> {
    fn parse(rest: &mut &str, before: &[String], found: &mut Vec<Vec<String>>) {
        let mut path = before.to_vec();
        loop {
            *rest = rest.trim_start();
            if let Some(inner) = rest.strip_prefix('{') {
                *rest = inner;
                while !rest.trim_start().starts_with('}') && !rest.is_empty() {
                    parse(rest, &path, found);
                    *rest = rest.trim_start();
                    *rest = rest.strip_prefix(',').unwrap_or(rest);
                }
                *rest = rest.trim_start().strip_prefix('}').unwrap_or("");
                return;
            }
            let end = rest
                .find(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '*')
                .unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            if !word.is_empty() && word != "self" && word != "*" {
                path.push(word.to_owned());
            }
            *rest = behind;
            match behind.trim_start().strip_prefix("::") {
                Some(next) => *rest = next,
                None => break,
            }
        }
        if let Some(behind) = rest.trim_start().strip_prefix("as ") {
            let end = behind.find([',', '}', ';']).unwrap_or(behind.len());
            *rest = &behind[end..];
        }
        found.push(path);
        // Parsing ends at anything unreadable.
        if !rest.trim_start().starts_with([',', '}']) {
            *rest = "";
        }
    }
    let mut found = Vec::new();
    parse(&mut &*text, &[], &mut found);
    found
}

/// Returns the text behind each separate `word::`.
fn mentions<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let start = format!("{word}::");
    let alone = |index: &usize| {
        let before = text[..*index].chars().next_back();
        before.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_' && letter != ':')
    };
    let found = text.match_indices(&start).map(|(index, _)| index).filter(alone);
    found.map(|index| &text[index + start.len()..]).collect()
}

/// Returns the paths of a statement that re-exports them.
fn exported(statement: &str) -> Option<&str> {
    let start = ["pub use ", "pub(crate) use ", "pub(super) use "]
        .iter()
        .find_map(|start| statement.find(start).map(|at| at + start.len()))?;
    Some(statement[start..].trim_start_matches("self::"))
}

/// Returns names that a module re-exports, and the path of each.
fn exports(module: &[String], children: &[String], text: &str) -> BTreeMap<String, Vec<String>> {
    let statements = text.split(';').filter_map(exported);
    let mut found = BTreeMap::new();
    for path in statements.flat_map(expand) {
        let whole = match path.first().map(String::as_str) {
            Some("crate") => path[1..].to_vec(),
            Some(first) if children.iter().any(|child| child == first) => [module, &path].concat(),
            _ => continue,
        };
        if let Some(name) = path.last() {
            found.insert(name.clone(), whole);
        }
    }
    found
}

fn children(module: &[String], paths: &BTreeMap<Vec<String>, (String, String)>) -> Vec<String> {
    let of = paths.keys().filter(|path| path.len() == module.len() + 1 && path.starts_with(module));
    of.filter_map(|path| path.last().cloned()).collect()
}

fn modules(source: &Path) -> Modules {
    let mut paths = BTreeMap::new();
    let mut folders = vec![(source.to_owned(), Vec::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let entries = fs::read_dir(&folder).expect("a room's folder can be read");
        for entry in entries {
            let path = entry.expect("a room's folder can be read").path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("UTF-8").to_owned();
            if path.is_dir() {
                folders.push((path, [&prefix[..], &[stem]].concat()));
            } else if path.extension().is_some_and(|extension| extension == "rs") && stem != "main"
            {
                let text = code(&fs::read_to_string(&path).expect("a source file can be read"));
                let file = path.strip_prefix(source).expect("it lies there").display().to_string();
                let module = match &*stem {
                    "lib" | "mod" => prefix.clone(),
                    _ => [&prefix[..], &[stem]].concat(),
                };
                paths.insert(module, (file, text));
            }
        }
    }
    // These files are compiled for tests only.
    let only_tests: Vec<Vec<String>> = paths
        .iter()
        .flat_map(|(module, (_, text))| {
            let declared = text.split("#[cfg(test)]\n").skip(1).filter_map(|behind| {
                let declared = behind.lines().next()?.strip_suffix(';')?;
                declared.rsplit_once("mod ").map(|(_, name)| name.to_owned())
            });
            declared.map(|name| [&module[..], &[name]].concat()).collect::<Vec<_>>()
        })
        .collect();
    paths.retain(|module, _| !only_tests.iter().any(|tests| module.starts_with(tests)));
    let exported: BTreeMap<_, _> = paths
        .iter()
        .map(|(module, (_, text))| {
            (module.clone(), exports(module, &children(module, &paths), text))
        })
        .collect();
    paths
        .into_iter()
        .map(|(path, (file, text))| {
            let exported = exported[&path].clone();
            (path, Module { file, text, exported })
        })
        .collect()
}

/// Returns the module that defines the item of a path.
fn definition(modules: &Modules, path: &[String]) -> Option<Vec<String>> {
    let mut path = path.to_vec();
    // Each re-export leads to another path; more than this would be a circle of re-exports.
    for _ in 0..10 {
        let deepest = (0..=path.len()).rev().find(|&end| modules.contains_key(&path[..end]))?;
        let module = &path[..deepest];
        let name = path.get(deepest);
        match name.and_then(|name| modules[module].exported.get(name)) {
            Some(target) => path = [target, &path[deepest + 1..]].concat(),
            None => return Some(module.to_vec()),
        }
    }
    None
}

/// Returns the modules that each module uses.
fn uses(modules: &Modules) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let of = |module: &Vec<String>, text: &str| {
        let mut paths = Vec::new();
        for mention in mentions(text, "crate") {
            paths.extend(expand(mention));
        }
        let above = &module[..module.len().saturating_sub(1)];
        for mention in mentions(text, "super") {
            paths.extend(expand(mention).into_iter().map(|path| [above, &path].concat()));
        }
        let children = modules
            .keys()
            .filter(|path| path.len() == module.len() + 1 && path.starts_with(module));
        // A re-export does not count as a use.
        let used: String =
            text.split_inclusive(';').filter(|statement| exported(statement).is_none()).collect();
        for child in children {
            let name = child.last().expect("a child has a name");
            for mention in mentions(&used, name) {
                let behind = expand(mention).into_iter();
                paths.extend(behind.map(|path| [&child[..], &path].concat()));
            }
        }
        let found = paths.iter().filter_map(|path| definition(modules, path));
        found.filter(|found| found != module).collect()
    };
    modules.iter().map(|(path, module)| (path.clone(), of(path, &module.text))).collect()
}

fn reached<'a>(
    uses: &'a BTreeMap<Vec<String>, BTreeSet<Vec<String>>>,
    from: &'a Vec<String>,
) -> BTreeSet<&'a Vec<String>> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        open.extend(uses[module].iter().filter(|next| found.insert(*next)));
    }
    found
}

/// Returns files that reach each other, and the arrows between them.
fn circles(modules: &Modules) -> BTreeMap<Vec<String>, Vec<String>> {
    let uses = uses(modules);
    let reached: BTreeMap<_, _> = uses.keys().map(|from| (from, reached(&uses, from))).collect();
    let mut circles = BTreeMap::new();
    for module in uses.keys().filter(|module| reached[module].contains(module)) {
        let inside = |other: &&Vec<String>| {
            reached[module].contains(other) && reached[other].contains(module)
        };
        let members: Vec<_> = uses.keys().filter(inside).collect();
        let files = members.iter().map(|member| modules[*member].file.clone()).collect();
        let arrows = members.iter().flat_map(|from| {
            let to = uses[*from].iter().filter(|to| members.contains(to));
            to.map(|to| format!("{} → {}", modules[*from].file, modules[to].file))
        });
        circles.insert(files, arrows.collect());
    }
    circles
}

#[test]
fn files_of_a_room_do_not_go_round_in_circles() {
    let mut found = BTreeSet::new();
    let mut report = String::new();
    for room in fs::read_dir(end_to_end::root().join("host")).expect("the rooms") {
        let room = room.expect("a room").path();
        let name = room.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
        for (files, arrows) in circles(&modules(&room.join("src"))) {
            let argued =
                ARGUED.iter().any(|(room, argued)| *room == name && files == words(argued));
            if !argued {
                report += &format!("host/{name}:\n  {}\n", arrows.join("\n  "));
            }
            found.insert((name.clone(), files));
        }
    }
    assert!(report.is_empty(), "files that reach each other:\n{report}");
    for (room, files) in ARGUED {
        let there = found.contains(&((*room).to_owned(), words(files)));
        assert!(there, "the circle of {files:?} in host/{room} is gone: take it off the list");
    }
}

#[test]
fn paths_are_read_as_the_compiler_reads_them() {
    let joined =
        |text: &str| -> Vec<String> { expand(text).iter().map(|path| path.join("::")).collect() };
    assert_eq!(joined("a::B;"), ["a::B"]);
    assert_eq!(joined("{a::{self, B as C, d::E}, f};"), ["a", "a::B", "a::d::E", "f"]);
    assert_eq!(joined("a::b(c::d)"), ["a::b"]);
    let module = |file: &str, text: &str, children: &[&str]| Module {
        file: file.to_owned(),
        text: code(text),
        exported: exports(&[], &words(children), text),
    };
    let children = ["a", "b", "c"];
    let modules = BTreeMap::from([
        (Vec::new(), module("lib.rs", "mod a;\npub use b::{self, B};\nuse c::C;", &children)),
        (words(&["a"]), module("a.rs", "use crate::B; // crate::c::C", &[])),
        (
            words(&["b"]),
            module(
                "b.rs",
                "fn f() { super::a::A }\n#[cfg(test)]\nmod tests { use crate::c; }",
                &[],
            ),
        ),
        (words(&["c"]), module("c.rs", "use crate::{b, Root};", &[])),
    ]);
    let found = circles(&modules);
    let circle = |files: &[&str], arrows: &[&str]| (words(files), words(arrows));
    let expected = [
        circle(&["a.rs", "b.rs"], &["a.rs → b.rs", "b.rs → a.rs"]),
        circle(&["lib.rs", "c.rs"], &["lib.rs → c.rs", "c.rs → lib.rs"]),
    ];
    assert_eq!(found, BTreeMap::from(expected));
}
