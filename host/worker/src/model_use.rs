//! Use of the model by a case, for its record.

use std::path::Path;

use host_model::{Meaning, Sizes};
use host_record::{CaseSpec, Gap, Mode, ModelUse, NotMeasured};
use plugin_api::client::{ModelInfo, TensorData};

use crate::card;
use crate::examples::Examples;
use crate::inspect;

/// Returns axes and inputs of a case, and the examples in the outputs that its first call left.
pub(crate) fn of(
    case: &CaseSpec,
    model: &ModelInfo,
    examples: &Examples,
    outputs: &[(String, TensorData)],
    file: &Path,
) -> ModelUse {
    let inputs = examples.uses();
    ModelUse {
        axes: examples.axes().clone(),
        card: Some(card::of(file, &inputs)),
        inputs,
        samples: samples(case, model, outputs).map_err(Gap::from),
    }
}

fn samples(
    case: &CaseSpec,
    model: &ModelInfo,
    outputs: &[(String, TensorData)],
) -> Result<u64, NotMeasured> {
    let (signature, dimensions) = (inspect::signature(model), case.inputs.dimensions());
    let sizes = Sizes { choice: &case.axes, dimensions: &dimensions };
    let meaning = Meaning::new(&signature, sizes).map_err(|_| NotMeasured::NoBatchAxis)?;
    let batch = u64::from(case.key.batch);
    if case.key.mode != Mode::Inference {
        // A step or a prompt answers with a loss or with tokens, however many examples it has.
        let has_axis = !meaning.axes().batch.places.is_empty();
        return if has_axis { Ok(batch) } else { Err(NotMeasured::NoBatchAxis) };
    }
    let shape = |name: &String| {
        outputs.iter().find(|(output, _)| output == name).map(|(_, data)| data.shape.clone())
    };
    let shapes: Vec<_> = model.outputs.iter().map(|info| shape(&info.name)).collect();
    meaning.samples(batch, &shapes)
}
