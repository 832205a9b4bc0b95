//! Facts about a model without its weights, and the engines that run it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use host_architectures::{Architecture, ArchitectureError, Element};
use host_model::{Closing, Sizes};
use host_onnx::{Facts, Model, Value};
use host_record::{AxesChoice, AxesUse, AxisPlace, LegalValues, ModelCost, PortAxis, Signature};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::quick::{self, Source};
use crate::results::RunResults;
use crate::run::{RunOptions, run};
use crate::settings::Settings;

/// A model as it is, without its weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Its file's path, or the architecture.
    pub model: String,
    /// The size of its file and of those with its weights.
    pub bytes: u64,
    /// Its parameters; of a file, the elements of its floating-point weights and constants.
    pub parameters: u64,
    /// Facts of the file.
    pub facts: Facts,
    /// Why no engine can load it, if that is known: its graph contradicts itself, or weights in other files are missing,
    /// too short, or outside of its folder.
    pub problem: Option<String>,
    /// Which axes of its inputs count examples and tokens, by the default rule.
    pub axes: AxesUse,
    /// A `[[model]]` for a manifest, with a size for each open axis and legal values for each input.
    pub block: String,
    /// Inputs whose value in the `[[model]]` is a guess: they decide what is computed, or how much.
    pub guessed: Vec<String>,
    /// The batch of a manifest: 1, or the size that the model has.
    pub batch: u64,
    /// The cost of a pass over this batch, at the sizes of the `[[model]]`.
    pub cost: ModelCost,
}

/// The part that an axis of an input plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    /// It counts the examples of a batch.
    Batch,
    /// It counts the tokens of a sequence.
    Sequence,
    /// Its size is given under `dimensions`.
    Open,
    /// Its size is the model's own.
    Fixed,
}

impl Meaning {
    /// Returns the parts of an input's axes.
    #[must_use]
    pub fn of(input: &Value, axes: &AxesUse) -> Vec<Self> {
        let is_among = |places: &[AxisPlace], index: usize| {
            places.iter().any(|place| place.input == input.name && place.axis as usize == index)
        };
        let meaning = |(index, axis): (usize, &PortAxis)| match axis {
            _ if is_among(&axes.batch.places, index) => Self::Batch,
            _ if is_among(&axes.sequence.places, index) => Self::Sequence,
            PortAxis::Fixed(_) => Self::Fixed,
            PortAxis::Dynamic(_) => Self::Open,
        };
        input.axes.iter().flatten().enumerate().map(meaning).collect()
    }
}

/// Returns which axes of a model's inputs count examples and tokens, by the default rule.
fn axes_of(signature: &Signature) -> AxesUse {
    let (choice, dimensions) = (AxesChoice::default(), BTreeMap::new());
    let sizes = Sizes { choice: &choice, dimensions: &dimensions };
    let meaning = host_model::Meaning::new(signature, sizes);
    meaning.map(|meaning| meaning.axes().clone()).unwrap_or_default()
}

/// An answer of an engine to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct EngineAnswer {
    /// The backend.
    pub backend: String,
    /// Its device.
    pub device: String,
    /// Why it does not run the model, if it does not.
    pub refusal: Option<String>,
}

