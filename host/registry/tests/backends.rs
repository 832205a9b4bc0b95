//! The backends' pages are complete: every page has the same parts, and no option is missing or obsolete.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use host_registry::Metadata;

/// The parts of each page, in this order.
const PARTS: [&str; 6] =
    ["## Devices", "## Options", "## Precisions", "## Measurement", "## Traps", "## Tested on"];

fn repository(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the folders of the backends, by id, with their `plugin.toml`.
fn backends() -> BTreeMap<String, (PathBuf, Metadata)> {
    let entries = fs::read_dir(repository("plugins/backends")).expect("the backends");
    let folders = entries.map(|entry| entry.expect("an entry").path());
    let read = |folder: PathBuf| {
        let metadata = Metadata::read(&folder.join("plugin.toml")).expect("a good plugin.toml");
        (metadata.id.clone(), (folder, metadata))
    };
    folders.map(read).collect()
}

fn index() -> String {
    read(&repository("docs/backends/README.md"))
}

/// Returns the text below a heading, up to the next one of its level or higher.
fn part<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n{heading}\n")).expect(heading);
    let level = heading.bytes().take_while(|byte| *byte == b'#').count();
    let ends = (1..=level).filter_map(|level| rest.find(&format!("\n{} ", "#".repeat(level))));
    &rest[..ends.min().unwrap_or(rest.len())]
}

/// Returns the options in the table of a part, whose rows begin with their names. `KEY` stands for any
/// name, and so does `*` in `plugin.toml`. Only the first table counts.
fn options(part: &str) -> BTreeSet<String> {
    let table = part.lines().skip_while(|line| !line.starts_with('|'));
    let rows = table.take_while(|line| line.starts_with('|')).skip(2);
    let name = |row: &str| row.split('`').nth(1).expect("a name").replace(".KEY", ".*");
    rows.map(name).collect()
}

/// Returns all Rust below a folder.
fn source(folder: &Path) -> String {
    let entries = fs::read_dir(folder).expect("a folder of sources");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.map(|path| if path.is_dir() { source(&path) } else { read(&path) }).collect()
}

#[test]
fn every_backend_has_a_page_with_all_parts_that_is_linked() {
    let index = index();
    for (id, (folder, metadata)) in backends() {
        let page = read(&folder.join("README.md"));
        assert!(page.starts_with(&format!("# `{id}`: ")), "{id}: {:?}", page.lines().next());
        let found: Vec<_> = page.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(found, PARTS, "{id}");
        for heading in PARTS {
            assert!(!part(&page, heading).trim().is_empty(), "{id} says nothing under {heading}");
        }
        let row = format!("| [`{id}`](../../plugins/backends/{id}/README.md) |");
        assert!(index.contains(&row), "docs/backends/README.md has no row that begins {row}");
        if let Some(runtime) = metadata.runtime {
            let install = format!("`host runtimes install {id}`");
            assert!(page.contains(&install), "{id} does not say {install}");
            assert!(page.contains(&runtime.version), "{id} does not name {}", runtime.version);
        }
    }
}

#[test]
fn the_pages_name_the_options_that_there_are() {
    let common = options(part(&index(), "### Options in common"));
    let engines = ["onnxruntime", "torch"]
        .map(|engine| source(&repository(&format!("plugins/engines/{engine}/src"))))
        .concat();
    for (id, (folder, metadata)) in backends() {
        let mut named = options(part(&read(&folder.join("README.md")), "## Options"));
        if metadata.engine == "onnxruntime" {
            named.extend(common.clone());
        }
        let known: BTreeSet<_> =
            metadata.options.expect("it lists its options").into_keys().collect();
        let missing: Vec<_> = known.difference(&named).collect();
        assert!(missing.is_empty(), "{id}: the page does not name {missing:?}");
        // The page may also name options of other backends that have a meaning here.
        let covered = |name: &String| {
            known.iter().any(|known| match known.strip_suffix('*') {
                Some(beginning) => name.starts_with(beginning),
                None => known == name,
            })
        };
        let over: Vec<_> = named.iter().filter(|name| !covered(name)).collect();
        assert!(over.is_empty(), "{id}: plugin.toml has none of {over:?}");
        let code = source(&folder.join("src")) + &engines;
        let unused: Vec<_> =
            named.iter().filter(|name| !code.contains(&format!("\"{name}\""))).collect();
        assert!(unused.is_empty(), "{id}: no code reads {unused:?}");
    }
}

/// Extensions by their names in the table of backends, and in code.
const EXTENSIONS: &[(&str, &str)] = &[
    ("allocator", "ALLOCATOR"),
    ("device-energy", "DEVICE_ENERGY"),
    ("device-memory", "DEVICE_MEMORY"),
    ("device-state", "DEVICE_STATE"),
    ("device-timer", "DEVICE_TIMER"),
    ("profile", "PROFILE"),
    ("stage-times", "STAGE_TIMES"),
    ("threads", "EXTENSION_THREADS"),
];

#[test]
fn the_table_of_backends_names_the_extensions_that_they_offer() {
    let index = index();
    for (id, (folder, _)) in backends() {
        let row = index.lines().find(|line| line.starts_with(&format!("| [`{id}`]")));
        let cell = row.expect("a row").split('|').nth(6).expect("extensions");
        // Its extensions depend on an option.
        if id == "fault" {
            continue;
        }
        let code = source(&folder.join("src"));
        let words = |text: &str, end: fn(char) -> bool| -> BTreeSet<String> {
            text.split(end).map(str::to_owned).collect()
        };
        let listed = words(cell, |it| !it.is_alphanumeric() && it != '-');
        let used = words(&code, |it| !it.is_alphanumeric() && it != '_');
        for (name, constant) in EXTENSIONS {
            assert_eq!(listed.contains(*name), used.contains(*constant), "{id}: {name}");
        }
    }
}

/// Checks links between the pages, and to other files of the repository.
#[test]
fn links_of_the_pages_lead_somewhere() {
    let pages = backends().into_values().map(|(folder, _)| folder.join("README.md"));
    for page in pages.chain([repository("docs/backends/README.md")]) {
        let text = read(&page);
        for target in text.split("](").skip(1).map(|rest| rest.split(')').next().expect("an end")) {
            if target.starts_with("https://") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = page.parent().expect("a folder").join(file);
            assert!(file.exists(), "{}: {target}", page.display());
            let anchors: Vec<_> = match heading {
                "" => continue,
                _ => read(&file).lines().filter_map(anchor).collect(),
            };
            assert!(anchors.iter().any(|it| it == heading), "{}: {target}", page.display());
        }
    }
}

/// Returns the anchor of a heading.
fn anchor(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
    let kept = heading.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-'));
    Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
}
