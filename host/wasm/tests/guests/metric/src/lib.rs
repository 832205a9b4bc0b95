//! Breaks the rules for metrics, on request.

use std::collections::HashMap;
use std::hint::black_box;
use std::io::Read as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plugin_guest::{
    Case, ColumnData, Columns, Description, Direction, Error, Gap, Measurement, Metric,
};
use serde::Deserialize;

struct Hostile;

#[derive(Deserialize)]
struct Options {
    act: String,
}

impl Metric for Hostile {
    type Options = Options;

    fn describe() -> Description {
        plugin_guest::describe!("hostile-metric", { "act" => "What to do." })
    }

    fn columns() -> &'static [&'static str] {
        &["latency", "output", "output.*", "label", "energy", "paged:tokens"]
    }

    fn compute(
        case: &Case,
        columns: &Columns,
        options: Options,
    ) -> Result<Vec<Measurement>, Error> {
        Ok(match options.act.as_str() {
            "echo" => echo(case, columns),
            "others" => others(columns),
            "refuse" => return Err("no latencies on a Sunday".into()),
            "panic" => panic!("the widget is broken"),
            "loop" => loop {
                black_box(());
            },
            "allocate" => {
                let mut all = Vec::new();
                loop {
                    all.push(black_box(vec![1_u8; 1 << 20]));
                }
            }
            "recurse" => vec![value("depth", recurse(0) as f64)],
            "out-of-bounds" => vec![value("there", read_out_of_bounds())],
            "clock" => {
                let start = Instant::now();
                let elapsed = start.elapsed();
                std::thread::sleep(Duration::from_secs(86_400));
                let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
                vec![
                    value("elapsed", elapsed.as_secs_f64()),
                    value("slept", start.elapsed().as_secs_f64()),
                    value("wall", wall.as_secs_f64()),
                ]
            }
            "network" => match std::net::TcpStream::connect("127.0.0.1:80") {
                Ok(_) => vec![value("connected", 1.0)],
                Err(error) => return Err(error.to_string().into()),
            },
            act @ ("pages" | "large-page") => {
                let rows = if act == "pages" { 100_000 } else { usize::MAX };
                let (mut pages, mut sum) = (0, 0);
                for page in columns.pages("tokens", rows).map_err(|gap| gap.reason)? {
                    let ColumnData::Unsigned(values) = page.map_err(|gap| gap.reason)? else {
                        return Err("tokens are no numbers".into());
                    };
                    pages += 1;
                    sum += values.iter().sum::<u64>();
                }
                vec![value("sum", sum as f64).with_attribute("pages", pages.to_string())]
            }
            "whole" => {
                let sum = columns.unsigned("tokens").map(|values| values.len() as f64);
                vec![Measurement::new("hostile-metric.whole", sum, "1", Direction::Neutral)]
            }
            "file" => match std::fs::read("/etc/passwd") {
                Ok(contents) => vec![value("bytes", contents.len() as f64)],
                Err(error) => return Err(error.to_string().into()),
            },
            "exit" => std::process::exit(0),
            "environment" => vec![
                value("variables", std::env::vars().count() as f64),
                value("arguments", std::env::args().count() as f64),
                value("input", std::io::stdin().read_to_end(&mut Vec::new()).unwrap_or(1) as f64),
            ],
            "hash-map" => {
                let map: HashMap<u32, ()> = (0..1000).map(|key| (key, ())).collect();
                let order = map.keys().fold(0_u32, |sum, key| sum.wrapping_mul(31) ^ key);
                vec![value("order", f64::from(order))]
            }
            "print" => {
                for _ in 0..100_000 {
                    eprintln!("all work and no play makes a dull plugin");
                }
                println!("\u{1b}[31mred");
                return Err("done".into());
            }
            "log" => {
                for line in 0..100_000 {
                    plugin_guest::log::information(&format!("line {line}"));
                }
                vec![value("lines", 1e5)]
            }
            "many" => (0..20_000).map(|index| value(&format!("v{index}"), 1.0)).collect(),
            "huge" => vec![value("v", 1.0).with_attribute("text", "x".repeat(200 << 20))],
            "text" => vec![value("v", 1.0).with_attribute("text", "x".repeat(100 << 20))],
            "long" => vec![value("v", 1.0).with_attribute("text", "x".repeat(1 << 20))],
            "negative" => vec![in_unit(-1.0, "ns")],
            "moody" => match columns.unsigned("latency") {
                Ok([0]) => vec![in_unit(1.0, "s")],
                Ok([1]) => vec![in_unit(1.0, "ns"), value("beyond", 1.0)],
                _ => vec![in_unit(1.0, "ns")],
            },
            "loop-on-data" if columns.unsigned("latency").is_err() => vec![],
            "loop-on-data" => loop {
                black_box(());
            },
            "name" => vec![Measurement::new("latency.p50", Ok(1.0), "ns", Direction::Lower)],
            "nan" => vec![value("v", f64::NAN)],
            "reversed" => vec![value("v", 2.0).with_interval(3.0, 1.0)],
            "gap" => vec![Measurement::new(
                "hostile-metric.gap",
                Err(Gap::unsupported("")),
                "1",
                Direction::Lower,
            )],
            other => return Err(Error::Options(format!("`{other}` is nothing it can do"))),
        })
    }
}

