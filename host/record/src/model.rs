//! Inputs and outputs of a model as it declares them, the meaning of their axes, and what keeps a case from
//! having shapes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::words::list;

/// Structure of a model's file, as far as it can be read without the weights.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ModelStructure {
    /// Inputs and outputs; `None` if only the engine that loads the file can tell them.
    pub signature: Option<Signature>,
    /// Files that hold weights, relative to the model's folder.
    pub weights: Vec<String>,
    /// Size of all weights, wherever they lie; `None` if only the engine can tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_bytes: Option<u64>,
    /// Bits of an element of inputs and outputs, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub element_bits: BTreeMap<String, u64>,
    /// Inputs and outputs that are truth values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truth_values: Vec<String>,
    /// Values that inputs must have to be legal, by the input's name.
    pub values: BTreeMap<String, LegalValues>,
}

/// Legal values of an input, as the graph tells them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum LegalValues {
    /// Positions in a table: from 0 to one less than its entries.
    Index {
        /// Entries of the smallest table that it is looked up in.
        entries: u64,
        /// The operator that looks it up, such as `Gather`.
        operator: String,
    },
    /// Any number, of which only those from 0 to one less than `entries` differ: the others wrap around, or name
    /// nothing.
    Below {
        /// Numbers that differ.
        entries: u64,
        /// The operator that tells, such as `OneHot`.
        operator: String,
    },
    /// Positions in a table, after other numbers have gone into them. Which ones are legal cannot be guessed.
    Computed {
        /// Entries of the smallest table that the result is looked up in.
        entries: u64,
        /// The operator that computes with it, such as `Mul`.
        operator: String,
    },
    /// A mask: everything is valid.
    Ones,
    /// Places in a sequence: 0, 1, 2, … along the last axis.
    Positions {
        /// Entries of the table of positions, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entries: Option<u64>,
    },
    /// It steers the model: how often a loop runs, which branch is taken, or a size. That cannot be guessed.
    Steers,
}

/// Inputs and outputs of a model, each in its own order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Signature {
    /// Inputs.
    pub inputs: Vec<Port>,
    /// Outputs.
    pub outputs: Vec<Port>,
}

/// An input or output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its axes; `None` if the model does not say how many it has.
    pub axes: Option<Vec<PortAxis>>,
}

/// An axis of an input or output.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PortAxis {
    /// Always this size.
    Fixed(u64),
    /// Dynamic: a symbol, an expression over symbols, or empty.
    Dynamic(String),
}

/// An axis, as a manifest names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AxisName {
    /// All axes of inputs with this symbol.
    Symbol(String),
    /// An axis of an input by its number.
    Input {
        /// The input.
        input: String,
        /// The axis, from 0.
        axis: u32,
    },
    /// An axis of an output by its number.
    Output {
        /// The output.
        output: String,
        /// The axis, from 0.
        axis: u32,
    },
}

/// Meaning and sizes of a model's axes, as far as its manifest declares them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct AxesChoice {
    /// Axes that count examples; `None` leaves it to the default rule, an empty list says that there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Vec<AxisName>>,
    /// Axes that count the tokens of a sequence, in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<Vec<AxisName>>,
    /// Sizes of symbols, in all inputs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, u64>,
}

impl AxesChoice {
    /// Returns whether everything is left to the default rule.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Meaning of the axes of a model's inputs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AxesUse {
    /// Axes that count examples.
    pub batch: AxisUse,
    /// Axes that count the tokens of a sequence.
    pub sequence: AxisUse,
}

/// Axes of inputs that have one meaning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AxisUse {
    /// Whether the manifest declares it; otherwise it follows from the default rule.
    pub declared: bool,
    /// The axes.
    pub places: Vec<AxisPlace>,
}

/// An axis of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AxisPlace {
    /// The input.
    pub input: String,
    /// The axis, from 0.
    pub axis: u32,
    /// Its size, as the model declares it.
    pub size: PortAxis,
}

