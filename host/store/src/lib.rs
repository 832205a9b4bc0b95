/*!
The store: run folders, and the DuckDB database that indexes them.

**The run folder is authoritative.** [`RunFolder`] reads one, [`RunWriter`] writes one: the plan, an append-only
journal with one line per finished case (on stable storage before the next case starts), raw samples and outputs as
Parquet, and the answers of metrics and recommenders. A crash costs at most the case in progress. [`ResultsFolder`] is
the folder of all runs.

**The database is an index.** [`Database`] is one DuckDB file beside the run folders. DuckDB lets
one process write at a time, so it is opened only for the duration of an import. If it is busy or
damaged nothing is lost, because it can be updated or rebuilt from the folders at any time.

[`RunViews`] offers the fixed views that reports and recommenders read, from an in-memory DuckDB
over a single run folder, so that reports need no database file. [`ReportFolder`] holds a report's files.

The store knows no plugin, prints nothing, and never opens DuckDB while something is being timed:
its threads would share the machine with the measurement.
*/

mod database;
mod distribution;
mod error;
mod export;
mod facts;
mod platform;
mod report_folder;
mod results_folder;
mod run;
mod views;

pub use database::{
    Answer, Columns, Database, Reader, SyncReport, Synced,
    library_version as database_library_version, reference,
};
pub use error::StoreError;
pub use export::{ExportFormat, export, exported_views};
pub use facts::{Facts, device_facts, machine_facts};
pub use report_folder::ReportFolder;
pub use results_folder::{
    DATABASE_FILE, DamagedRun, ResultsFolder, RunEntry, RunState, list_table,
};
pub use run::{
    CALLERS_METRIC, CaseFile, Counts, ExampleOutcomes, Flaw, GlancedValue, Loss, LostFile,
    LostReference, NewRun, PartEnd, PlanLine, PlanWriter, PluginRole, Program,
    RecommendationRecord, Records, ResultRecord, RunFinished, RunFolder, RunHeader, RunPart,
    RunPlugin, RunWriter, StartedCase, TornLine,
};
pub use views::{EmptyViews, Past, RunViews};
