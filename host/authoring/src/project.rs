//! Projects to start from: the templates, and a name put into them.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::{EXAMPLES, TEMPLATES, empty_folder, text, write};
use crate::language::{Kind, Language, is_offered};
use crate::sdk::{Versions, is_sdk, write_sdk};

/// Longest name of a plugin. It is part of file names and of metrics' names.
const LONGEST: usize = 64;

/// Names of crates that cargo refuses or that hide crates of the language.
const RESERVED: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "union",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

/// A project that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Its folder.
    pub folder: PathBuf,
    /// Its files, relative to the folder, without the SDK.
    pub files: Vec<PathBuf>,
}

/// Checks a plugin's name: it becomes an id, a crate's name and a file's name.
///
/// # Errors
///
/// If it cannot be all of that.
pub fn check_name(name: &str) -> Result<()> {
    let fails = |reason: &str| Err(Error::Name { name: name.into(), reason: reason.into() });
    let is_word = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    if name.len() > LONGEST {
        return fails(&format!("it has more than {LONGEST} characters"));
    }
    if !name.split('-').all(is_word) {
        return fails("an id is lower-case words or digits joined by single hyphens");
    }
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        return fails("it begins with a digit, which no crate's name does");
    }
    if RESERVED.contains(&name) {
        return fails("it is a word of the language, and no crate's name");
    }
    Ok(())
}

impl Project {
    /// Writes a project for a plugin of this kind in this language, with the SDK that it is built on, into a folder
    /// that is empty or does not exist.
    ///
    /// # Errors
    ///
    /// If the pair is not offered, the name is not possible, or the folder has files or cannot be written.
    pub fn write(kind: Kind, name: &str, language: Language, folder: &Path) -> Result<Self> {
        if !is_offered(kind, language) {
            return Err(Error::NotOffered { kind, language });
        }
        check_name(name)?;
        empty_folder(folder)?;
        let mut files = Vec::new();
        for (path, contents) in contents(kind, name, language) {
            write(&folder.join(&path), &contents)?;
            files.push(path.into());
        }
        files.sort();
        write_sdk(&folder.join("sdk"))?;
        Ok(Self { folder: folder.to_owned(), files })
    }

    /// Writes the SDK of a project again if it has none, as in a fresh clone, and returns whether it did.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn complete(folder: &Path) -> Result<bool> {
        let sdk = folder.join("sdk");
        if is_sdk(&sdk) {
            return Ok(false);
        }
        write_sdk(&sdk)?;
        Ok(true)
    }
}

/// Returns the files of a project, by their paths.
fn contents(kind: Kind, name: &str, language: Language) -> Vec<(String, Vec<u8>)> {
    let snake = name.replace('-', "_");
    let pascal: String =
        name.split('-').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
    let wit = Versions::of_this_program().wit;
    let put = |text: &str| {
        text.replace("{{name}}", name)
            .replace("{{snake}}", &snake)
            .replace("{{pascal}}", &pascal)
            .replace("{{kind}}", kind.name())
            .replace("{{language}}", language.title())
            .replace("{{wit}}", &wit)
    };
    let folder = format!("{kind}-{}/", language.name());
    let mut files: Vec<(String, Vec<u8>)> = TEMPLATES
        .iter()
        .filter_map(|(path, bytes)| Some((path.strip_prefix(&folder)?, bytes)))
        .map(|(path, bytes)| {
            let path = path.strip_suffix(".in").unwrap_or(path);
            let path = if path == "gitignore" { ".gitignore" } else { path };
            (path.to_owned(), put(text(bytes)).into_bytes())
        })
        .collect();
    files.push(("README.md".into(), put(&read_me(kind, language)).into_bytes()));
    if kind == Kind::Backend {
        let (example, path) = match language {
            Language::C => ("scale.c", "src/backend.c"),
            Language::Cpp => ("scale.cpp", "src/backend.cpp"),
            _ => ("scale.rs", "src/lib.rs"),
        };
        files.push((path.into(), backend(example, name, language).into_bytes()));
        for same in ["fixture.toml", "three.scale"] {
            files.push((same.into(), example_text(same).into()));
        }
    }
    files
}

fn template(path: &str) -> &'static str {
    let found = TEMPLATES.iter().find(|(known, _)| *known == path);
    text(found.unwrap_or_else(|| panic!("there is no template {path}")).1)
}

fn example_text(name: &str) -> &'static str {
    text(EXAMPLES.iter().find(|(known, _)| *known == name).expect("an example").1)
}