impl fmt::Display for AxisUse {
    /// Writes `` `batch` ``, or `axis 0 of `x` `, or `none`; then `(declared)` if the manifest says so.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said: Vec<String> = Vec::new();
        for AxisPlace { input, axis, size } in &self.places {
            let words = match size {
                PortAxis::Dynamic(symbol) if symbol.is_empty() => {
                    format!("axis {axis} of `{input}`")
                }
                PortAxis::Dynamic(symbol) => format!("`{symbol}`"),
                PortAxis::Fixed(size) => format!("axis {axis} of `{input}`, fixed at {size}"),
            };
            if !said.contains(&words) {
                said.push(words);
            }
        }
        match said.is_empty() {
            true => formatter.write_str("none")?,
            false => formatter.write_str(&list(&said, "and"))?,
        }
        if self.declared { formatter.write_str(" (declared)") } else { Ok(()) }
    }
}

/// An axis of an input that has no size yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OpenAxis {
    /// The input.
    pub input: String,
    /// The axis, from 0.
    pub axis: u32,
    /// Its symbol, or one of an expression; possibly empty.
    pub symbol: String,
    /// The expression that the symbol is of, if the axis is not the symbol itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
}

/// Reason why a case has no shapes: the model cannot do it, or the manifest does not fit the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "obstacle", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum AxisObstacle {
    /// The model has no batch axis, and the case wants a batch.
    NoBatchAxis {
        /// Size of the case's batch.
        batch: u64,
        /// An input whose first axis is fixed, which the manifest could declare.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fixed_first: Option<FixedAxis>,
    },
    /// The model's batch axis is fixed at another size.
    FixedBatch {
        /// The axis.
        fixed: FixedAxis,
        /// Size of the case's batch.
        batch: u64,
    },
    /// The model has no sequence axis, and the case wants a length.
    NoSequenceAxis {
        /// The case's length.
        length: u64,
        /// Sequence axes to which the manifest itself gives a size.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sized: Vec<OpenAxis>,
    },
    /// The model's sequence axis is fixed at another size.
    FixedSequence {
        /// The axis.
        fixed: FixedAxis,
        /// The case's length.
        length: u64,
    },
    /// Axes have no size.
    Open {
        /// All of them.
        axes: Vec<OpenAxis>,
    },
    /// A symbol has two sizes.
    TwoSizes {
        /// The symbol.
        symbol: String,
        /// One of them.
        one: u64,
        /// The other.
        other: u64,
    },
    /// An expression has no size.
    NoSize {
        /// The axis.
        axis: OpenAxis,
        /// Sizes of its symbols.
        symbols: BTreeMap<String, u64>,
    },
    /// The manifest names an input or output that the model lacks.
    NoSuchPort {
        /// The name.
        name: String,
        /// The names that there are.
        found: Vec<String>,
    },
    /// The manifest names an axis that the model lacks.
    NoSuchAxis {
        /// The input or output; `None` if any would do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<String>,
        /// The axis, by symbol or number.
        axis: String,
        /// The axes that there are.
        found: Vec<PortAxis>,
    },
    /// The model does not say how many axes an input has.
    Undeclared {
        /// The input.
        input: String,
    },
}

/// An axis of an input with a fixed size.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FixedAxis {
    /// The input.
    pub input: String,
    /// The axis, from 0.
    pub axis: u32,
    /// Its size.
    pub size: u64,
}

impl AxisObstacle {
    /// Returns whether the model cannot do what the case wants, so that the case is a gap. Otherwise the
    /// manifest is incomplete or wrong.
    #[must_use]
    pub fn is_gap(&self) -> bool {
        matches!(
            self,
            Self::NoBatchAxis { .. }
                | Self::FixedBatch { .. }
                | Self::NoSequenceAxis { .. }
                | Self::FixedSequence { .. }
        )
    }
}

/// Writes axes as `[batch, 3, ?]`.
#[must_use]
pub fn shown_axes(axes: &[PortAxis]) -> String {
    let axes: Vec<_> = axes
        .iter()
        .map(|axis| match axis {
            PortAxis::Fixed(size) => size.to_string(),
            PortAxis::Dynamic(symbol) if symbol.is_empty() => "?".into(),
            PortAxis::Dynamic(symbol) => symbol.clone(),
        })
        .collect();
    format!("[{}]", axes.join(", "))
}

