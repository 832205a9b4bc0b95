/*!
Meaning of a model's axes, and from it the shapes of a case's inputs. Pure: the plan asks before anything is
loaded, and the worker asks again for the model that an engine has loaded.

An axis of an input counts examples (batch) or tokens (sequence), or has a size of its own. A manifest
declares that with `[model.axes]`. For what it does not declare, the default rule is:

- **Batch**: each axis whose symbol contains `batch` or is `N`, `B` or `bs`, at any position; and the first
  axis of an input if it has no symbol, or one that an exporter has made up (`unk__12`, `s0`,
  `x_dynamic_axes_1`, `dim_0`), or if the model does not say how many axes the input has. A symbol that stands
  twice in one input (the nodes of an N × N adjacency matrix) does not count examples. If there is no such axis,
  first axes that are fixed at 1.
- **Sequence**: each axis whose symbol contains `seq` and not `past`.
- An axis to which the manifest gives a size takes no part in either.

A symbol has one size in all inputs. An axis that is an expression over symbols follows from their sizes.
Everything else is told, and nothing is guessed: an axis without a size, a batch or a length that the model
cannot take, or a symbol with two sizes, is an [`AxisObstacle`].
*/

mod closing;
mod expression;
mod meaning;
mod shapes;
#[cfg(test)]
mod testing;

pub use closing::Closing;
pub use host_record::AxisObstacle;
pub use meaning::{Meaning, Sizes};
pub use shapes::Wanted;
