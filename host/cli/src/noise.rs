//! The noise of this machine, in words.

use host_experiment::{Noise, NoiseOfRun, Outlook, WorkNoise, units};
use host_record::{Cell, Table};

use crate::style::Palette;

/// Returns a share in per cent.
pub(crate) fn percent(share: f64) -> String {
    if share > 1.0 {
        return "more than 100 %".to_owned();
    }
    let percent = 100.0 * share;
    let digits = if percent < 1.0 { 2 } else { 1 };
    format!("{percent:.digits$} %")
}

/// Returns what noise means for a run that is about to begin.
pub(crate) fn noise_of_run(noise: NoiseOfRun) -> String {
    let NoiseOfRun { age, deviation, outlook } = noise;
    let age = units::duration(age.as_nanos() as f64);
    let needs = |needed: Option<usize>, change: &str| match needed {
        Some(needed) => format!("a change of {change} needs {needed} processes"),
        None => format!("a change of {change} cannot be told on it"),
    };
    let outlook = match outlook {
        Outlook::OneProcess(needed) => {
            format!("one process shows no change for sure; {}", needs(needed, "5 %"))
        }
        Outlook::Processes(count, change, more) => {
            let shows = format!("{count} processes show changes from {} on", percent(change));
            match more {
                Some(_) => format!("{shows}; {}", needs(more, "5 %")),
                None => shows,
            }
        }
        Outlook::Pairs(change, needed) => {
            format!("in pairs, {}", needs(needed, &percent(change)))
        }
    };
    let deviation = percent(deviation);
    format!("noise of this machine, {age} ago: {deviation} from process to process; {outlook}")
}

/// Returns the parts of a machine's noise: a name, the figure, and its meaning.
fn parts(noise: &Noise) -> Vec<[String; 3]> {
    let work = |name: &str, work: Option<WorkNoise>| match work {
        Some(work) => [
            name.to_owned(),
            percent(work.between),
            format!(
                "from process to process; {} within one, {} in pairs; rounds of {}",
                percent(work.within),
                percent(work.in_turns),
                units::duration(1e9 * work.round_seconds)
            ),
        ],
        None => {
            [name.to_owned(), "not measured".into(), "no such loop, or too little memory".into()]
        }
    };
    vec![
        work("compute", noise.compute),
        work("memory bandwidth", noise.memory),
        [
            "scheduler".into(),
            percent(noise.waiting_share),
            format!(
                "of its time a thread waited for a processor, {} at the longest",
                units::duration(noise.longest_wait_ns as f64)
            ),
        ],
        [
            "steal".into(),
            noise.stolen_share.map_or_else(|| "not counted".into(), percent),
            "of all processors' time that a hypervisor gave to others".into(),
        ],
        [
            "clock".into(),
            format!("{} ns", noise.clock_step_ns),
            format!("steps; a reading costs {:.0} ns", noise.clock_read_ns),
        ],
    ]
}

/// Returns the noise for people.
pub(crate) fn human(noise: &Noise, palette: Palette) -> String {
    let mut text = format!("{}\n", palette.heading("noise"));
    for [name, figure, meaning] in parts(noise) {
        text.push_str(&format!("  {name:18} {figure:>12}  {}\n", palette.faint(meaning)));
    }
    let five = percent(noise.detectable(5));
    let for_five = noise.processes_for(0.05);
    let needs = |count: Option<usize>| match count {
        Some(count) => format!("needs {count} processes of each"),
        None => "cannot be told".to_owned(),
    };
    let pair = noise.processes_of_usual_pair();
    text.push_str(&format!(
        "\n{}\n",
        palette.heading(format_args!("smallest change that five processes show: {five}"))
    ));
    text.push_str(&format!(
        "in four of five comparisons of two runs at 95 %. A change of 5 % {}; in pairs \
         (`order = \"paired\"`), 1 % {}\n",
        needs(for_five),
        needs(pair)
    ));
    let seconds = units::duration(1e9 * noise.seconds);
    text.push_str(&format!(
        "measured in {seconds}, in {} with {} each\n",
        units::count(noise.processes.into(), "process", "processes"),
        units::count(noise.threads.into(), "thread", "threads"),
    ));
    text
}

/// Returns the noise for machines, as one row for each part.
pub(crate) fn table(noise: &Noise) -> Table {
    let row = |[name, figure, meaning]: [String; 3]| [name, figure, meaning].map(Cell::Text).into();
    Table {
        columns: ["part", "figure", "meaning"].map(Into::into).into(),
        rows: parts(noise).into_iter().map(row).collect(),
    }
}