impl fmt::Display for OpenAxis {
    /// Writes `axis 2 (`width`) of `x``.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { input, axis, symbol, expression } = self;
        if let Some(expression) = expression {
            return write!(formatter, "`{symbol}` of axis {axis} (`{expression}`) of `{input}`");
        }
        match symbol.is_empty() {
            true => write!(formatter, "axis {axis} of `{input}`"),
            false => write!(formatter, "axis {axis} (`{symbol}`) of `{input}`"),
        }
    }
}

impl fmt::Display for FixedAxis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { input, axis, size } = self;
        write!(formatter, "axis {axis} of `{input}` is fixed at {size}")
    }
}

/// Writes the TOML that gives sizes to axes: symbols under `[model.axes]`, others under their input.
fn closing(axes: &[OpenAxis]) -> String {
    let is_symbol =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_');
    let mut symbols: Vec<String> = Vec::new();
    let mut inputs: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for OpenAxis { input, axis, symbol, .. } in axes {
        if is_symbol(symbol) {
            let key = if symbol.is_ascii() { symbol.clone() } else { quoted_key(symbol) };
            let size = format!("{key} = …");
            if !symbols.contains(&size) {
                symbols.push(size);
            }
        } else {
            inputs.entry(input).or_default().push(format!("{axis} = …"));
        }
    }
    let mut lines = Vec::new();
    if !symbols.is_empty() {
        lines.push(format!("`axes.sizes = {{ {} }}`", symbols.join(", ")));
    }
    for (input, axes) in inputs {
        let (input, axes) = (quoted_key(input), axes.join(", "));
        lines.push(format!("`inputs.{input}.dimensions = {{ {axes} }}`"));
    }
    list(&lines, "and")
}

/// Returns a name as a quoted key of TOML, with the escapes of JSON, which TOML shares.
#[must_use]
pub fn quoted_key(name: &str) -> String {
    serde_json::to_string(name).expect("a text is JSON")
}

impl AxisObstacle {
    /// Returns what to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoBatchAxis { fixed_first: Some(FixedAxis { input, axis, .. }), .. } => format!(
                "if that axis counts examples, write `axes.batch = {{ input = \"{input}\", axis = {axis} }}` \
                 in the `[[model]]`, otherwise use batch 1"
            ),
            Self::NoBatchAxis { fixed_first: None, .. } => {
                "name the axis that counts examples with `axes.batch` in the `[[model]]`, or use batch 1"
                    .into()
            }
            Self::FixedBatch { .. } => {
                "export the model with a dynamic batch axis, or leave this batch size out".into()
            }
            Self::NoSequenceAxis { sized, .. } if sized.is_empty() => {
                "name it with `axes.sequence` in the `[[model]]`, or leave the length out of the matrix"
                    .into()
            }
            Self::NoSequenceAxis { .. } => {
                "remove that, or leave the length out of the matrix".into()
            }
            Self::Open { axes } => {
                let them = if axes.len() == 1 { "it one" } else { "them sizes" };
                format!("give {them} in the `[[model]]` with {}", closing(axes))
            }
            Self::Undeclared { .. } => "give it a file under `data`".into(),
            Self::FixedSequence { .. }
            | Self::TwoSizes { .. }
            | Self::NoSize { .. }
            | Self::NoSuchPort { .. }
            | Self::NoSuchAxis { .. } => return None,
        })
    }

    /// Returns the reason.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::NoBatchAxis { batch, fixed_first } => {
                let fixed =
                    fixed_first.as_ref().map_or(String::new(), |fixed| format!(": {fixed}"));
                format!("the model has no batch axis for a batch of {batch}{fixed}")
            }
            Self::FixedBatch { fixed, batch } => {
                format!("the model's batch axis cannot be {batch}: {fixed}")
            }
            Self::NoSequenceAxis { length, sized } if sized.is_empty() => {
                format!("the model has no sequence axis that could be {length} long")
            }
            Self::NoSequenceAxis { length, sized } => {
                let axes: Vec<_> = sized.iter().map(ToString::to_string).collect();
                format!(
                    "no sequence axis is left that could be {length} long: the manifest gives {} another size",
                    list(&axes, "and")
                )
            }
            Self::FixedSequence { fixed, length } => {
                format!("the model's sequence axis cannot be {length} long: {fixed}")
            }
            Self::Open { axes } => {
                let names: Vec<_> = axes.iter().map(ToString::to_string).collect();
                let have = if axes.len() == 1 { "has" } else { "have" };
                format!("{} {have} no size", list(&names, "and"))
            }
            Self::TwoSizes { symbol, one, other } => {
                format!("axes called `{symbol}` have one size, and it is both {one} and {other}")
            }
            Self::NoSize { axis, symbols } => {
                let sizes: Vec<_> =
                    symbols.iter().map(|(name, size)| format!("{name} = {size}")).collect();
                format!("{axis} has no possible size with {}", list(&sizes, "and"))
            }
            Self::NoSuchPort { name, found } => match found.is_empty() {
                true => format!("the model has no input `{name}`; it has none"),
                false => {
                    format!("the model has no input `{name}`; it has `{}`", found.join("`, `"))
                }
            },
            Self::NoSuchAxis { port: Some(port), axis, found } => {
                format!("`{port}` has no dynamic axis `{axis}`: it is {}", shown_axes(found))
            }
            Self::NoSuchAxis { port: None, axis, found } => match found.is_empty() {
                true => {
                    format!("the model's inputs have no axis `{axis}`; all their axes are fixed")
                }
                false => {
                    let shown = |axis| shown_axes(std::slice::from_ref(axis));
                    let found: Vec<_> = found.iter().map(shown).collect();
                    format!(
                        "the model's inputs have no axis `{axis}`; they have {}",
                        found.join(", ")
                    )
                }
            },
            Self::Undeclared { input } => {
                format!("the model does not say which shape `{input}` has, so it cannot be drawn")
            }
        }
    }
}

