//! Which axes count examples and tokens.

use std::collections::BTreeMap;

use host_record::{
    AxesChoice, AxesUse, AxisName, AxisObstacle, AxisPlace, AxisUse, NotMeasured, Port, PortAxis,
    Signature,
};

use crate::expression::Expression;

/// Sizes that a manifest gives to axes.
#[derive(Debug, Clone, Copy)]
pub struct Sizes<'a> {
    /// Meaning and sizes for all inputs.
    pub choice: &'a AxesChoice,
    /// Sizes by input, then by symbol or number.
    pub dimensions: &'a BTreeMap<String, BTreeMap<String, u64>>,
}

impl Sizes<'_> {
    /// Returns the size that the manifest gives to an axis as a whole.
    pub(crate) fn of(&self, input: &str, axis: usize, symbol: &str) -> Option<u64> {
        let own = self.dimensions.get(input);
        let own = own.and_then(|own| own.get(symbol).or_else(|| own.get(&axis.to_string())));
        own.or_else(|| self.choice.sizes.get(symbol)).copied()
    }
}

/// The meaning of a model's axes.
#[derive(Debug, Clone)]
pub struct Meaning<'a> {
    pub(crate) signature: &'a Signature,
    pub(crate) sizes: Sizes<'a>,
    axes: AxesUse,
}

impl<'a> Meaning<'a> {
    /// Finds the meaning of the axes of a model's inputs.
    ///
    /// # Errors
    ///
    /// If the manifest names an input or an axis that the model lacks.
    pub fn new(signature: &'a Signature, sizes: Sizes<'a>) -> Result<Self, AxisObstacle> {
        check_names(signature, sizes)?;
        let batch = match &sizes.choice.batch {
            Some(names) => declared(signature, names)?,
            None => default(batch_axes(signature, sizes)),
        };
        let sequence = match &sizes.choice.sequence {
            Some(names) => declared(signature, names)?,
            None => default(axes(signature, sizes, |_, symbol| is_sequence(symbol))),
        };
        Ok(Self { signature, sizes, axes: AxesUse { batch, sequence } })
    }

    /// Returns the axes that count examples and tokens.
    #[must_use]
    pub fn axes(&self) -> &AxesUse {
        &self.axes
    }

    /// Returns which axis of an input counts examples.
    #[must_use]
    pub fn batch_axis(&self, input: &str) -> Option<usize> {
        self.axes.batch.places.iter().find(|place| place.input == input).map(|it| it.axis as usize)
    }

    /// Returns the number of examples in the outputs of a run, by their actual shapes; `None` stands for an
    /// output without a shape.
    ///
    /// # Errors
    ///
    /// The reason why the number of examples that a run computed is unknown.
    pub fn samples(&self, batch: u64, shapes: &[Option<Vec<i64>>]) -> Result<u64, NotMeasured> {
        let outputs = self.signature.outputs.iter().zip(shapes);
        let known = outputs.filter_map(|(port, shape)| Some((port, shape.as_ref()?)));
        let mut counted: Vec<_> = known
            .clone()
            .filter_map(|(port, shape)| Some((port, *shape.get(self.batch_axis_of_output(port)?)?)))
            .collect();
        if counted.is_empty() {
            if self.axes.batch.places.is_empty() {
                return Err(NotMeasured::NoBatchAxis);
            }
            // No axis says that it counts examples. The first one of the first output does if it has as many, unless
            // that is chance: a fixed size that no input has.
            let is_chance = |port: &Port| match port.axes.as_ref().and_then(|axes| axes.first()) {
                Some(size @ PortAxis::Fixed(2..)) => {
                    *size == PortAxis::Fixed(batch)
                        && self.axes.batch.places.iter().all(|place| place.size != *size)
                }
                _ => false,
            };
            let first = known.clone().next().filter(|(port, _)| !is_chance(port));
            counted.extend(first.and_then(|(port, shape)| Some((port, *shape.first()?))));
        }
        let wrong = counted.iter().find(|(_, size)| u64::try_from(*size) != Ok(batch));
        match (wrong, counted.is_empty()) {
            (None, false) => Ok(batch),
            (None, true) => Err(NotMeasured::NoBatchOfOutputs),
            (Some((port, size)), _) => Err(NotMeasured::BatchOfOutput {
                output: port.name.clone(),
                examples: *size,
                batch,
            }),
        }
    }

