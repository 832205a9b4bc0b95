/*!
Top-*k* accuracy over the labelled data set.

An example counts as correct if its label is among the *k* classes with the largest outputs. Ties go to the class with
the lower index, as with `argmax` of NumPy and ONNX. An example with NaN among its outputs counts as wrong, and
`not-a-number` counts these. The interval is Wilson's, at 95 % or the manifest's confidence: it covers other examples
of the same kind.

`outcomes` says of each example whether it is right, and `labels-hash` of which examples, so that two models can be compared by the examples that only one of
them has right: the bits of hexadecimal digits, the first example in the highest bit of the first digit. It is left out of
more than 64,000 examples, and of fewer with several *k*, since attributes are short.
*/

use std::collections::BTreeSet;

use host_statistics::{outcomes_text, wilson_interval};
use plugin_guest::{Case, Columns, Description, Direction, Error, Gap, Measurement, Metric};
use serde::Deserialize;

/// The columns that are read.
const OUTPUT: &str = "output";
const LABEL: &str = "label";

/// Most outcomes that are stated of a case, over all *k*: a quarter of the texts that a metric may state.
const MOST_OUTCOMES: usize = 64_000;

/// The metric.
pub struct Accuracy;

/// Options of the metric.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Options {
    /// The *k* of each accuracy to report.
    pub top: BTreeSet<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { top: [1].into() }
    }
}

impl Metric for Accuracy {
    type Options = Options;

    fn describe() -> Description {
        plugin_guest::describe!("accuracy", {
            "top" => "List of k: an example is right if its label is among the k largest outputs. Default: [1].",
        })
    }

    fn columns() -> &'static [&'static str] {
        &[OUTPUT, LABEL]
    }

    fn compute(
        case: &Case,
        columns: &Columns,
        options: Options,
    ) -> Result<Vec<Measurement>, Error> {
        if options.top.is_empty() {
            return Err(Error::Options("`top` is an empty list".into()));
        }
        if options.top.contains(&0) {
            return Err(Error::Options("`top` counts classes from 1, so 0 is invalid".into()));
        }
        let ranks = match Examples::read(columns) {
            Ok(examples) => Ok(Ranks::of(&examples, &options.top)?),
            Err(gap) => Err(gap),
        };
        Ok(options
            .top
            .iter()
            .map(|&top| measurement(top, options.top.len(), ranks.as_ref(), case.confidence()))
            .collect())
    }
}

plugin_guest::export_metric!(Accuracy);

fn measurement(
    top: usize,
    tops: usize,
    ranks: Result<&Ranks, &Gap>,
    confidence: f64,
) -> Measurement {
    let metric = format!("accuracy.top{top}");
    let ranks = match ranks {
        Ok(ranks) => ranks,
        Err(gap) => return Measurement::new(metric, Err(gap.clone()), "1", Direction::Higher),
    };
    let right = ranks.better.iter().flatten().filter(|better| **better < top).count();
    let examples = ranks.better.len();
    let not_a_number = ranks.better.iter().filter(|better| better.is_none()).count();
    let value = right as f64 / examples as f64;
    let (low, high) = wilson_interval(right as u64, examples as u64, confidence)
        .expect("there are examples, and no more are right than there are");
    let stated = Measurement::new(metric, Ok(value), "1", Direction::Higher)
        .with_interval(low, high)
        .with_attribute("confidence", confidence.to_string())
        .with_attribute("interval", "Wilson")
        .with_attribute("examples", examples.to_string())
        .with_attribute("right", right.to_string())
        .with_attribute("not-a-number", not_a_number.to_string());
    if examples.saturating_mul(tops) > MOST_OUTCOMES {
        return stated;
    }
    let outcomes = ranks.better.iter().map(|better| better.is_some_and(|better| better < top));
    stated
        .with_attribute("outcomes", outcomes_text(outcomes))
        .with_attribute("labels-hash", format!("{:016x}", ranks.labels_hash))
}

/// The model's outputs, and the labels.
struct Examples<'a> {
    outputs: &'a [f32],
    classes: usize,
    labels: &'a [i64],
}

impl<'a> Examples<'a> {
    fn read(columns: &'a Columns) -> Result<Self, Gap> {
        if columns.column(LABEL).is_err() {
            return Err(Gap::not_measured("the data set has no labels"));
        }
        let labels = columns.signed(LABEL)?;
        let outputs = columns.single(OUTPUT)?;
        let classes = columns.column(OUTPUT)?.width;
        if labels.is_empty() || outputs.is_empty() {
            return Err(Gap::not_measured("the data set has no examples"));
        }
        if classes < 2 {
            return Err(Gap::unsupported(
                "the model answers with one value per example, so there are no classes to choose from",
            ));
        }
        Ok(Self { outputs, classes, labels })
    }
}

/// For each example, the number of classes ranked before its label; `None` if an output is NaN.
struct Ranks {
    better: Vec<Option<usize>>,
    /// A hash of the labels: outcomes of other examples are not comparable.
    labels_hash: u64,
}

