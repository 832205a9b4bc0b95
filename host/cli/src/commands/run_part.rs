//! `host run-part`: a task of a run on a cluster.

use host_experiment::{Settings, TaskSummary, probe_node, run_block};

use crate::arguments::RunPartArguments;
use crate::commands::run::listen;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::notices::Console;
use crate::printer::Printer;

pub(crate) fn run_part(
    arguments: &RunPartArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit> {
    listen(settings, printer)?;
    let mut console = Console::new(printer);
    if let Some(number) = arguments.facts {
        probe_node(&arguments.run, number, settings, &mut console)?;
        return Ok(Exit::Success);
    }
    let task = std::env::var("SLURM_ARRAY_TASK_ID").ok().and_then(|task| task.parse::<u64>().ok());
    let (Some(offset), Some(task)) = (arguments.offset, task) else {
        let message = "SLURM_ARRAY_TASK_ID is not set: this command is started by Slurm";
        return Err(Failure::new(Exit::Usage, message));
    };
    Ok(match run_block(&arguments.run, offset + task, settings, &mut console)? {
        TaskSummary::Finished => Exit::Success,
        TaskSummary::Interrupted => Exit::Interrupted,
    })
}
