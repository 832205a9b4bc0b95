//! Models that are architectures: from their names in a manifest to files in the user's cache.
//!
//! Checking and planning write nothing: the graph's file, whose hash covers the weights, is made in memory.
//! The files that planned cases read are written before the first case.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use host_architectures::{Architecture, Element, Input, Legal};
use host_manifest::{
    ArchitectureMention, Experiment, ManifestError, Mentions, Model, PerPrecision,
};
use host_plan::Plan;
use host_record::{CaseSpec, FileId, InputSource, ModelStructure, Precision, SyntheticInput};

use crate::error::{Error, Result};
use crate::observer::{Observer, Progress};

/// Length of sequences if the matrix has no axis for it.
const SEQUENCE: u64 = 128;

/// Name of the axis that counts the positions of a sequence.
const SEQUENCE_AXIS: &str = "sequence";

/// The models of an experiment that are architectures.
#[derive(Debug, Default)]
pub(crate) struct Architectures {
    /// By their id in the experiment.
    known: BTreeMap<String, Known>,
    files: HashMap<FileId, host_architectures::Model>,
}

#[derive(Debug)]
struct Known {
    architecture: Architecture,
    longest_sequence: Option<u64>,
}

impl Architectures {
    /// Finds the architectures that an experiment names, and puts one model into it for each.
    pub(crate) fn find(
        experiment: &mut Experiment,
        mentions: &[ArchitectureMention],
    ) -> Result<Self, Vec<ManifestError>> {
        let mut found = Self::default();
        let mut errors = Vec::new();
        for mention in mentions {
            let model = experiment.models.iter().find(|model| model.id == mention.model);
            let Some((model, text)) = model.and_then(|it| Some((it, it.architecture.clone()?)))
            else {
                continue;
            };
            let architectures = match Architecture::of(&text) {
                Ok(architectures) => architectures,
                Err(error) => {
                    errors.push(ManifestError {
                        message: error.to_string(),
                        span: mention.place.clone(),
                        label: "not an architecture".into(),
                        hint: error.hint(),
                    });
                    continue;
                }
            };
            let is_group = Architecture::is_group(&text);
            let template = model.clone();
            let models = architectures.into_iter().map(|architecture| {
                let id = if is_group { architecture.name() } else { &template.id }.to_owned();
                let sample = architecture.model(Element::Fp32, experiment.seed);
                let model = Model {
                    id: id.clone(),
                    inputs: inputs(&template.inputs, &sample, experiment),
                    architecture: Some(architecture.to_string()),
                    ..template.clone()
                };
                // A model of its own takes the place of one in a category.
                let mut others = experiment.models.iter().filter(|other| other.id != template.id);
                if others.all(|other| other.id != id) {
                    let longest_sequence = sample.longest_sequence();
                    found.known.insert(id, Known { architecture, longest_sequence });
                }
                model
            });
            let models: Vec<_> = models.collect();
            experiment.replace_model(&template.id, models);
        }
        if errors.is_empty() { Ok(found) } else { Err(errors) }
    }

    /// Returns the files of a model, one for each format, if it is an architecture. They lie in `cache` once
    /// they are needed.
    pub(crate) fn files_of(&mut self, id: &str, seed: u64) -> Option<PerPrecision<FileId>> {
        let architecture = &self.known.get(id)?.architecture;
        let mut each = BTreeMap::new();
        for element in Element::ALL {
            let model = architecture.model(element, seed);
            let file = FileId {
                name: architecture.to_string(),
                sha256: model.sha256(),
                parts: Vec::new(),
            };
            each.insert(precision(element), file.clone());
            self.files.insert(file, model);
        }
        Some(PerPrecision::Each(each))
    }

    /// Returns the structure of each file, as a plan takes it.
    pub(crate) fn structures(&self) -> impl Iterator<Item = (FileId, ModelStructure)> + '_ {
        self.files.iter().map(|(file, model)| {
            let read =
                host_onnx::Model::of_bytes(model.file()).expect("a model is written as ONNX");
            (file.clone(), read.facts.structure())
        })
    }

    /// Returns each file with its path in the cache.
    pub(crate) fn paths<'a>(
        &'a self,
        cache: &'a Path,
    ) -> impl Iterator<Item = (FileId, PathBuf)> + 'a {
        self.files.iter().map(move |(file, model)| (file.clone(), model.path(cache)))
    }

    /// Returns why a planned case asks for something that its architecture does not have.
    pub(crate) fn refusal(&self, plan: &Plan, mentions: &Mentions) -> Option<ManifestError> {
        if self.known.is_empty() {
            return None;
        }
        plan.items().find_map(|item| {
            let key = item.key();
            let Known { architecture, longest_sequence } = self.known.get(&key.model)?;
            let name = architecture.name();
            let (length, most) = (u64::from(key.tokens()?), (*longest_sequence)?);
            (length > most).then(|| ManifestError {
                message: format!(
                    "`{name}` takes sequences of at most {most} positions, got {length}"
                ),
                span: mentions.matrix.clone().unwrap_or(0..0),
                label: "cannot be planned".into(),
                hint: Some(format!(
                    "give shorter ones, or more positions: `{name}:positions={length}`"
                )),
            })
        })
    }

    /// Writes the files that cases read, and that are not there yet, to the cache.
    pub(crate) fn write(
        &self,
        cases: impl Iterator<Item = CaseSpec>,
        cache: Result<PathBuf>,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        let cache = &cache?;
        let mut written = HashSet::new();
        for case in cases {
            let reference = case.check.as_ref().map(|check| &check.model);
            for file in std::iter::once(&case.model).chain(reference) {
                let Some(model) = self.files.get(file) else { continue };
                if !written.insert(file.clone()) {
                    continue;
                }
                let mut is_shown = false;
                let written = model.ensure(cache, &mut |bytes| {
                    if !is_shown {
                        let total = model.bytes();
                        observer.progress(Progress::Writing { model: &file.name, bytes: total });
                        is_shown = true;
                    }
                    observer.progress(Progress::WrittenBytes(bytes));
                });
                if is_shown {
                    observer.progress(Progress::WritingEnded);
                }
                written.map_err(|error| Error::io(error.action, &error.path, error.source))?;
            }
        }
        Ok(())
    }
}

