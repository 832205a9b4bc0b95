//! Inputs that cases were measured with.

use crate::run::Run;

/// Headings of the columns of [`inputs`].
pub const INPUT_HEADINGS: [&str; 5] = ["model", "input", "type", "shape", "values"];

/// Returns the inputs of all cases, in the order of [`INPUT_HEADINGS`], each once.
#[must_use]
pub fn inputs(run: &Run) -> Vec<[String; 5]> {
    let mut rows = Vec::new();
    for case in &run.cases {
        let model = case.conditions().and_then(|conditions| conditions.model.as_ref());
        for input in model.iter().flat_map(|model| &model.inputs) {
            let row = [
                case.key.model.clone(),
                input.name.clone(),
                input.element_type.clone(),
                format!("{:?}", input.shape),
                input.origin.to_string(),
            ];
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
    }
    rows
}