/// Returns the page of a project: what it is, what it needs, and the commands.
fn read_me(kind: Kind, language: Language) -> String {
    let needs = match kind {
        Kind::Backend => format!("readme/needs-{}-native.md", language.name()),
        _ => format!("readme/needs-{}.md", language.name()),
    };
    let (about, start) = (format!("readme/about-{kind}.md"), format!("readme/use-{kind}.md"));
    [template(&about), template(&needs), template(&start)].join("\n")
}

/// Returns the example backend with another name.
fn backend(example: &str, name: &str, language: Language) -> String {
    let length = name.len();
    let changes: Vec<(&str, String)> = match language {
        Language::C => vec![
            (".id = {\"scale\", 5},", format!(".id = {{\"{name}\", {length}}},")),
            ("#define DEVICE \"scale:0\"", format!("#define DEVICE \"{name}:0\"")),
            (
                "cc -std=c11 -shared -fPIC -I plugin-api/native/include scale.c -o libbackend_scale.so",
                "make".into(),
            ),
        ],
        Language::Cpp => vec![
            ("return {\"scale\", \"0.1.0\"", format!("return {{\"{name}\", \"0.1.0\"")),
            ("device_id = \"scale:0\"", format!("device_id = \"{name}:0\"")),
            ("// The backend of scale.c again, in C++17 with plugin_api.hpp:", "// A complete backend in C++17 with plugin_api.hpp: it multiplies by a factor. It is built by".into()),
            (
                "c++ -std=c++17 -shared -fPIC -I plugin-api/native/include scale.cpp -o libbackend_scale.so",
                "make".into(),
            ),
        ],
        _ => vec![
            ("id: \"scale\".into(),", format!("id: \"{name}\".into(),")),
            ("version: \"0.1.0\".into(),", "version: env!(\"CARGO_PKG_VERSION\").into(),".into()),
            ("const DEVICE: &str = \"scale:0\";", format!("const DEVICE: &str = \"{name}:0\";")),
        ],
    };
    let mut text = example_text(example).to_owned();
    for (from, to) in changes {
        assert_eq!(text.matches(from).count(), 1, "{example} has `{from}` once");
        text = text.replacen(from, &to, 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::OFFERED;

    #[test]
    fn names_become_ids_and_crates() {
        for name in ["tail", "tail-ratio", "p99", "a1-2b"] {
            check_name(name).expect("a good name");
        }
        let told = |name: &str| check_name(name).expect_err("a bad name").to_string();
        let cases = [
            told("Tail"),
            told("tail_ratio"),
            told(""),
            told("-"),
            told("a--b"),
            told("2nd"),
            told("match"),
        ];
        insta::assert_snapshot!(cases.join("\n"), @r"
        `Tail` cannot be a plugin's name: an id is lower-case words or digits joined by single hyphens
        `tail_ratio` cannot be a plugin's name: an id is lower-case words or digits joined by single hyphens
        `` cannot be a plugin's name: an id is lower-case words or digits joined by single hyphens
        `-` cannot be a plugin's name: an id is lower-case words or digits joined by single hyphens
        `a--b` cannot be a plugin's name: an id is lower-case words or digits joined by single hyphens
        `2nd` cannot be a plugin's name: it begins with a digit, which no crate's name does
        `match` cannot be a plugin's name: it is a word of the language, and no crate's name
        ");
        assert!(check_name(&"a".repeat(65)).is_err());
    }

    #[test]
    fn every_pair_has_its_files_and_no_gap_is_left_in_them() {
        for (kind, languages) in OFFERED {
            for language in languages {
                let files = contents(kind, "tail-ratio", *language);
                for (path, bytes) in &files {
                    let text = String::from_utf8_lossy(bytes);
                    let gaps = [
                        "{{name}}",
                        "{{snake}}",
                        "{{pascal}}",
                        "{{kind}}",
                        "{{language}}",
                        "{{wit}}",
                    ];
                    let left = gaps.iter().find(|gap| text.contains(**gap));
                    assert_eq!(left, None, "{kind} {language:?} {path}");
                }
                for needed in ["README.md", "plugin.toml", ".gitignore"] {
                    assert!(
                        files.iter().any(|(path, _)| path == needed),
                        "{kind} {language:?}: no {needed}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_not_offered_names_what_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = Project::write(Kind::Backend, "it", Language::Python, folder.path());
        let error = error.expect_err("no such template");
        assert_eq!(error.to_string(), "there is no backend in Python to start from");
        assert!(error.help().is_some_and(|help| {
            help.contains("backend in rust, c, cpp; metric in rust, c, python, js")
        }));
        std::fs::write(folder.path().join("mine"), "").expect("a file");
        let error = Project::write(Kind::Metric, "it", Language::Rust, folder.path());
        assert!(error.expect_err("a full folder").to_string().ends_with("is not empty"));
    }
}
