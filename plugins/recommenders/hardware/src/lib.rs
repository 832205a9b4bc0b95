/*!
Which backend, device, batch and precision to use, from what was measured.

# What is compared

What a person chooses is a *configuration*: backend, device, precision and batch size, for one
task: model, mode and input shape. The same configuration is measured in several scenarios, each a
case, and each metric is taken from the scenario that answers for it:

- A **latency** is that of `single-stream`, one batch after another. A latency of `offline` is that
  of many batches at once and is never held against a limit.
- A **throughput** is that of `offline` for all configurations, which is what they can do when nobody
  waits, or that of `single-stream` for all where more of them have that. Throughputs of different
  scenarios are never held against each other. Where a limit is set on a latency somebody does wait,
  so the throughput is then that of `single-stream`: of the very case whose latency is held against
  the limit. The other figure is named beside it.
- **Anything else**, such as memory or accuracy, is the worse of its scenarios, since it must hold
  in all.

A configuration that failed in one of its scenarios is not compared, whatever it did in the others;
nor is one whose backend says that its figures are `simulated`; nor one that answers with nothing, or with one
value, if others answer otherwise; nor one that answers with zeros, unless a comparison with a reference has found
that this is the model's answer.

# What meeting a limit means

A configuration meets a limit if its value does. Where the metric has an interval and the limit is
inside it, the limit is met *perhaps*, and the advice says that it is not certain; a configuration
that surely meets the limits goes before one that perhaps does. A gap meets no limit and breaks
none: that configuration is not judged, and the advice says why.

# What is best

The default objectives are a low `latency.p99` and a high `throughput.samples`. Advice is given
about the objectives on which no limit is set, as that one is settled by its limit. Nothing is
recommended that another configuration *dominates*: one that is at least as good in every objective
and clearly better in one, without being clearly worse in what is considered: `memory.peak`, `accuracy.top1`, and
where devices have them, their memory (`memory.device-peak`, or by the engine's allocator
`memory.allocator-peak`) and the energy for each sample (`energy.device-per-sample`, or of the
processor `energy.package-per-sample` where the device counts none). Memory and energy of devices are
compared between those that have a figure: a processor has no device memory, which is neither good
nor bad. Two values of several processes differ *clearly* if Welch's test finds it at 5 %. Otherwise they do
if their intervals are apart, or, if either has none, by more than 5 %. Candidates that do not differ clearly from the best are named together, as a
tie.

# When a choice is certain

An interval within one process says nothing of the next, which can differ by more (T. Kalibera and R. Jones,
"Rigorous Benchmarking in Reasonable Time", ISMM 2013). So a choice is certain only if

- all that were compared have figures of several processes (`processes` in the manifest), except accuracies, which do
  not depend on the process;
- every other configuration that may meet the limits is worse, by Welch's test on the processes' values (see
  `host-statistics`). The best of many is also the luckiest. So the level of 5 % is divided by the number of
  comparisons, and of equal configurations one is certain to win in at most 5 % of all runs;
- the processes of all compared cases took turns (`order = "interleaved"`). Cases that are measured one after the other
  differ by how the machine drifted meanwhile as well, which no test over their processes can see;
- no compared case has a warning that casts doubt on the compared figure, such as a drift, a throttled processor or two
  modes;
- the limits are surely met. With several processes, a limit is held against the interval in which another process will
  lie (a prediction interval), because whoever sets a limit wants the next process to meet it.

# Costs

If the manifest has prices (`[[price]]`), each case with a throughput has a cost: the price of a million samples, which can be
limited and be an objective like a metric.

# Ranks

With several processes, the configurations are ranked in each objective, and each rank has the probability that it is right: the
part of 1,000 draws of all means, each from Student's *t* around the measured one, in which the configuration has this rank.
It is about these means, and not about the machine's drift, which a test of processes cannot see.

# Speed-up

If a run has processors and other devices, each case of another device is compared with the fastest processor that did the same:
the same task, precision, batch and scenario.

# Attributes

Each piece of advice says its `kind` (`choice`, `tie`, `closest`, `front`, `ranks`, `speed-up` or `not-judged`), its
`model`, its `confidence`, and the command that checks it (`check`); a choice or a tie also whether it is `certain` (`yes`, `no`), and by case ids with spaces
between them what was `chosen` and what was `compared`.
*/

mod advice;
mod cost;
mod judge;
mod options;
mod ranks;
mod speed_up;

use plugin_guest::{Description, Error, Recommendation, Recommender, Views};
use report_common::Run;

pub use options::{Options, PriceOption};
pub use recommender_common::limit::{LimitOption, Quantity};

/// The recommender.
pub struct Hardware;

impl Recommender for Hardware {
    type Options = Options;

    fn describe() -> Description {
        plugin_guest::describe!("hardware", {
            "limits" => "Limits to meet: objects of `metric` and `at-most` or `at-least`, a number in the metric's unit or text such as \"5ms\".",
            "objectives" => "Metrics to be best in, or the words latency, throughput, energy and cost; by default latency and throughput.",
            "prices" => "Prices of an hour of backends, which the manifest's [[price]] tables give; costs of a million samples are made of them.",
            "considered" => "Metrics that count against a configuration if it is clearly worse; by default memory.peak, accuracy.top1, and where devices have them memory.device-peak or memory.allocator-peak, and energy.device-per-sample or energy.package-per-sample.",
        })
    }

    fn recommend(views: &dyn Views, options: Options) -> Result<Vec<Recommendation>, Error> {
        let mut run = Run::read(views)?;
        cost::add(&mut run, &options.prices)?;
        advice::advise(&run, &options)
    }
}

plugin_guest::export_recommender!(Hardware);

#[cfg(test)]
mod tests;
