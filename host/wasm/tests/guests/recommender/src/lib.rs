//! Breaks the rules for recommenders, on request.

use plugin_guest::{Description, Error, Recommendation, Recommender, Views};
use serde::Deserialize;

struct Hostile;

#[derive(Deserialize)]
struct Options {
    title: String,
    cases: Vec<String>,
}

impl Recommender for Hostile {
    type Options = Options;

    fn describe() -> Description {
        plugin_guest::describe!("hostile-recommender", {
            "title" => "What to advise.",
            "cases" => "What it rests on.",
        })
    }

    fn recommend(views: &dyn Views, options: Options) -> Result<Vec<Recommendation>, Error> {
        Ok(vec![Recommendation {
            title: options.title,
            explanation: format!("There are {} views.", views.names().len()),
            cases: options.cases,
            attributes: [("by".to_owned(), "guess".to_owned())].into(),
        }])
    }
}

plugin_guest::export_recommender!(Hostile);
