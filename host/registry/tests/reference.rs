//! The reference of `plugin.toml` lists every key, and no other.

use std::collections::BTreeSet;

use host_registry::{Metadata, Recipe};
use serde::de::DeserializeOwned;

/// Returns the keys that a type takes, from its own refusal of another one.
fn keys<T: DeserializeOwned + std::fmt::Debug>() -> BTreeSet<String> {
    let error = toml::from_str::<T>("no-such-key = 1").expect_err("a key that does not exist");
    let message = error.message();
    let (_, known) = message.split_once("expected one of ").expect(message);
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the names in the first column of the table with this heading.
fn listed(page: &str, heading: &str) -> BTreeSet<String> {
    let rows = page.lines().skip_while(|line| !line.starts_with(heading)).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let name = |row: &str| row.split('`').nth(1).expect("a name").to_owned();
    rows.map(name).collect()
}

#[test]
fn every_key_of_plugin_toml_is_listed() {
    let page = include_str!("../../../docs/reference/plugin-toml.md");
    let plain = |name: String| name.trim_matches(['[', ']']).to_owned();
    let of_plugins: BTreeSet<String> =
        listed(page, "| key | for |").into_iter().map(plain).collect();
    assert_eq!(of_plugins, keys::<Metadata>());
    let of_builds = listed(page, "| key of `[build]` |").into_iter().map(plain);
    let of_builds: BTreeSet<String> = of_builds.map(|name| name.replace("build.", "")).collect();
    assert_eq!(of_builds, keys::<Recipe>());
}
