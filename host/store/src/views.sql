-- The fixed views over the one run in this database. docs/reference/views.md describes them. They
-- have a schema of their own, since one of them is called like the table below it. The view `cases` is made from
-- the table of its columns.

CREATE SCHEMA views;
USE views;

CREATE VIEW run AS
SELECT run_id, experiment, description,
       strftime(started_at, '%Y-%m-%dT%H:%M:%S.%gZ') AS started_at,
       strftime(finished_at, '%Y-%m-%dT%H:%M:%S.%gZ') AS finished_at,
       host_version, git_commit, cases, finished, failed, gaps, git_dirty
FROM main.benchmark_runs;

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

CREATE VIEW predictions AS
SELECT plugin_id AS plugin, coordinates, metric, value, interval_low, interval_high, confidence, unit, cases,
       plugin_version, attributes
FROM main.predictions ORDER BY rowid;

CREATE TABLE records (case_id VARCHAR, record VARCHAR);

CREATE TABLE latency_quantiles (case_id VARCHAR, quantile DOUBLE, latency_ns BIGINT);

CREATE TABLE latency_histogram
    (case_id VARCHAR, bin_low_ns DOUBLE, bin_high_ns DOUBLE, queries BIGINT);

SET search_path = 'views,main';