/// Reads a model: a file, or an architecture by name. Weights are neither read nor made.
///
/// # Errors
///
/// If there is no such model, or a file is not an ONNX model.
pub fn inspect(word: &Path) -> Result<Inspection> {
    let architecture = word.to_str().map(str::parse::<Architecture>);
    let mut length = LENGTH;
    let (source, file, bytes) = match architecture {
        Some(Ok(architecture)) => {
            let model = architecture.model(Element::Fp32, 0);
            length = length.min(model.longest_sequence().unwrap_or(LENGTH));
            let file = Model::of_bytes(model.file()).expect("a model is written as ONNX");
            (Source::Architecture(architecture.to_string()), file, model.bytes())
        }
        Some(Err(error @ ArchitectureError::Unknown { .. })) => of_file(word, &error)?,
        Some(Err(error)) => return Err(Error::Architecture(error)),
        None => return Err(Error::FolderName { path: word.to_owned() }),
    };
    let (Source::Path(model) | Source::Architecture(model)) = source.clone();
    let name = match &source {
        Source::Path(_) => word.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        Source::Architecture(name) => name.clone(),
    };
    let facts = file.facts.clone();
    let signature = facts.structure().signature.unwrap_or_default();
    let axes = axes_of(&signature);
    let batch = fixed_batch(&axes).unwrap_or(1);
    let closing = Closing::of(&signature, batch, |symbol| usual_size(symbol, length));
    let shapes = closing.shapes(&signature, batch);
    // The inputs of an architecture are known.
    let is_file = matches!(source, Source::Path(_));
    let (guessed, inputs, sizes) = match is_file {
        true => {
            let guessed: Vec<_> = steering(&facts).collect();
            (guessed.clone(), drawn(&guessed, closing.dimensions), closing.sizes)
        }
        false => Default::default(),
    };
    let axes_of_block =
        (!sizes.is_empty()).then_some(AxesChoice { sizes, ..AxesChoice::default() });
    let id = quick::free_id(&name, &[]);
    let block = Block { model: [Entry { id, source, axes: axes_of_block, inputs }] };
    let block = commented(&toml::to_string(&block).expect("texts and numbers are TOML"));
    let cost = file.cost(&shapes);
    let parameters = facts.parameters();
    // The files of an architecture are written when they are needed.
    let problem = facts.check(word).err().filter(|_| is_file).map(|error| error.to_string());
    Ok(Inspection { model, bytes, parameters, facts, problem, axes, block, guessed, batch, cost })
}

fn of_file(word: &Path, error: &ArchitectureError) -> Result<(Source, Model, u64)> {
    let source = quick::file(word, error)?;
    let file = Model::read(word)?;
    let facts = &file.facts;
    let size = word.metadata().map_err(|error| Error::io("read", word, error))?.len();
    let of_weights = facts.files.iter().filter_map(|file| file.found);
    let bytes = size + of_weights.sum::<u64>();
    Ok((source, file, bytes))
}

/// Returns the size of the axis that counts examples, if the model fixes it.
fn fixed_batch(axes: &AxesUse) -> Option<u64> {
    axes.batch.places.iter().find_map(|place| match place.size {
        PortAxis::Fixed(size) => Some(size),
        PortAxis::Dynamic(_) => None,
    })
}

