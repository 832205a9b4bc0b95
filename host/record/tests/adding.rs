//! `docs/design/adding.md` says what adding costs; this holds it to that.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use host_record::{Axis, Mode, QUANTITIES};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A section of the page: its heading, its limit, its example and the files of its first list.
struct Section {
    heading: String,
    limit: usize,
    example: String,
    files: Vec<String>,
}

/// Returns the number and the file of a line of a list.
fn listed(line: &str) -> Option<(usize, &str)> {
    let (number, rest) = line.split_once(". `")?;
    Some((number.parse().ok()?, rest.split('`').next()?))
}

fn sections(page: &str) -> Vec<Section> {
    let section = |text: &str| {
        let heading = text.lines().next().expect("a heading").to_owned();
        let after = |words: &str| text.split(words).nth(1).unwrap_or_else(|| panic!("{heading}"));
        let limit = after("At most ").split(' ').next().and_then(|number| number.parse().ok());
        let example = after("The example is `").split('`').next().map(str::to_owned);
        // The first list ends where numbers begin again.
        let files = (1..)
            .zip(text.lines().filter_map(listed))
            .take_while(|(place, (number, _))| place == number)
            .map(|(_, (_, file))| file.to_owned())
            .collect();
        Section {
            limit: limit.expect("a number of files"),
            example: example.expect("an example"),
            files,
            heading,
        }
    };
    page.split("\n## ").skip(1).map(section).collect()
}

/// Returns the product files: sources without their tests, and everything that is compiled into them.
fn product_files(folder: &str) -> Vec<(String, String)> {
    fn visit(folder: &Path, root: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if !["tests", "examples", "target", "benches"].contains(&&*name) {
                    visit(&path, root, found);
                }
                continue;
            }
            let endings = [".rs", ".toml", ".wit", ".h", ".hpp"];
            let is_source = endings.iter().any(|ending| name.ends_with(ending));
            if !is_source || ["tests.rs", "made_up.rs"].contains(&&*name) {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a source file");
            let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let place = path.strip_prefix(root).expect("a path in the repository");
            found.push((place.to_string_lossy().into_owned(), product.to_owned()));
        }
    }
    let mut found = Vec::new();
    visit(&root().join(folder), &root(), &mut found);
    found
}

fn page() -> String {
    fs::read_to_string(root().join("docs/design/adding.md")).expect("the page")
}

#[test]
fn files_that_are_listed_exist_and_are_few() {
    let page = page();
    let sections = sections(&page);
    let headings: Vec<_> = sections.iter().map(|section| &*section.heading).collect();
    let known = ["A measured quantity", "An axis of the matrix", "A mode", "A backend", "A metric"];
    assert_eq!(headings, known);
    for Section { heading, limit, files, .. } in &sections {
        assert!(!files.is_empty() && files.len() <= *limit, "{heading}: {files:?}");
    }
    assert!(sections[0].limit <= 6 && sections[1].limit <= 8);
    for (_, file) in page.lines().filter_map(listed) {
        assert!(root().join(file).is_file(), "{file} is listed and does not exist");
    }
}

#[test]
fn the_example_of_an_axis_is_named_in_the_listed_files_and_in_no_other() {
    let section = sections(&page()).swap_remove(1);
    let axis: Axis = section.example.parse().expect("an axis");
    let variant = format!("{axis:?}");
    let names = [axis.name(), axis.column(), &variant];
    let naming: BTreeSet<String> = ["host", "plugins", "plugin-api"]
        .into_iter()
        .flat_map(product_files)
        .filter(|(_, text)| names.iter().any(|name| text.contains(name)))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(naming, section.files.into_iter().collect());
}

#[test]
fn the_example_of_a_mode_is_named_in_the_listed_files_and_in_no_other() {
    let section = sections(&page()).swap_remove(2);
    let mode: Mode = section.example.parse().expect("a mode");
    let naming: BTreeSet<String> = ["host", "plugins", "plugin-api"]
        .into_iter()
        .flat_map(product_files)
        .filter(|(_, text)| text.contains(&format!("\"{mode}\"")))
        // The metric plugin of the same name.
        .filter(|(path, _)| !["summary.rs", "warning.rs"].iter().any(|file| path.ends_with(file)))
        // The backend that shows it is listed; others have it or not.
        .filter(|(path, _)| !path.starts_with("plugins/") || path.contains("/null/"))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(naming, section.files.into_iter().collect());
}

#[test]
fn nothing_that_keeps_or_shows_names_a_quantity() {
    let example = sections(&page()).swap_remove(0).example;
    assert!(QUANTITIES.iter().any(|quantity| quantity.id == example), "{example}");
    for folder in ["host/store", "host/cli", "host/wasm", "plugins/reports", "plugins/recommenders"]
    {
        for (path, text) in product_files(folder) {
            for quantity in QUANTITIES {
                for name in [quantity.id, &quantity.column()] {
                    assert!(!text.contains(&format!("\"{name}\"")), "{path} names `{name}`");
                }
            }
        }
    }
}
