-- The fixed views over the one run in this database. docs/reference/views.md describes them. They
-- have a schema of their own, since one of them is called like the table below it.

CREATE SCHEMA views;
USE views;

CREATE VIEW run AS
SELECT run_id, experiment, description,
       strftime(started_at, '%Y-%m-%dT%H:%M:%S.%gZ') AS started_at,
       strftime(finished_at, '%Y-%m-%dT%H:%M:%S.%gZ') AS finished_at,
       host_version, git_commit, cases, finished, failed, gaps, git_dirty
FROM main.benchmark_runs;

CREATE VIEW cases AS
SELECT case_id, case_index, model, backend, device, precision, batch, sequence_length, mode,
       scenario, outcome, reason_kind, reason, reason_data, plugin_id, plugin_version, plugin_sha256,
       model_sha256, device_name, threads, queries, elapsed_ns, peak_memory_bytes, clock_read_ns,
       loop_ns, open_ns, load_ns, prepare_ns, first_run_ns, baseline_memory_bytes, clock_source,
       clock_resolution_ns, used, measure, rate, clients, valid, verdict, asked_rate, offered_rate,
       achieved_rate, unserved, lateness_p50_ns, lateness_p99_ns, lateness_max_ns, search, warm_up,
       processes, conditions
FROM main.benchmark_cases
ORDER BY case_index NULLS LAST, case_id;

CREATE VIEW results AS
SELECT case_id, metric, value, unit, direction, interval_low, interval_high, gap_kind, gap_reason,
       gap_data, attributes, plugin_id, plugin_version
FROM main.benchmark_results
ORDER BY rowid;

CREATE VIEW warnings AS
SELECT case_id, process, kind, data FROM main.benchmark_warnings ORDER BY rowid;

CREATE VIEW hardware AS
SELECT name, value FROM main.hardware_info ORDER BY name;

CREATE VIEW plugins AS
SELECT role, plugin_id, plugin_version, plugin_sha256 FROM main.benchmark_plugins ORDER BY rowid;

CREATE VIEW recommendations AS
SELECT plugin_id AS plugin, title, explanation, cases, plugin_version, attributes
FROM main.recommendations ORDER BY rowid;

CREATE TABLE latency_quantiles (case_id VARCHAR, quantile DOUBLE, latency_ns BIGINT);

CREATE TABLE latency_histogram
    (case_id VARCHAR, bin_low_ns DOUBLE, bin_high_ns DOUBLE, queries BIGINT);

SET search_path = 'views,main';