    /// Returns the axis of an output that counts examples: declared, or of a symbol that counts examples in the
    /// inputs.
    fn batch_axis_of_output(&self, port: &Port) -> Option<usize> {
        let names = self.sizes.choice.batch.iter().flatten();
        let declared = names.into_iter().find_map(|name| match name {
            AxisName::Output { output, axis } if *output == port.name => Some(*axis as usize),
            _ => None,
        });
        let counts = |axis: &PortAxis| match axis {
            PortAxis::Dynamic(symbol) => {
                !symbol.is_empty() && self.axes.batch.places.iter().any(|place| place.size == *axis)
            }
            PortAxis::Fixed(_) => false,
        };
        declared.or_else(|| port.axes.as_ref()?.iter().position(counts))
    }
}

fn default(places: Vec<AxisPlace>) -> AxisUse {
    AxisUse { declared: false, places }
}

/// Returns the dynamic axes without a size of their own for which a rule holds.
fn axes(
    signature: &Signature,
    sizes: Sizes<'_>,
    rule: impl Fn(usize, &str) -> bool,
) -> Vec<AxisPlace> {
    let mut found = Vec::new();
    for Port { name, axes } in &signature.inputs {
        for (axis, size) in axes.iter().flatten().enumerate() {
            if let PortAxis::Dynamic(symbol) = size
                && rule(axis, symbol)
                && sizes.of(name, axis, symbol).is_none()
            {
                let input = name.clone();
                found.push(AxisPlace { input, axis: axis as u32, size: size.clone() });
            }
        }
    }
    found
}

/// Returns whether a symbol stands twice in one input, as in an adjacency matrix of N × N nodes. Examples do not
/// depend on each other, so such a symbol does not count them, in no input.
fn is_squared(signature: &Signature, symbol: &str) -> bool {
    let times = |port: &Port| {
        let axes = port.axes.iter().flatten();
        axes.filter(|axis| matches!(axis, PortAxis::Dynamic(other) if other == symbol)).count()
    };
    !symbol.is_empty() && signature.inputs.iter().any(|port| times(port) > 1)
}

fn batch_axes(signature: &Signature, sizes: Sizes<'_>) -> Vec<AxisPlace> {
    let mut places = axes(signature, sizes, |axis, symbol| {
        (is_batch(symbol) || (axis == 0 && is_made_up(symbol))) && !is_squared(signature, symbol)
    });
    // An input has one: the one with the name, or else the first.
    places.sort_by_key(|place| match &place.size {
        PortAxis::Dynamic(symbol) => !is_batch(symbol),
        PortAxis::Fixed(_) => true,
    });
    let mut inputs = Vec::new();
    places.retain(|place| {
        let is_new = !inputs.contains(&place.input);
        inputs.push(place.input.clone());
        is_new
    });
    let order = |place: &AxisPlace| {
        signature.inputs.iter().position(|port| port.name == place.input).unwrap_or_default()
    };
    places.sort_by_key(order);
    let unknown = signature.inputs.iter().filter(|port| port.axes.is_none());
    let first = |port: &Port| AxisPlace {
        input: port.name.clone(),
        axis: 0,
        size: PortAxis::Dynamic(String::new()),
    };
    places.extend(unknown.map(first));
    if !places.is_empty() {
        return places;
    }
    let one = PortAxis::Fixed(1);
    let first_is_one = |port: &&Port| port.axes.iter().flatten().next() == Some(&one);
    let place = |port: &Port| AxisPlace { input: port.name.clone(), axis: 0, size: one.clone() };
    signature.inputs.iter().filter(first_is_one).map(place).collect()
}

/// Returns whether an axis of this symbol counts examples.
pub(crate) fn is_batch(symbol: &str) -> bool {
    let plain = Expression::parse(symbol).symbol().is_some();
    let symbol = symbol.to_lowercase();
    plain && (symbol.contains("batch") || matches!(&*symbol, "n" | "b" | "bs"))
}

/// Returns whether an axis of this symbol counts the tokens of a sequence.
fn is_sequence(symbol: &str) -> bool {
    let plain = Expression::parse(symbol).symbol().is_some();
    let symbol = symbol.to_lowercase();
    plain && symbol.contains("seq") && !symbol.contains("past")
}

