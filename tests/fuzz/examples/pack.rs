//! Writes a seed for the target `run-folder`: `cargo run -p fuzz --example pack -- RUN_FOLDER CASE_ID FILE`.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, case, file] = &arguments[..] else {
        return Err("give a run folder, a case's id and a file to write".into());
    };
    Ok(std::fs::write(file, fuzz::pack(Path::new(folder), case)?)?)
}
