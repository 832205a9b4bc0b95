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

-- Filled by who knows other runs.
CREATE TABLE history
    (case_id VARCHAR, metric VARCHAR, unit VARCHAR, run_id VARCHAR, started_at VARCHAR, git_commit VARCHAR,
     value DOUBLE, interval_low DOUBLE, interval_high DOUBLE, change DOUBLE);

-- The first process of each case, in 48 parts of equal time. A median over hundreds of millions of queries takes a minute, so
-- cases with more than five million have no parts.
CREATE VIEW timeline AS
WITH queries AS (
    SELECT case_id, phase, start_ns::BIGINT AS start_ns, latency_ns::BIGINT AS latency_ns
    FROM main.raw_benchmark_data SEMI JOIN (
        FROM main.benchmark_cases WHERE outcome = 'finished' AND queries <= 5000000
    ) AS finished USING (case_id)
    WHERE process = 0 AND phase <> 'search'
), spans AS (
    SELECT case_id, min(start_ns) FILTER (WHERE phase = 'measured') AS origin,
           greatest((max(start_ns) - min(start_ns)) / 48, 1) AS width
    FROM queries GROUP BY case_id HAVING origin IS NOT NULL
), parts AS (
    SELECT case_id, phase, floor((start_ns - origin) / width) AS part, any_value(width) AS width,
           count(*) AS queries, min(latency_ns) AS least_ns,
           quantile_disc(latency_ns, 0.5) AS median_ns, max(latency_ns) AS most_ns
    FROM queries JOIN spans USING (case_id) GROUP BY case_id, phase, part
), clocks AS (
    SELECT case_id, floor((time_ns::BIGINT - origin) / width) AS part, avg(clock_hertz) AS device_clock_hertz
    FROM main.device_states JOIN spans USING (case_id)
    WHERE process = 0 GROUP BY case_id, part
)
SELECT case_id, phase, part * width AS start_ns, (part + 1) * width AS end_ns, queries, least_ns, median_ns,
       most_ns, device_clock_hertz
FROM parts LEFT JOIN clocks USING (case_id, part)
ORDER BY case_id, part;

-- Nodes of the profiled runs: of the 24 cases whose operators took the longest, those that took at least a thousandth of
-- all, and the others as one without a name. So the pictures of a report have bounds, whatever the run.
CREATE VIEW profile AS
WITH whole AS (
    SELECT case_id, sum(duration_ns) AS whole_ns FROM main.operators
    GROUP BY case_id ORDER BY whole_ns DESC, case_id LIMIT 24
), nodes AS (
    SELECT case_id, name, kind, count(*) AS operators, min(start_ns) AS start_ns, sum(duration_ns) AS duration_ns
    FROM main.operators SEMI JOIN whole USING (case_id) GROUP BY case_id, name, kind
), parts AS (
    SELECT case_id, CASE WHEN duration_ns * 1000 >= whole_ns THEN name END AS name,
           CASE WHEN duration_ns * 1000 >= whole_ns THEN kind END AS kind, operators, start_ns, duration_ns
    FROM nodes JOIN whole USING (case_id)
)
SELECT case_id, name, kind, sum(operators)::BIGINT AS operators, min(start_ns) AS start_ns,
       sum(duration_ns)::BIGINT AS duration_ns
FROM parts GROUP BY case_id, name, kind
ORDER BY case_id, start_ns, name, kind;

SET search_path = 'views,main';