/// Runs a query of a model on every installed backend, which loads its weights. Nothing is kept.
///
/// # Errors
///
/// If no backend is installed, or the model cannot be planned.
pub fn ask_engines(
    word: &Path,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Vec<EngineAnswer>> {
    let Inspection { block, batch, .. } = inspect(word)?;
    let folder = tempfile::tempdir();
    let folder = folder.map_err(|error| Error::io("create", &std::env::temp_dir(), error))?;
    let text = format!(
        "schema = 1\n[experiment]\nname = \"inspect\"\n{block}\n[[backend]]\nid = \"{}\"\n\
         [matrix]\nbatch = {batch}\n[measure]\nwarm-up = 1\nduration = \"1ms\"\nminimum-queries = 1\n\
         [[metric]]\nplugin = \"latency\"\n[[report]]\nplugin = \"markdown\"\n",
        host_manifest::Experiment::ALL_BACKENDS
    );
    let path = folder.path().join("inspect.toml");
    let draft = crate::draft::Draft::parse(path.clone(), &path, text);
    let settings = Settings { results: Some(folder.path().to_owned()), ..settings.clone() };
    let ran = run(draft, &RunOptions::default(), &settings, observer)?;
    let cases = RunResults::read(&ran.folder)?.cases;
    let answer = |case: crate::CaseResults| {
        let refusal = case.record.reason().map(|(_, reason)| reason);
        let key = case.record.key;
        EngineAnswer { backend: key.backend, device: key.device, refusal }
    };
    Ok(cases.into_iter().map(answer).collect())
}

#[derive(Serialize)]
struct Block {
    model: [Entry; 1],
}

#[derive(Serialize)]
struct Entry {
    id: String,
    #[serde(flatten)]
    source: Source,
    #[serde(skip_serializing_if = "Option::is_none")]
    axes: Option<AxesChoice>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    inputs: BTreeMap<String, Drawn>,
}

/// How an input is drawn.
#[derive(Default, Serialize)]
struct Drawn {
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    dimensions: BTreeMap<String, u64>,
}

/// Returns the inputs that decide what is computed, or how much. All others are drawn as the graph tells.
fn steering(facts: &Facts) -> impl Iterator<Item = String> {
    let steer = facts
        .legal
        .iter()
        .filter(|(_, legal)| matches!(legal, LegalValues::Steers | LegalValues::Computed { .. }));
    steer.map(|(name, _)| name.clone())
}

fn drawn(
    guessed: &[String],
    dimensions: BTreeMap<String, BTreeMap<String, u64>>,
) -> BTreeMap<String, Drawn> {
    let with = |(name, dimensions)| (name, Drawn { dimensions, ..Drawn::default() });
    let mut inputs: BTreeMap<String, Drawn> = dimensions.into_iter().map(with).collect();
    for name in guessed {
        let input = inputs.entry(name.clone()).or_default();
        (input.low, input.high) = (Some(1), Some(1));
    }
    inputs
}

/// Returns a `[[model]]` with a comment at each value that is a guess.
fn commented(block: &str) -> String {
    let comment = |line: &str| match line.strip_prefix("[model.")?.strip_suffix(']')? {
        "axes.sizes" => {
            Some("# Guesses: the model leaves these sizes open. Set those that you use.")
        }
        table if table.ends_with(".dimensions") => Some(
            "# Guesses: the model leaves the sizes of these axes, by number, open. Set those that you use.",
        ),
        _ => Some(
            "# A guess: the values of this input decide what is computed, or how much, or they are computed with\n\
             # before they are looked up. Set a range that is legal and usual.",
        ),
    };
    let lines = block.lines().map(|line| match comment(line) {
        Some(comment) => format!("{comment}\n{line}\n"),
        None => format!("{line}\n"),
    });
    lines.collect()
}

/// Sizes of open axes by what their names contain; others have [`OTHER`].
const SIZES: [(&str, u64); 4] = [("seq", LENGTH), ("height", 224), ("width", 224), ("channel", 3)];
const OTHER: u64 = 16;
const LENGTH: u64 = 128;

fn usual_size(name: &str, length: u64) -> u64 {
    let name = name.to_lowercase();
    let size = SIZES.iter().find(|(part, _)| name.contains(part)).map_or(OTHER, |(_, size)| *size);
    if size == LENGTH { length } else { size }
}

/// A manifest for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelManifest {
    /// Its text.
    pub text: String,
    /// Inputs whose value in it is a guess: they decide what is computed, or how much.
    pub guessed: Vec<String>,
}

/// Returns a manifest for a model that runs as it is, from the template. It is written beside `folder`, so a
/// model there is named without the folder.
///
/// # Errors
///
/// As [`inspect`].
pub fn manifest_for(word: &Path, folder: &Path) -> Result<ModelManifest> {
    let Inspection { block, batch, facts, axes, guessed, .. } = inspect(word)?;
    // Those of an architecture are written when they are needed.
    if word.to_str().is_none_or(|word| word.parse::<Architecture>().is_err()) {
        facts.check(word)?;
    }
    let absolute = |path: &Path| -> Result<PathBuf> {
        let path = std::path::absolute(path);
        path.map_err(|error| Error::io("find", word, error))
    };
    let (model, folder) = (absolute(word)?, absolute(folder)?);
    let block = match (model.parent(), model.file_name()) {
        (Some(parent), Some(name)) if parent == folder => {
            let text = |path: &Path| toml::Value::from(path.to_string_lossy().as_ref()).to_string();
            block.replace(&text(&model), &text(Path::new(name)))
        }
        _ => block,
    };
    let template = host_manifest::TEMPLATE;
    let start = template.find("\n[[model]]\n").expect("the template has a model") + 1;
    let end = template[start..].find("\n\n").expect("a gap follows it") + start;
    let manifest = format!("{}{}{}", &template[..start], block.trim_end(), &template[end..]);
    // Another batch would fit no model.
    let is_open = !axes.batch.places.is_empty() && fixed_batch(&axes).is_none();
    let text = match is_open {
        true => manifest,
        false => manifest.replacen("\nbatch = [1, 8]", &format!("\nbatch = [{batch}]"), 1),
    };
    Ok(ModelManifest { text, guessed })
}

