/*!
The largest batch that fits within limits, and the cheapest precision that is accurate enough.

# The largest batch

A limit on memory, or on any other metric that grows with the batch, divides the batches of a configuration into those that
fit and those that do not. Which are on which side is only known of measured ones. If the manifest lets this recommender ask
for cases (`[recommend.ask]`), it searches with real runs: it doubles the largest batch that fits until one does not, and then
halves the interval between the two, until it is narrower than `resolution`. A case that ran out of memory does not fit, and
neither does one that the plan refused because weights, inputs and outputs alone exceed `measure.memory-limit`. A case that
failed for another reason says nothing, and the search of its configuration ends there.

A value stands for itself. If the case has several processes and a limit lies inside the interval in which another process
will lie, the advice says that the largest batch is not certain to fit.

Without a grant, the advice rests on the cases of the matrix, and says what it would ask for.

# The cheapest precision

Of the precisions of a configuration whose accuracy is within `accuracy-within` of the most accurate one, the one with the
highest throughput is advised. If both accuracies are of the same labelled examples, they are compared by McNemar's test, and
the bound is held against the interval of the difference: *surely* within if all of the interval is. With `precisions` and a
grant, precisions that were not measured are asked for.
*/

mod batch;
mod options;
mod precision;

use plugin_guest::{ActiveRecommender, Description, Error, Recommendation, RecommenderHost};
use report_common::Run;

pub use options::Options;
pub use recommender_common::limit::{LimitOption, Quantity};

/// The recommender.
pub struct BatchAndPrecision;

impl ActiveRecommender for BatchAndPrecision {
    type Options = Options;

    fn describe() -> Description {
        plugin_guest::describe!("batch-and-precision", {
            "limits" => "Limits to meet: objects of `metric` and `at-most` or `at-least`, such as memory.peak and \"2 GiB\".",
            "resolution" => "Relative width at which the search for the largest batch ends; 0.05 by default.",
            "up-to" => "The largest batch that is tried; 65536 by default.",
            "precisions" => "Precisions to try besides those of the matrix, if cases may be asked for.",
            "accuracy-within" => "Accepted loss of accuracy against the most accurate precision, as a part of all examples, such as 0.01.",
        })
    }

    fn recommend(
        host: &mut dyn RecommenderHost,
        options: Options,
    ) -> Result<Vec<Recommendation>, Error> {
        options.check()?;
        let run = Run::read(host)?;
        let limits = options.limits(&run)?;
        let mut advice = Vec::new();
        let mut refused = Vec::new();
        if options.accuracy_within.is_some() {
            refused = precision::ask(host, &run, &options);
        }
        if !limits.is_empty() {
            advice.extend(batch::largest(host, &run, &limits, &options));
        }
        if let Some(within) = options.accuracy_within {
            advice.extend(precision::cheapest(&run, &limits, within, &refused));
        }
        Ok(advice)
    }
}

plugin_guest::export_active_recommender!(BatchAndPrecision);

#[cfg(test)]
mod tests;
