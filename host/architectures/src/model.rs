//! A model, ready to be written: the graph's file, and that of the weights beside it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use host_hash::sha256;
use host_onnx::Model as OnnxModel;

use crate::error::WriteError;
use crate::fill::{self, Element};
use crate::graph::{Graph, Input, element_of, value_info};
use host_onnx::messages as onnx;

/// Version of the builders: another one means other files for the same description.
const BUILDER: u32 = 1;

/// Values of a tensor begin at a multiple of this in their file, so that they can be mapped into memory.
const ALIGNMENT: u64 = 4096;

/// A model, ready to be written.
#[derive(Debug)]
pub struct Model {
    name: &'static str,
    graph: Graph,
    seed: u64,
    /// The graph's file, which names the description, the seed and the builder's version. So its hash is that
    /// of the weights, too.
    file: Vec<u8>,
    /// The size of the file of weights.
    weights: u64,
}

impl Model {
    pub(crate) fn new(name: &'static str, description: &str, graph: Graph, seed: u64) -> Self {
        let mut model = Self { name, graph, seed, file: Vec::new(), weights: 0 };
        let (tensors, weights) = model.external();
        model.weights = weights;
        model.file = OnnxModel::to_bytes(&model.message(description, tensors));
        model
    }

    /// Returns the number of its parameters.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let weights = self.graph.weights.iter().filter(|weight| weight.is_parameter);
        weights.map(|weight| weight.count()).sum()
    }

    /// Returns the content of the graph's file.
    #[must_use]
    pub fn file(&self) -> &[u8] {
        &self.file
    }

    /// Returns its inputs.
    #[must_use]
    pub fn inputs(&self) -> &[Input] {
        &self.graph.inputs
    }

    /// Returns the operators that it consists of.
    #[must_use]
    pub fn operators(&self) -> BTreeSet<&str> {
        self.graph.nodes.iter().map(|node| node.operator.as_str()).collect()
    }

    /// Returns the longest sequence that it has positions for, if it has a limit.
    #[must_use]
    pub fn longest_sequence(&self) -> Option<u64> {
        self.graph.longest
    }

    /// Returns the size of its files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.file.len() as u64 + self.weights
    }

    /// Returns the SHA-256 of the graph's file in hexadecimal. It covers the weights, since the file names all
    /// that they follow from.
    #[must_use]
    pub fn sha256(&self) -> String {
        sha256(&self.file)
    }

    /// Returns the path that [`Model::ensure`] gives it in a cache.
    #[must_use]
    pub fn path(&self, cache: &Path) -> PathBuf {
        cache.join(&self.sha256()[..16]).join(self.file_name())
    }

    fn file_name(&self) -> String {
        format!("{}.onnx", self.name)
    }

    /// Returns the name of the file of weights. Engines accept this end of a name.
    fn weights_name(&self) -> String {
        format!("{}.onnx.data", self.name)
    }

    /// Writes the model to a cache unless it is there, and returns its path. It is written under a temporary
    /// name first, so that others never see half of it. `progress` is called with the bytes that were
    /// written since the last call, and only if it is written.
    ///
    /// # Errors
    ///
    /// If the cache cannot be written to.
    pub fn ensure(
        &self,
        cache: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<PathBuf, WriteError> {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| WriteError { action, path, source }
        };
        let path = self.path(cache);
        if self.is_written(&path) {
            return Ok(path);
        }
        fs::create_dir_all(cache).map_err(failed("create", cache))?;
        let folder = tempfile::Builder::new().prefix(".writing-").tempdir_in(cache);
        let folder = folder.map_err(failed("create a folder in", cache))?;
        self.write(folder.path(), progress).map_err(failed("write", folder.path()))?;
        let place = path.parent().expect("a file lies in a folder");
        match fs::rename(folder.path(), place) {
            Ok(()) => Ok(path),
            // Another process was faster.
            Err(_) if self.is_written(&path) => Ok(path),
            // A damaged one is in the way.
            Err(_) => {
                fs::remove_dir_all(place).map_err(failed("remove the damaged", place))?;
                fs::rename(folder.path(), place).map_err(failed("create", place))?;
                Ok(path)
            }
        }
    }

    /// Returns whether the files are there and whole.
    fn is_written(&self, path: &Path) -> bool {
        let found = host_files::read(path, self.file.len() as u64);
        let weights = path.with_file_name(self.weights_name());
        let weights = weights.metadata().map(|weights| weights.len());
        found.is_ok_and(|found| found == self.file)
            && weights.is_ok_and(|size| size == self.weights)
    }

    /// Writes both files to a folder.
    fn write(&self, folder: &Path, progress: &mut dyn FnMut(u64)) -> io::Result<()> {
        fs::write(folder.join(self.file_name()), &self.file)?;
        progress(self.file.len() as u64);
        let mut file =
            BufWriter::with_capacity(1 << 20, File::create(folder.join(self.weights_name()))?);
        for weight in &self.graph.weights {
            let of = (self.seed, weight.name.as_str());
            fill::write(&weight.fill, of, weight.count(), weight.stored, &mut file, progress)?;
            let bytes = weight.count() * weight.stored.bytes();
            let padding = vec![0; (bytes.next_multiple_of(ALIGNMENT) - bytes) as usize];
            file.write_all(&padding)?;
            progress(padding.len() as u64);
        }
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }

    /// Returns the tensors of the weights, which name their places in the other file, and its size.
    fn external(&self) -> (Vec<onnx::Tensor>, u64) {
        let mut offset = 0;
        let tensors = self.graph.weights.iter().map(|weight| {
            let length = weight.count() * weight.stored.bytes();
            let external = vec![
                onnx::Entry::new("location", self.weights_name()),
                onnx::Entry::new("offset", offset),
                onnx::Entry::new("length", length),
            ];
            offset += length.next_multiple_of(ALIGNMENT);
            onnx::Tensor {
                sizes: weight.sizes.iter().map(|size| *size as i64).collect(),
                element: weight.stored.code(),
                name: weight.name.clone(),
                external,
                location: Some(1),
                ..onnx::Tensor::default()
            }
        });
        (tensors.collect(), offset)
    }

    fn message(&self, description: &str, weights: Vec<onnx::Tensor>) -> onnx::Model {
        let Graph { element, nodes, constants, inputs, outputs, .. } = &self.graph;
        // The first set of operators in which a convolution takes bf16 is 22. Older engines know 18.
        let (ir_version, version) = match element {
            Element::Fp32 | Element::Fp16 | Element::Int8 => (8, 18),
            Element::Bf16 => (10, 22),
        };
        let input =
            |input: &Input| value_info(&input.name, element_of(input, *element), &input.axes);
        onnx::Model {
            ir_version,
            producer_name: "tare".into(),
            producer_version: env!("CARGO_PKG_VERSION").into(),
            graph: Some(onnx::Graph {
                nodes: nodes.clone(),
                name: self.name.into(),
                initializers: [constants.clone(), weights].concat(),
                inputs: inputs.iter().map(input).collect(),
                outputs: (outputs.iter())
                    .map(|(value, axes)| value_info(&value.0, element.code(), axes))
                    .collect(),
                ..onnx::Graph::default()
            }),
            opset_import: vec![onnx::OperatorSet { domain: Some(String::new()), version }],
            metadata: vec![
                onnx::Entry::new("tare.architecture", description),
                onnx::Entry::new("tare.parameters", self.parameters()),
                onnx::Entry::new("tare.seed", self.seed),
                onnx::Entry::new("tare.builder", BUILDER),
            ],
            ..onnx::Model::default()
        }
    }
}
