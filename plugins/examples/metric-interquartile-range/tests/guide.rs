//! The guide shows this crate's code as it is compiled and tested.

use std::fs;
use std::path::Path;

#[test]
fn the_guide_shows_this_code() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(here.join("../../../docs/guide/metric.md")).expect("the guide");
    for (language, file) in [("toml", "Cargo.toml"), ("rust", "src/lib.rs")] {
        let code = fs::read_to_string(here.join(file)).expect("a file of this crate");
        // In the guide the crate is in another folder.
        let code = code.replace("../../../plugin-api", "../tare/plugin-api");
        assert!(
            guide.contains(&format!("```{language}\n{code}```")),
            "docs/guide/metric.md does not show {file} as it is; copy it there"
        );
    }
}