/// Returns whether a symbol is missing or was made up by an exporter.
fn is_made_up(symbol: &str) -> bool {
    let numbered = |prefix: &str| {
        symbol
            .strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit()))
    };
    symbol.is_empty()
        || symbol.contains("_dynamic_axes_")
        || ["unk__", "s", "dim_", "dim", "Any_", "DynamicDimension.", "p2o.DynamicDimension."]
            .into_iter()
            .any(numbered)
}

/// Returns the axes that are sequence axes unless the manifest gives them a size.
pub(crate) fn sequence_axes(signature: &Signature) -> Vec<AxisPlace> {
    let (choice, dimensions) = (AxesChoice::default(), BTreeMap::new());
    let sizes = Sizes { choice: &choice, dimensions: &dimensions };
    axes(signature, sizes, |_, symbol| is_sequence(symbol))
}

/// Returns the axes of inputs that a manifest declares.
fn declared(signature: &Signature, names: &[AxisName]) -> Result<AxisUse, AxisObstacle> {
    let mut places = Vec::new();
    for name in names {
        match name {
            AxisName::Symbol(symbol) => {
                let dynamic = PortAxis::Dynamic(symbol.clone());
                let before = places.len();
                for Port { name, axes } in &signature.inputs {
                    let named =
                        axes.iter().flatten().enumerate().filter(|(_, size)| **size == dynamic);
                    places.extend(named.map(|(axis, size)| AxisPlace {
                        input: name.clone(),
                        axis: axis as u32,
                        size: size.clone(),
                    }));
                }
                if places.len() == before {
                    return Err(no_such_symbol(signature, symbol));
                }
            }
            AxisName::Input { input, axis } => {
                let size = axis_of(&signature.inputs, input, *axis)?;
                places.push(AxisPlace { input: input.clone(), axis: *axis, size });
            }
            AxisName::Output { output, axis } => {
                axis_of(&signature.outputs, output, *axis)?;
            }
        }
    }
    Ok(AxisUse { declared: true, places })
}

fn axis_of(ports: &[Port], name: &str, axis: u32) -> Result<PortAxis, AxisObstacle> {
    let port = find(ports, name)?;
    let Some(axes) = &port.axes else {
        return Ok(PortAxis::Dynamic(String::new()));
    };
    axes.get(axis as usize).cloned().ok_or_else(|| AxisObstacle::NoSuchAxis {
        port: Some(name.to_owned()),
        axis: axis.to_string(),
        found: axes.clone(),
    })
}

fn find<'a>(ports: &'a [Port], name: &str) -> Result<&'a Port, AxisObstacle> {
    ports.iter().find(|port| port.name == name).ok_or_else(|| AxisObstacle::NoSuchPort {
        name: name.to_owned(),
        found: ports.iter().map(|port| port.name.clone()).collect(),
    })
}

fn no_such_symbol(signature: &Signature, symbol: &str) -> AxisObstacle {
    let mut found: Vec<PortAxis> = Vec::new();
    for axis in signature.inputs.iter().flat_map(|port| port.axes.iter().flatten()) {
        if matches!(axis, PortAxis::Dynamic(symbol) if !symbol.is_empty()) && !found.contains(axis)
        {
            found.push(axis.clone());
        }
    }
    AxisObstacle::NoSuchAxis { port: None, axis: symbol.to_owned(), found }
}

/// Checks whether everything that the manifest gives a size to is there and dynamic.
fn check_names(signature: &Signature, sizes: Sizes<'_>) -> Result<(), AxisObstacle> {
    let has = |port: &Port, symbol: &str| {
        port.axes.iter().flatten().any(|axis| match axis {
            PortAxis::Dynamic(text) => {
                text == symbol || Expression::parse(text).symbols().contains(&symbol)
            }
            PortAxis::Fixed(_) => false,
        })
    };
    for symbol in sizes.choice.sizes.keys() {
        if !signature.inputs.iter().any(|port| has(port, symbol)) {
            return Err(no_such_symbol(signature, symbol));
        }
    }
    for (input, own) in sizes.dimensions {
        let port = find(&signature.inputs, input)?;
        let Some(axes) = &port.axes else { continue };
        for key in own.keys() {
            let by_number = key.parse().ok().and_then(|axis: usize| axes.get(axis));
            let is_dynamic = matches!(by_number, Some(PortAxis::Dynamic(_)));
            if !is_dynamic && !has(port, key) {
                return Err(AxisObstacle::NoSuchAxis {
                    port: Some(input.clone()),
                    axis: key.clone(),
                    found: axes.clone(),
                });
            }
        }
    }
    Ok(())
}