impl fmt::Display for AxisObstacle {
    /// Writes the reason, and what to do about it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason())?;
        match self.hint() {
            Some(hint) => write!(formatter, "; {hint}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(input: &str, axis: u32, symbol: &str) -> OpenAxis {
        OpenAxis { input: input.into(), axis, symbol: symbol.into(), expression: None }
    }

    #[test]
    fn open_axes_are_told_with_the_toml_that_closes_them() {
        let axes = vec![
            open("x", 1, "height"),
            open("y", 1, "height"),
            open("z", 2, ""),
            open("z", 3, "floor(height/2)"),
        ];
        assert_eq!(
            AxisObstacle::Open { axes }.to_string(),
            r#"axis 1 (`height`) of `x`, axis 1 (`height`) of `y`, axis 2 of `z` and axis 3 (`floor(height/2)`) of `z` have no size; give them sizes in the `[[model]]` with `axes.sizes = { height = … }` and `inputs."z".dimensions = { 2 = …, 3 = … }`"#
        );
    }

    #[test]
    fn axes_are_named_once() {
        let place = |input: &str, size| AxisPlace { input: input.into(), axis: 0, size };
        let named = || PortAxis::Dynamic("batch".into());
        let places = vec![place("x", named()), place("y", named()), place("z", PortAxis::Fixed(1))];
        let axes = AxisUse { declared: true, places };
        assert_eq!(axes.to_string(), "`batch` and axis 0 of `z`, fixed at 1 (declared)");
        assert_eq!(AxisUse::default().to_string(), "none");
    }

    #[test]
    fn axes_are_written_as_in_a_manifest() {
        let choice = AxesChoice {
            batch: Some(vec![
                AxisName::Symbol("n".into()),
                AxisName::Input { input: "x".into(), axis: 1 },
                AxisName::Output { output: "y".into(), axis: 0 },
            ]),
            sequence: None,
            sizes: BTreeMap::new(),
        };
        let text = serde_json::to_string(&choice).expect("JSON");
        assert_eq!(text, r#"{"batch":["n",{"input":"x","axis":1},{"output":"y","axis":0}]}"#);
        assert_eq!(serde_json::from_str::<AxesChoice>(&text).expect("what was written"), choice);
    }
}
