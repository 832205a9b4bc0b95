/*!
Well-known architectures by name, written as ONNX.

A family is a function that describes a graph: nodes, weights by their names in
`torchvision` and `transformers`, inputs and outputs. Its sizes can be changed. Weights are drawn from a seed, so
that nothing is downloaded, and scaled so that activations stay near unit variance: the models compute what the
trained ones compute, at their cost, and predict nothing.

Counts of parameters are those that the authors publish, and a script in `tests` loads the same weights into the
reference implementations and compares outputs.
*/

mod error;
mod families;
mod family;
mod fill;
mod graph;
mod layers;
mod model;
mod quantise;
mod size;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

pub use error::{ArchitectureError, WriteError};
pub use families::{ALL, names};
pub use family::Category;
pub use fill::Element;
pub use graph::{Axis, Input, Legal};
pub use model::Model;
pub use size::{LARGEST, Size, Unfit};

use crate::families::FAMILIES;
use crate::family::Family;
use crate::graph::Graph;
use crate::size::Sizes;

/// An architecture: a name, and sizes if they differ from those that it is known for. As text:
/// `resnet50`, or `gpt2:layers=6,width=384`.
#[derive(Clone)]
pub struct Architecture {
    family: &'static Family,
    sizes: Sizes,
}

impl FromStr for Architecture {
    type Err = ArchitectureError;

    fn from_str(text: &str) -> Result<Self, ArchitectureError> {
        let (name, given) = match text.split_once(':') {
            Some((name, given)) => (name, given.split(',').collect()),
            None => (text, Vec::new()),
        };
        if Self::is_group(text) {
            let names = Self::group(text).map(|family| family.name).collect();
            return Err(ArchitectureError::Group { word: text.into(), names });
        }
        let family = FAMILIES.iter().find(|family| family.name == name);
        let family = family.ok_or_else(|| ArchitectureError::Unknown { name: name.into() })?;
        let defaults = family.sizes.iter().map(|size| (size.name, size.default));
        let mut sizes: BTreeMap<_, _> = defaults.collect();
        let (architecture, known) = (family.name, family.sizes);
        let mut seen = Vec::new();
        for given in given {
            let (size, text) = given.split_once('=').unwrap_or((given, ""));
            let Some(value) = sizes.get_mut(size) else {
                let size = size.to_owned();
                return Err(ArchitectureError::UnknownSize { architecture, size, known });
            };
            if seen.contains(&size) {
                return Err(ArchitectureError::Twice { architecture, size: size.into() });
            }
            seen.push(size);
            *value = text.parse().ok().filter(|value| (1..=LARGEST).contains(value)).ok_or_else(
                || {
                    let (size, text) = (size.to_owned(), text.to_owned());
                    ArchitectureError::NotASize { architecture, size, text }
                },
            )?;
        }
        let architecture = Self { family, sizes: Sizes(sizes) };
        // Sizes that do not fit together are found here, and not when the model is needed.
        architecture.graph(Element::Fp32)?;
        Ok(architecture)
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.family.name)?;
        let changed = self.family.sizes.iter().filter_map(|size| {
            let value = self.sizes.get(size.name);
            (value != size.default).then_some((size.name, value))
        });
        for (index, (name, value)) in changed.enumerate() {
            let mark = if index == 0 { ':' } else { ',' };
            write!(formatter, "{mark}{name}={value}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Architecture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Architecture({self})")
    }
}

impl PartialEq for Architecture {
    fn eq(&self, other: &Self) -> bool {
        self.family.name == other.family.name && self.sizes == other.sizes
    }
}

impl Eq for Architecture {}

impl Architecture {
    /// Returns the architectures that a word stands for: one, those of a category, or all.
    ///
    /// # Errors
    ///
    /// If it stands for none.
    pub fn of(word: &str) -> Result<Vec<Self>, ArchitectureError> {
        if !Self::is_group(word) {
            return word.parse().map(|one| vec![one]);
        }
        Self::group(word).map(|family| family.name.parse()).collect()
    }

    fn group(word: &str) -> impl Iterator<Item = &'static Family> {
        FAMILIES.iter().filter(move |family| {
            word == ALL || family.categories.iter().any(|category| category.name() == word)
        })
    }

    /// Returns whether a word stands for several architectures.
    #[must_use]
    pub fn is_group(word: &str) -> bool {
        word == ALL || Category::ALL.iter().any(|category| category.name() == word)
    }

    /// Returns its name, without sizes.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.family.name
    }

    /// Returns the categories that it belongs to.
    #[must_use]
    pub fn categories(&self) -> &'static [Category] {
        self.family.categories
    }

    /// Returns its sizes, with their values.
    pub fn sizes(&self) -> impl Iterator<Item = (Size, u64)> {
        self.family.sizes.iter().map(|size| (*size, self.sizes.get(size.name)))
    }

    /// Returns the model with weights in a format, drawn from a seed. No weights are made yet.
    ///
    /// # Panics
    ///
    /// Never: sizes that do not fit together are refused when they are read, and ranges do not depend on sizes.
    #[must_use]
    pub fn model(&self, element: Element, seed: u64) -> Model {
        let is_quantised = element == Element::Int8;
        let format = if is_quantised { Element::Fp32 } else { element };
        let mut graph = self.graph(format).expect("the sizes fit together");
        if is_quantised {
            quantise::quantise(&mut graph).expect("the ranges of all operators are known");
        }
        Model::new(self.family.name, &self.to_string(), graph, seed)
    }

    fn graph(&self, element: Element) -> Result<Graph, ArchitectureError> {
        let mut graph = Graph::new(element);
        let architecture = self.family.name;
        (self.family.build)(&mut graph, &self.sizes)
            .map_err(|reason| ArchitectureError::Unfit { architecture, reason })?;
        Ok(graph)
    }
}