/// The hash FNV-1a of labels, in 64 bits (G. Fowler, L. C. Noll, K.-P. Vo, D. Eastlake and T. Hansen).
fn hash(labels: &[i64]) -> u64 {
    let bytes = labels.iter().flat_map(|label| label.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Ranks {
    fn of(examples: &Examples<'_>, top: &BTreeSet<usize>) -> Result<Self, Error> {
        let Examples { outputs, classes, labels } = *examples;
        if let Some(top) = top.iter().find(|top| **top > classes) {
            return Err(Error::Options(format!(
                "`top` asks for the {top} largest of {classes} outputs"
            )));
        }
        if outputs.len() != labels.len().saturating_mul(classes) {
            return Err(Error::Other(format!(
                "{} output values at {classes} per example do not match {} labels",
                outputs.len(),
                labels.len()
            )));
        }
        let better = outputs.chunks_exact(classes).zip(labels).enumerate().map(
            |(index, (outputs, &label))| match usize::try_from(label) {
                Ok(label) if label < classes => Ok(rank(outputs, label)),
                _ => Err(Error::Other(format!(
                    "example {index} has label {label}, but the model's classes are 0 to {}",
                    classes - 1
                ))),
            },
        );
        Ok(Self { better: better.collect::<Result<_, Error>>()?, labels_hash: hash(labels) })
    }
}

fn rank(outputs: &[f32], label: usize) -> Option<usize> {
    if outputs.iter().any(|output| output.is_nan()) {
        return None;
    }
    let own = outputs[label];
    let before = outputs
        .iter()
        .enumerate()
        .filter(|&(class, &output)| output > own || (output == own && class < label));
    Some(before.count())
}

#[cfg(test)]
mod tests {
    use plugin_guest::{Column, ColumnData};

    use super::*;

    fn column(name: &str, width: usize, data: ColumnData) -> Column {
        Column { name: name.into(), unit: "1".into(), width, data }
    }

    fn compute(
        top: &[usize],
        width: usize,
        outputs: Option<Vec<f32>>,
        labels: Option<Vec<i64>>,
    ) -> Result<Vec<Measurement>, Error> {
        let outputs = outputs.map(|values| column(OUTPUT, width, ColumnData::Single(values)));
        let labels = labels.map(|values| column(LABEL, 1, ColumnData::Signed(values)));
        let columns: Vec<_> = outputs.into_iter().chain(labels).collect();
        let options = Options { top: top.iter().copied().collect() };
        Accuracy::compute(&Case::default(), &columns.into(), options)
    }

    #[test]
    fn the_label_among_the_largest_is_right() {
        let outputs = vec![
            0.1, 0.7, 0.2, // class 1, then 2
            0.5, 0.3, 0.2, // class 0, then 1
            0.0, 0.0, 1.0, // class 2, then 0
            0.4, 0.4, 0.2, // a tie of 0 and 1: 0 goes first
        ];
        let found = compute(&[1, 2, 3], 3, Some(outputs), Some(vec![1, 1, 0, 1])).unwrap();
        let values: Vec<_> = found.iter().map(|one| (&*one.metric, one.value.clone())).collect();
        assert_eq!(
            values,
            [("accuracy.top1", Ok(0.25)), ("accuracy.top2", Ok(1.0)), ("accuracy.top3", Ok(1.0)),]
        );
        assert_eq!(found[0].attributes["examples"], "4");
        assert_eq!(found[0].attributes["right"], "1");
        assert_eq!(found[0].attributes["not-a-number"], "0");
        let outcomes: Vec<_> = found.iter().map(|one| &*one.attributes["outcomes"]).collect();
        assert_eq!(outcomes, ["8", "f", "f"]);
        // scipy.stats.binomtest(1, 4).proportion_ci(method="wilson").
        let (low, high) = found[0].interval.unwrap();
        assert!((low - 0.045_587_260_809_700_55).abs() < 1e-12, "{low}");
        assert!((high - 0.699_358_157_417_598_1).abs() < 1e-12, "{high}");
    }

    #[test]
    fn not_a_number_is_wrong_and_counted() {
        let outputs = vec![9.0, f32::NAN, 9.0, 0.0, f32::INFINITY, 0.0];
        let found = compute(&[1], 2, Some(outputs), Some(vec![0, 0, 0])).unwrap();
        assert_eq!(found[0].value, Ok(2.0 / 3.0));
        assert_eq!(found[0].attributes["not-a-number"], "1");
    }

    #[test]
    fn nothing_to_compare_is_a_gap() {
        let reason = |width, outputs, labels| {
            compute(&[1], width, outputs, labels).unwrap().remove(0).value.unwrap_err().reason
        };
        assert_eq!(reason(2, Some(vec![0.0, 1.0]), None), "the data set has no labels");
        assert_eq!(reason(2, None, Some(vec![1])), "the case has no record of `output`");
        assert_eq!(reason(2, Some(vec![]), Some(vec![])), "the data set has no examples");
        assert_eq!(
            reason(1, Some(vec![0.5]), Some(vec![0])),
            "the model answers with one value per example, so there are no classes to choose from"
        );
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        let error = |top: &[usize], outputs, labels| {
            compute(top, 2, Some(outputs), Some(labels)).unwrap_err().to_string()
        };
        assert_eq!(
            error(&[1], vec![0.0, 1.0, 1.0, 0.0], vec![1, 2]),
            "example 1 has label 2, but the model's classes are 0 to 1"
        );
        assert_eq!(
            error(&[1], vec![0.0, 1.0], vec![-1]),
            "example 0 has label -1, but the model's classes are 0 to 1"
        );
        assert_eq!(
            error(&[1], vec![0.0, 1.0, 1.0], vec![1]),
            "3 output values at 2 per example do not match 1 labels"
        );
        assert_eq!(
            error(&[3], vec![0.0, 1.0], vec![1]),
            "options: `top` asks for the 3 largest of 2 outputs"
        );
        assert_eq!(
            error(&[0], vec![0.0, 1.0], vec![1]),
            "options: `top` counts classes from 1, so 0 is invalid"
        );
        assert_eq!(error(&[], vec![0.0, 1.0], vec![1]), "options: `top` is an empty list");
    }
}
