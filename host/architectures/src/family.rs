//! A family of architectures: a name, its sizes, and the function that describes the graph.

use crate::graph::Graph;
use crate::size::{Size, Sizes, Unfit};

/// Kinds of work that architectures are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Images in.
    Vision,
    /// Text in.
    Text,
    /// Sound in.
    Audio,
    /// Several of these in.
    Multimodal,
    /// Text out, token by token.
    Generation,
}

impl Category {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Vision, Self::Text, Self::Audio, Self::Multimodal, Self::Generation];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Vision => "vision",
            Self::Text => "text",
            Self::Audio => "audio",
            Self::Multimodal => "multimodal",
            Self::Generation => "generation",
        }
    }
}

/// An architecture under its name.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) categories: &'static [Category],
    pub(crate) sizes: &'static [Size],
    pub(crate) build: fn(&mut Graph, &Sizes) -> Result<(), Unfit>,
}

pub(crate) const fn size(name: &'static str, default: u64, meaning: &'static str) -> Size {
    Size { name, default, meaning }
}

/// Rounds a number of channels to a multiple of eight that is not more than a tenth smaller, as the authors of
/// MobileNet do.
pub(crate) fn channels(wanted: f64) -> u64 {
    let rounded = ((wanted + 4.0) as u64 / 8 * 8).max(8);
    if (rounded as f64) < 0.9 * wanted { rounded + 8 } else { rounded }
}

/// Returns a number of channels times a width in per cent, rounded.
pub(crate) fn scaled(count: u64, per_cent: u64) -> u64 {
    channels(count as f64 * per_cent as f64 / 100.0)
}
