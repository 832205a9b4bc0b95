//! Breaks the rules for metrics over a run, on request.

use plugin_guest::{Description, Direction, Error, Gap, Measurement, RunMetric, View, Views};
use serde::Deserialize;

struct Hostile;

#[derive(Deserialize)]
struct Options {
    act: String,
}

impl RunMetric for Hostile {
    type Options = Options;

    fn describe() -> Description {
        plugin_guest::describe!("hostile-run-metric", { "act" => "What to do." })
    }

    fn outline(options: &Options) -> Result<Vec<Measurement>, Error> {
        if options.act == "refuse" {
            return Err(Error::Options("not on a Sunday".into()));
        }
        Ok(vec![value(Err(Gap::not_measured("nothing is measured yet")))])
    }

    fn compute(views: &dyn Views, options: &Options) -> Result<Vec<(String, Measurement)>, Error> {
        let cases = View::read(views, "cases")?;
        let count = cases.rows().len() as f64;
        let mut all = Vec::new();
        for row in cases.rows().filter(|row| row.text("outcome") == Ok("finished")) {
            all.push((row.text("case_id")?.to_owned(), value(Ok(count))));
        }
        match options.act.as_str() {
            "count" => {}
            "forget" => drop(all.pop()),
            "other-case" => all[0].0 = "decaf".into(),
            "other-unit" => all[0].1.unit = "s".into(),
            "not-finite" => all[0].1.value = Ok(f64::INFINITY),
            "panic" => panic!("the widget is broken"),
            other => return Err(Error::Options(format!("`{other}` is nothing it can do"))),
        }
        Ok(all)
    }
}

plugin_guest::export_run_metric!(Hostile);

fn value(value: Result<f64, Gap>) -> Measurement {
    Measurement::new("hostile-run-metric.cases", value, "1", Direction::Neutral)
}