fn precision(element: Element) -> Precision {
    match element {
        Element::Fp32 => Precision::Fp32,
        Element::Fp16 => Precision::Fp16,
        Element::Bf16 => Precision::Bf16,
        Element::Int8 => Precision::Int8,
    }
}

/// Returns the inputs of a model: those that the manifest gives, and legal values for the others.
fn inputs(
    given: &InputSource,
    model: &host_architectures::Model,
    experiment: &Experiment,
) -> InputSource {
    let InputSource::Synthetic(given) = given else { return given.clone() };
    let longest = model.longest_sequence().unwrap_or(SEQUENCE);
    let has_length = !experiment.matrix.tokens().is_empty();
    let drawn = |input: &Input| {
        let (low, high) = match input.legal {
            Legal::Numbers => (0.0, 1.0),
            Legal::Below(count) => (0.0, (count - 1) as f64),
            Legal::Ones => (1.0, 1.0),
        };
        let is_open = input.axes.contains(&host_architectures::Axis::Sequence) && !has_length;
        let length = (SEQUENCE_AXIS.to_owned(), SEQUENCE.min(longest));
        let dimensions = is_open.then_some(length).into_iter().collect();
        (input.name.clone(), SyntheticInput { dimensions, low: Some(low), high: Some(high) })
    };
    let mut all: BTreeMap<_, _> = model.inputs().iter().map(drawn).collect();
    for (name, own) in given {
        let drawn = all.entry(name.clone()).or_insert_with(|| own.clone());
        drawn.low = own.low.or(drawn.low);
        drawn.high = own.high.or(drawn.high);
        drawn.dimensions.extend(own.dimensions.clone());
    }
    InputSource::Synthetic(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(model: &str, matrix: &str) -> (Experiment, Mentions) {
        let text = format!(
            "schema = 1\n[experiment]\nname = \"e\"\n{model}\n[[backend]]\nid = \"cpu\"\n[matrix]\n{matrix}"
        );
        let host_manifest::Reading { experiment, mentions } = host_manifest::read(&text);
        (experiment.expect("it is right"), mentions)
    }

    fn found(model: &str, matrix: &str) -> (Experiment, Architectures) {
        let (mut experiment, mentions) = experiment(model, matrix);
        let architectures = Architectures::find(&mut experiment, &mentions.architectures);
        (experiment, architectures.expect("they are known"))
    }

    #[test]
    fn a_category_becomes_a_model_for_each_member_except_those_that_are_given() {
        let models = "[[model]]\nid = \"mine\"\narchitecture = \"audio\"\n[[model]]\nid = \"gpt2\"\npath = \"m\"\n\
                      [[model]]\nid = \"g\"\narchitecture = \"generation\"";
        let (experiment, mut architectures) = found(models, "model = [\"g\"]");
        let ids: Vec<_> = experiment.models.iter().map(|model| model.id.as_str()).collect();
        assert_eq!(ids, ["whisper_tiny", "gpt2", "llama_1b", "t5_small"]);
        assert_eq!(experiment.matrix.model, ["gpt2", "llama_1b", "t5_small", "whisper_tiny"]);
        assert_eq!(architectures.files_of("gpt2", 0), None, "it is a file");
        let PerPrecision::Each(files) = architectures.files_of("t5_small", 0).expect("one") else {
            panic!("a file for each format")
        };
        assert_eq!(files.len(), 4);
        assert_eq!(files[&Precision::Fp16].name, "t5_small");
        assert_ne!(files[&Precision::Fp16].sha256, files[&Precision::Fp32].sha256);
    }

    #[test]
    fn inputs_are_drawn_among_the_legal_ones_unless_the_manifest_says_otherwise() {
        let model = "[[model]]\nid = \"b\"\narchitecture = \"bert_base:positions=64\"\n\
                     [model.inputs]\ntoken_type_ids = { high = 0 }";
        let (experiment, _) = found(model, "");
        let InputSource::Synthetic(drawn) = &experiment.models[0].inputs else { panic!("drawn") };
        let range = |name: &str| (drawn[name].low, drawn[name].high);
        assert_eq!(range("input_ids"), (Some(0.0), Some(30521.0)));
        assert_eq!(range("attention_mask"), (Some(1.0), Some(1.0)));
        assert_eq!(range("token_type_ids"), (Some(0.0), Some(0.0)));
        assert_eq!(drawn["input_ids"].dimensions["sequence"], 64, "it has no more positions");
        let (experiment, _) = found(model, "sequence-length = [16]");
        let InputSource::Synthetic(drawn) = &experiment.models[0].inputs else { panic!("drawn") };
        assert!(drawn["input_ids"].dimensions.is_empty(), "the axis says it");
    }

    #[test]
    fn an_unknown_name_is_underlined_and_the_nearest_one_suggested() {
        let model = "[[model]]\nid = \"b\"\narchitecture = \"resnet5\"";
        let (mut experiment, mentions) = experiment(model, "");
        let errors = Architectures::find(&mut experiment, &mentions.architectures);
        let errors = errors.expect_err("there is none");
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].message, "there is no architecture `resnet5`");
        assert_eq!(errors[0].hint.as_deref(), Some("did you mean `resnet50`?"));
        assert_eq!(errors[0].span, mentions.architectures[0].place);
    }
}
