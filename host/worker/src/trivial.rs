//! Outputs that say nothing: none at all, all of one value, or infinite. Two engines agree on them whatever they compute, so a
//! comparison with a reference proves little.

use host_record::Doubt;
use plugin_api::client::{DataType, TensorData};

use crate::outputs::to_f32;

/// Returns the doubt about an output. Whole numbers, such as classes, may well be the same.
pub(crate) fn doubt(name: &str, output: &TensorData) -> Option<Doubt> {
    if output.shape.contains(&0) {
        let output = name.to_owned();
        return Some(Doubt::TrivialOutput {
            output,
            values: 0,
            infinite_values: 0,
            constant: None,
        });
    }
    let is_real =
        matches!(output.dtype, DataType::F64 | DataType::F32 | DataType::F16 | DataType::BF16);
    let values = to_f32(output).filter(|values| is_real && values.len() > 1)?;
    let infinite = values.iter().filter(|value| value.is_infinite()).count();
    let is_constant = values.windows(2).all(|pair| pair[0] == pair[1]);
    (is_constant || infinite > 0).then(|| Doubt::TrivialOutput {
        output: name.to_owned(),
        values: values.len() as u64,
        infinite_values: infinite as u64,
        constant: values
            .first()
            .filter(|value| is_constant && value.is_finite())
            .map(|it| f64::from(*it)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(values: &[f32]) -> Option<String> {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let shape = vec![values.len() as i64];
        let output = TensorData { dtype: DataType::F32, shape, bytes };
        doubt("y", &output).map(|doubt| doubt.to_string())
    }

    #[test]
    fn outputs_of_one_value_are_told() {
        insta::assert_snapshot!(told(&[0.0, -0.0, 0.0]).expect("zeros"), @"all 3 values of output `y` are 0, which any engine could answer; inputs with other values may tell more");
        insta::assert_snapshot!(told(&[0.5; 4]).expect("one value"), @"all 4 values of output `y` are 0.5, which any engine could answer; inputs with other values may tell more");
        insta::assert_snapshot!(told(&[f32::INFINITY; 4]).expect("all infinite"), @"4 of 4 values of output `y` are infinite, which any engine could answer; inputs with other values may tell more");
        insta::assert_snapshot!(told(&[1.0, f32::NEG_INFINITY]).expect("some infinite"), @"1 of 2 values of output `y` are infinite, which any engine could answer; inputs with other values may tell more");
        assert_eq!(told(&[1.0, 2.0]), None);
        assert_eq!(told(&[0.0]), None, "a single number is what it is");
        assert_eq!(told(&[f32::NAN; 2]), None, "that is another matter");
        insta::assert_snapshot!(told(&[]).expect("nothing"), @"output `y` is empty, which any engine could answer; inputs with other values may tell more");
        let boxes = TensorData { dtype: DataType::I64, shape: vec![0, 3], bytes: Vec::new() };
        assert!(doubt("boxes", &boxes).is_some(), "no whole numbers either");
        let classes = TensorData { dtype: DataType::U8, shape: vec![2], bytes: vec![7, 7] };
        assert_eq!(doubt("y", &classes), None);
    }
}