#[cfg(test)]
mod tests {
    use host_onnx::messages;

    use super::*;

    fn digits() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/data/digits.onnx")
    }

    #[test]
    fn axes_have_the_parts_that_runs_give_them() {
        use Meaning::{Batch, Fixed, Open, Sequence};
        let open = |name: &str| PortAxis::Dynamic(name.into());
        let fixed = PortAxis::Fixed;
        let of = |axes: &[PortAxis]| {
            let mut facts = Facts::read(&digits()).expect("a model");
            let axes = Some(axes.to_vec());
            let input = Value { name: "x".to_owned(), axes, ..Value::default() };
            facts.inputs = vec![input.clone()];
            Meaning::of(&input, &axes_of(&facts.structure().signature.expect("it has one")))
        };
        assert_eq!(of(&[open("batch"), open("seq_len"), fixed(8)]), [Batch, Sequence, Fixed]);
        assert_eq!(of(&[fixed(2), open("batch"), open("")]), [Fixed, Batch, Open]);
        assert_eq!(of(&[open("height"), open("width")]), [Open, Open]);
    }

    /// Writes a model with inputs of these element types and axes, and returns its path.
    fn write(folder: &Path, inputs: &[(&str, i32, &[&str])]) -> PathBuf {
        let axis = |axis: &&str| match axis.parse() {
            Ok(size) => messages::Dimension { size: Some(size), name: None },
            Err(_) => messages::Dimension { size: None, name: Some((*axis).to_owned()) },
        };
        let value = |(name, element, axes): &(&str, i32, &[&str])| {
            let shape = Some(messages::Shape { dimensions: axes.iter().map(axis).collect() });
            let tensor = Some(messages::TensorType { element: *element, shape });
            let kind = Some(messages::Type { tensor, ..Default::default() });
            messages::ValueInfo { name: (*name).to_owned(), kind }
        };
        let steered = messages::Node {
            inputs: vec!["rounds".into(), "go".into()],
            operator: "Loop".into(),
            ..Default::default()
        };
        let (nodes, inputs) = (vec![steered], inputs.iter().map(value).collect());
        let graph = messages::Graph { nodes, inputs, ..Default::default() };
        let bytes = Model::to_bytes(&messages::Model { graph: Some(graph), ..Default::default() });
        let path = folder.join("my model.onnx");
        std::fs::write(&path, bytes).expect("the folder is writable");
        path
    }

    #[test]
    fn a_block_can_be_pasted_and_closes_all_axes_without_contradiction() {
        let (float, int64) = (1, 7);
        let folder = tempfile::tempdir().expect("a folder");
        let path = write(
            folder.path(),
            &[
                ("ids", int64, &["batch", "sequence"]),
                ("attention_mask", int64, &["batch", "past + sequence"]),
                ("past", float, &["batch", "8", "past", "64"]),
                ("x", float, &["batch", "?", "2"]),
                ("plain", float, &["batch", "2"]),
                ("rounds", int64, &[]),
            ],
        );
        let inspection = inspect(&path).expect("a model");
        let block = inspection.block.replace(folder.path().to_str().expect("UTF-8"), "…");
        insta::assert_snapshot!(block, @r#"
        [[model]]
        id = "my-model"
        path = "…/my model.onnx"

        # Guesses: the model leaves these sizes open. Set those that you use.
        [model.axes.sizes]
        past = 16
        sequence = 128

        # A guess: the values of this input decide what is computed, or how much, or they are computed with
        # before they are looked up. Set a range that is legal and usual.
        [model.inputs.rounds]
        low = 1
        high = 1

        # Guesses: the model leaves the sizes of these axes, by number, open. Set those that you use.
        [model.inputs.x.dimensions]
        1 = 16
        "#);
        assert_eq!(inspection.guessed, ["rounds"]);
        let text =
            format!("schema = 1\n[experiment]\nname = \"e\"\n{block}\n[[backend]]\nid = \"cpu\"\n");
        let experiment = host_manifest::parse(&text).expect("it is right");
        assert_eq!(experiment.models[0].id, "my-model");
    }

    #[test]
    fn a_manifest_for_a_model_is_right_and_names_it_from_where_it_lies() {
        let beside = digits().canonicalize().expect("it is there");
        let folder = beside.parent().expect("a folder");
        let text = manifest_for(&beside, folder).expect("a manifest").text;
        let experiment = host_manifest::parse(&text).expect("it is right");
        assert_eq!(experiment.models[0].id, "digits");
        let paths: Vec<_> = experiment.models[0].path.values().collect();
        assert_eq!(paths, [Path::new("digits.onnx")]);
        assert_eq!(experiment.matrix.batch, [1, 8]);
        let text = manifest_for(&beside, Path::new("/")).expect("a manifest").text;
        let experiment = host_manifest::parse(&text).expect("it is right");
        let paths: Vec<_> = experiment.models[0].path.values().collect();
        assert_eq!(paths, [&beside]);
        let text = manifest_for(Path::new("gpt2:layers=2"), folder).expect("a manifest").text;
        let experiment = host_manifest::parse(&text).expect("it is right");
        assert_eq!(experiment.models[0].architecture.as_deref(), Some("gpt2:layers=2"));
    }

    #[test]
    fn a_word_for_several_architectures_is_told_what_it_stands_for() {
        for (word, one) in [("vision", "resnet50"), ("all", "gpt2")] {
            let error = inspect(Path::new(word)).expect_err("several");
            assert_eq!(error.to_string(), format!("`{word}` is not one architecture, but several"));
            let Some(crate::Hint::Text(hint)) = error.hint() else { panic!("{error:?}") };
            assert!(
                hint.starts_with("name one of `") && hint.contains(&format!("`{one}`")),
                "{hint}"
            );
            manifest_for(Path::new(word), Path::new("/")).expect_err("several");
        }
    }

    #[test]
    fn a_broken_model_is_described_with_its_problem() {
        let folder = tempfile::tempdir().expect("a folder");
        // Its loop reads `go`, which nothing makes.
        let path = write(folder.path(), &[("rounds", 7, &[])]);
        let inspection = inspect(&path).expect("facts");
        let problem = inspection.problem.expect("it is broken");
        assert!(
            problem.ends_with("is broken: a node `Loop` reads `go`, which nothing makes"),
            "{problem}"
        );
        let told = manifest_for(&path, folder.path()).expect_err("it cannot run").to_string();
        assert_eq!(told, problem);
        assert_eq!(inspect(&digits()).expect("a model").problem, None);
    }

    #[test]
    fn an_architecture_is_inspected_without_its_weights() {
        let inspection = inspect(Path::new("llama_1b")).expect("it is known");
        let index = LegalValues::Index { entries: 32000, operator: "Gather".into() };
        assert_eq!(inspection.facts.legal["input_ids"], index);
        assert_eq!(inspection.parameters, 1_100_048_384);
        assert!(inspection.bytes > 4_400_000_000, "{}", inspection.bytes);
        let flops = inspection.cost.flops.expect("its shapes are known");
        assert!(flops > 2 * 128 * 1_000_000_000, "{flops}");
        assert_eq!(inspection.block, "[[model]]\nid = \"llama_1b\"\narchitecture = \"llama_1b\"\n");
        assert_eq!(inspection.facts.metadata["tare.architecture"], "llama_1b");
    }
}
