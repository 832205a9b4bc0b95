//! How good predictions of cases that were not measured are: on a run of many small models.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::write;
use crate::layout::{self, Profile};
use crate::shell::{At, Failed, cargo, command, relative, root, say};

/// The kept run of a card whose batches are held out.
const KEPT: &str = "20261128T143439Z-h200-1402e1";

/// Measures, or takes the folder of a run of the same manifest; then writes the page.
pub(super) fn prove(given: &[String]) -> Result<(), Failed> {
    let measured = match given {
        [folder] => PathBuf::from(folder),
        [] => measure()?,
        [_, unknown, ..] => {
            return Err(Failed::new(format!("`{unknown}` means nothing to this bench")));
        }
    };
    say("bench: held-out cases of these runs");
    let target = layout::target_folder()?.join("guests");
    let validate = |arguments: &[&OsStr]| {
        let line = cargo().args(["run", "--quiet", "--release", "--manifest-path"]);
        let line = line.arg(root().join("plugins/Cargo.toml")).arg("--target-dir").arg(&target);
        let line = line.args(["--package", "recommender-predict", "--example", "validate", "--"]);
        line.args(arguments).read()
    };
    let table = validate(&[measured.as_os_str()])?;
    let kept = root().join("docs/reference/h200").join(KEPT);
    let of_card = validate(&["--confidence".as_ref(), "0.8".as_ref(), kept.as_os_str()])?;
    let manifest = relative(&root().join("docs/reference/predict/cpu.toml"));
    write(
        "predict",
        &format!(
            "# How good predictions are\n\n\
             `cargo xtask bench predict` writes this page. It measures [`{manifest}`](predict/cpu.toml) with the backend `cpu`, \
             or takes the folder of a run of it. {}\n\n\
             Cases that were measured are held out, predicted by the recommender `predict` from the rest of their run at 90 %, \
             and compared with what was measured. *Batches* are held out one by one, if their family has a smaller and a larger \
             one. *Families* (a model, in a scenario) are held out as a whole, and predicted by their operations and bytes and \
             the peaks of the device. An error is the larger of prediction and measurement over the smaller, less 1.\n\n\
             {table}\n\
             The [kept run of ONNX Runtime on an H200](h200/README.md) has six batches with a smaller and a larger one beside \
             them: ResNet-50 and BERT, on the card in fp32 and fp16, on its machine's processor in fp32. That is too few for 90 %, which needs ten, and the recommender says so. \
             At 80 %:\n\n\
             {of_card}\n\
             The interval of a held-out case is made from the other cases alone. Theory promises that 80 % of 90 % intervals \
             hold at the least, and about 90 % do, for cases that are like those they are made from.\n",
            machine(&measured)?
        ),
    )
}

/// Returns a sentence about the machine on which a run was measured.
fn machine(run: &Path) -> Result<String, Failed> {
    let path = run.join("run.json");
    let text = fs::read_to_string(&path).at(&path)?;
    let run: Value = serde_json::from_str(&text)
        .map_err(|error| Failed::new(format!("{}: {error}", path.display())))?;
    let environment = &run["environment"];
    let processor = &environment["processor"];
    Ok(format!(
        "It was measured on {}, {} processors, {}; load of the last minute {:.1} before.",
        processor["name"].as_str().unwrap_or("an unnamed processor"),
        processor["logical"],
        environment["kernel"].as_str().unwrap_or("an unnamed kernel"),
        environment["load-average"].as_f64().unwrap_or(f64::NAN),
    ))
}

/// Measures the manifest, and returns the run's folder.
fn measure() -> Result<PathBuf, Failed> {
    let built = layout::build(Profile::Release)?;
    say("bench: measuring the cases to hold out");
    let results = layout::target_folder()?.join("predict");
    let line = command(built.join("host")).args(["--quiet", "--results"]).arg(&results);
    let _table = line.arg("run").arg(root().join("docs/reference/predict/cpu.toml")).read()?;
    let runs = results.join("runs");
    let newest = fs::read_dir(&runs).at(&runs)?.flatten().map(|entry| entry.path()).max();
    newest.ok_or_else(|| Failed::new("the run left no folder"))
}
