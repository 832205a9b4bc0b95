//! Names of operators.

use crate::messages::Node;

/// The domain of the standard's operators.
const DEFAULT: &str = "ai.onnx";

/// Returns a domain's name; the standard's may be left out.
pub(crate) fn domain(name: &str) -> String {
    if name.is_empty() { DEFAULT } else { name }.to_owned()
}

/// Returns an operator's name. One of another domain than the standard's has it before a dot.
pub(crate) fn operator(node: &Node) -> String {
    match domain(&node.domain).as_str() {
        DEFAULT => node.operator.clone(),
        domain => format!("{domain}.{}", node.operator),
    }
}
