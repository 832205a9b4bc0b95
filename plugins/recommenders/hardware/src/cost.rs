//! Costs of samples, from prices of hours and throughputs.

use plugin_guest::Error;
use report_common::{Direction, MetricValue, Run};

use crate::options::{COST, PriceOption};

const SECONDS_OF_HOUR: f64 = 3600.0;
const SAMPLES: f64 = 1e6;

/// Adds the cost of a million samples to each case with a price and a throughput.
pub(crate) fn add(run: &mut Run, prices: &[PriceOption]) -> Result<(), Error> {
    if let Some(wrong) = prices.iter().find(|it| !(it.per_hour > 0.0 && it.per_hour.is_finite())) {
        return Err(Error::Options(format!(
            "prices: that of `{}` is not above zero",
            wrong.backend
        )));
    }
    for case in &mut run.cases {
        let of = |device: Option<&str>| {
            let is_it = |it: &&PriceOption| {
                it.backend == case.key.backend && it.device.as_deref() == device
            };
            prices.iter().find(is_it).map(|price| price.per_hour)
        };
        let Some(price) = of(Some(&case.key.device)).or_else(|| of(None)) else { continue };
        let cost = case.result("throughput.samples").map(|throughput| cost(throughput, price));
        case.results.extend(cost);
    }
    Ok(())
}

fn cost(throughput: &MetricValue, price: f64) -> MetricValue {
    let cost = |throughput: f64| price / SECONDS_OF_HOUR / throughput * SAMPLES;
    let swapped = |(low, high): (f64, f64)| (cost(high), cost(low));
    let mut attributes = throughput.attributes.clone();
    if let Some(values) = throughput.process_values() {
        let costs: Vec<String> = values.iter().map(|value| cost(*value).to_string()).collect();
        attributes.insert("process-values".to_owned(), costs.join(" "));
    }
    if let Some((low, high)) = throughput.prediction().map(swapped) {
        attributes.insert("prediction-low".to_owned(), low.to_string());
        attributes.insert("prediction-high".to_owned(), high.to_string());
    }
    MetricValue {
        metric: COST.to_owned(),
        value: throughput.value.clone().map(cost),
        interval: throughput.interval.filter(|(low, _)| *low > 0.0).map(swapped),
        unit: "price".to_owned(),
        direction: Direction::Lower,
        attributes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_the_price_of_the_time_that_samples_take() {
        let throughput = MetricValue {
            metric: "throughput.samples".into(),
            value: Ok(1000.0),
            interval: Some((500.0, 2000.0)),
            unit: "1/s".into(),
            direction: Direction::Higher,
            attributes: [
                ("process-values", "500 2000"),
                ("prediction-low", "250"),
                ("prediction-high", "4000"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        };
        // A million samples take 1,000 seconds.
        let found = cost(&throughput, 3.6);
        assert_eq!(found.value, Ok(1.0));
        assert_eq!(found.interval, Some((0.5, 2.0)));
        assert_eq!(found.process_values(), Some(vec![2.0, 0.5]));
        assert_eq!(found.prediction(), Some((0.25, 4.0)));
    }
}