plugin_guest::export_metric!(Hostile);

fn value(name: &str, value: f64) -> Measurement {
    Measurement::new(format!("hostile-metric.{name}"), Ok(value), "1", Direction::Neutral)
}

fn in_unit(value: f64, unit: &str) -> Measurement {
    Measurement::new("hostile-metric.v", Ok(value), unit, Direction::Lower)
}

/// Returns the sum of each column that it got.
fn echo(case: &Case, columns: &Columns) -> Vec<Measurement> {
    let mut all = vec![
        value("attributes", case.attributes.len() as f64)
            .with_attribute("case", case.id.as_str())
            .with_attribute("attributes", format!("{:?}", case.attributes)),
    ];
    for name in ["latency", "output", "label", "energy", "start"] {
        let sum = columns.column(name).map(|column| match &column.data {
            ColumnData::Unsigned(values) => values.iter().sum::<u64>() as f64,
            ColumnData::Signed(values) => values.iter().sum::<i64>() as f64,
            ColumnData::Single(values) => f64::from(values.iter().sum::<f32>()),
            ColumnData::Double(values) => values.iter().sum::<f64>(),
            ColumnData::Boolean(values) => values.iter().filter(|value| **value).count() as f64,
            ColumnData::Text(values) => values.iter().map(String::len).sum::<usize>() as f64,
        });
        let (unit, width) = columns
            .column(name)
            .map(|column| (column.unit.clone(), column.width))
            .unwrap_or(("1".into(), 0));
        all.push(
            Measurement::new(format!("hostile-metric.{name}"), sum, unit, Direction::Higher)
                .with_attribute("width", width.to_string()),
        );
    }
    all
}

/// Returns the columns that are not numbers.
fn others(columns: &Columns) -> Vec<Measurement> {
    let texts = columns.beginning("output.").map(|(name, column)| {
        let text = match &column.data {
            ColumnData::Boolean(values) => format!("{values:?}"),
            ColumnData::Text(values) => format!("{values:?}"),
            other => format!("{other:?}"),
        };
        value(name, column.width as f64).with_attribute("values", text)
    });
    texts.collect()
}

#[expect(unconditional_recursion, reason = "that is the point")]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    black_box(recurse(depth + 1)) + frame[3]
}

fn read_out_of_bounds() -> f64 {
    let address = black_box(0x7fff_fff0_usize as *const u64);
    // SAFETY: there is none; the sandbox has to stop it.
    unsafe { address.read_volatile() as f64 }
}
