//! Breaks the rules for recommenders, on request.

use plugin_guest::{
    ActiveRecommender, Description, Error, Prediction, Recommendation, RecommenderHost,
};
use serde::Deserialize;

struct Hostile;

#[derive(Deserialize)]
struct Options {
    title: String,
    cases: Vec<String>,
    /// Batches to ask for.
    #[serde(default)]
    ask: Vec<u32>,
    /// A value to predict, and its interval.
    #[serde(default)]
    predict: Option<(f64, f64, f64)>,
}

impl ActiveRecommender for Hostile {
    type Options = Options;

    fn describe() -> Description {
        plugin_guest::describe!("hostile-recommender", {
            "title" => "What to advise.",
            "cases" => "What it rests on.",
            "ask" => "Batches to ask for.",
            "predict" => "A value to predict, and its interval.",
        })
    }

    fn recommend(
        host: &mut dyn RecommenderHost,
        options: Options,
    ) -> Result<Vec<Recommendation>, Error> {
        let mut explanation = format!("There are {} views.", host.names().len());
        for batch in options.ask {
            let left = host.left().cases;
            let answer = host.ask(&options.cases[0], &[("batch", batch.to_string())], "to know");
            explanation.push_str(&format!(" With {left} left: {answer:?}."));
        }
        if let Some((value, low, high)) = options.predict {
            host.predict(vec![Prediction {
                coordinates: [("batch".to_owned(), "64".to_owned())].into(),
                metric: "latency.p50".into(),
                value,
                interval: (low, high),
                confidence: 0.9,
                unit: "ns".into(),
                cases: options.cases.clone(),
                attributes: [].into(),
            }])?;
        }
        Ok(vec![Recommendation {
            title: options.title,
            explanation,
            cases: options.cases,
            attributes: [("by".to_owned(), "guess".to_owned())].into(),
        }])
    }
}

plugin_guest::export_active_recommender!(Hostile);
