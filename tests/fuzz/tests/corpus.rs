//! Runs every input of the corpora, so that faults found by fuzzing stay fixed.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use fuzz::TARGETS;

/// Time limit far above that of any input, so that only a hang exceeds it.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn every_input_that_was_ever_found_is_handled() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in TARGETS {
        let folder = corpus.join(target.name);
        let entries =
            fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut inputs: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{} has no seeds", target.name);
        for input in inputs {
            let data = fs::read(&input).expect("an input");
            let started = Instant::now();
            (target.run)(&data);
            assert!(started.elapsed() < LIMIT, "{} took {:?}", input.display(), started.elapsed());
        }
    }
}
