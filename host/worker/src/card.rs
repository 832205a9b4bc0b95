//! The card of a case's model: facts of its file and the cost of a pass, and a look at the peak of the device.

use std::path::Path;

use host_onnx::Model;
use host_record::{
    CaseSpec, Doubt, Gap, InputUse, ModelCard, ModelUse, NotMeasured, Peaks, Scenario,
};

/// Returns the card of a model for inputs of these shapes.
pub(crate) fn of(model: &Path, inputs: &[InputUse]) -> Result<ModelCard, Gap> {
    let not_onnx = |reason: String| Gap::from(NotMeasured::NotOnnx { reason });
    let name = model.file_name().unwrap_or_default().to_string_lossy();
    if model.extension().is_none_or(|extension| extension != "onnx") {
        return Err(not_onnx(format!("`{name}` is not such a file")));
    }
    let cannot =
        |error: &dyn std::fmt::Display| not_onnx(format!("`{name}` cannot be read: {error}"));
    let file = Model::read(model).map_err(|error| cannot(&error))?;
    let size = model.metadata().map_err(|error| cannot(&error))?.len();
    let of_weights = file.facts.files.iter().filter_map(|file| file.found);
    let size_of = |size: &i64| u64::try_from(*size).unwrap_or(0);
    let shapes = inputs.iter().map(|it| (it.name.clone(), it.shape.iter().map(size_of).collect()));
    Ok(ModelCard {
        bytes: of_weights.fold(size, u64::saturating_add),
        parameters: file.facts.parameters(),
        cost: file.cost(&shapes.collect()),
        operators: file.facts.operators,
        weights: file.facts.weights,
    })
}

/// Returns the doubt about a case that computes faster than its device can. `runs` are those of one query, which
/// takes `typical_ns`.
pub(crate) fn above_peak(
    case: &CaseSpec,
    model: &ModelUse,
    peaks: Option<&Result<Peaks, Gap>>,
    runs: u64,
    typical_ns: f64,
) -> Option<Doubt> {
    // A query of an open loop waits, and a step or a prompt is not one pass.
    if case.key.scenario.is_open_loop() || case.key.mode != host_record::Mode::Inference {
        return None;
    }
    let Peaks { flops_per_second, source, .. } = peaks?.as_ref().ok()?;
    let peak = *flops_per_second.as_ref().ok()?;
    let flops = *model.card.as_ref()?.as_ref().ok()?.cost.flops.as_ref().ok()?;
    let clients = match case.key.scenario {
        Scenario::ClosedLoop => case.key.clients.unwrap_or(1),
        _ => 1,
    };
    let runs = runs as f64 * f64::from(clients);
    let computed = flops as f64 * runs / typical_ns * 1e9;
    (typical_ns > 0.0 && computed > peak).then(|| Doubt::AbovePeak {
        flops_per_second: computed,
        peak_flops_per_second: peak,
        source: source.clone(),
    })
}

#[cfg(test)]
mod tests {
    use host_record::{AxesUse, ModelCost, PeakSource};

    use super::*;

    fn digits() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/data/digits.onnx")
    }

    fn image(batch: i64) -> InputUse {
        InputUse {
            name: "image".into(),
            element_type: "float32".into(),
            shape: vec![batch, 1, 8, 8],
            origin: host_record::InputOrigin::Default,
        }
    }

    #[test]
    fn a_card_has_the_cost_of_the_case_s_shapes() {
        let (one, eight) = (of(&digits(), &[image(1)]), of(&digits(), &[image(8)]));
        let (one, eight) = (one.expect("a card"), eight.expect("a card"));
        assert_eq!(one.bytes, digits().metadata().expect("a file").len());
        assert!(one.parameters > 100 && one.operator_count() > 2);
        let flops = |card: &ModelCard| card.cost.flops.clone().expect("it is counted");
        assert_eq!(flops(&eight), 8 * flops(&one));
        let other = of(Path::new("model.xml"), &[]).expect_err("not ONNX");
        assert_eq!(
            other.to_string(),
            "costs are counted over ONNX graphs, and `model.xml` is not such a file"
        );
    }

    #[test]
    fn a_case_above_the_peak_is_doubted() {
        let mut case = crate::tests::case();
        let mut card = of(&digits(), &[image(1)]).expect("a card");
        card.cost = ModelCost { flops: Ok(1_000_000), ..card.cost };
        let mut model = ModelUse {
            axes: AxesUse::default(),
            inputs: Vec::new(),
            samples: Ok(1),
            card: Some(Ok(card)),
        };
        let source = PeakSource::Table { device: "d".into(), publication: "p".into() };
        let peaks = Some(Ok(Peaks {
            flops_per_second: Ok(1e9),
            bytes_per_second: Ok(1e9),
            format: "fp32".into(),
            source,
        }));
        let doubt = |case: &CaseSpec, model: &ModelUse, runs, ns| {
            above_peak(case, model, peaks.as_ref(), runs, ns).map(|doubt| doubt.to_string())
        };
        // A million operations in a millisecond are the peak.
        assert_eq!(doubt(&case, &model, 1, 1e6), None);
        assert_eq!(
            doubt(&case, &model, 1, 0.5e6).as_deref(),
            Some(
                "2 GFLOP/s are 200 % of the device's peak, published for d (p); the peak or the count of \
                 operations is wrong"
            )
        );
        assert!(doubt(&case, &model, 2, 1e6).is_some(), "a query of two runs");
        case.key.scenario = Scenario::ClosedLoop;
        case.key.clients = Some(4);
        assert!(doubt(&case, &model, 1, 1e6).is_some(), "four clients");
        case.key.scenario = Scenario::Server;
        assert_eq!(doubt(&case, &model, 1, 0.5e6), None);
        case.key.scenario = Scenario::SingleStream;
        model.card = None;
        assert_eq!(doubt(&case, &model, 1, 0.5e6), None);
    }
}
