-- Schema version 2: the load of a case, whether its result is valid, what it was measured under, and
-- whether the user's repository had changes.

ALTER TABLE benchmark_cases ADD COLUMN rate DOUBLE;
ALTER TABLE benchmark_cases ADD COLUMN clients INTEGER;
ALTER TABLE benchmark_cases ADD COLUMN valid BOOLEAN;
ALTER TABLE benchmark_cases ADD COLUMN verdict VARCHAR;
ALTER TABLE benchmark_cases ADD COLUMN asked_rate DOUBLE;
ALTER TABLE benchmark_cases ADD COLUMN offered_rate DOUBLE;
ALTER TABLE benchmark_cases ADD COLUMN achieved_rate DOUBLE;
ALTER TABLE benchmark_cases ADD COLUMN unserved BIGINT;
ALTER TABLE benchmark_cases ADD COLUMN lateness_p50_ns BIGINT;
ALTER TABLE benchmark_cases ADD COLUMN lateness_p99_ns BIGINT;
ALTER TABLE benchmark_cases ADD COLUMN lateness_max_ns BIGINT;
ALTER TABLE benchmark_cases ADD COLUMN search VARCHAR;
ALTER TABLE benchmark_cases ADD COLUMN warm_up VARCHAR;
ALTER TABLE benchmark_cases ADD COLUMN processes INTEGER;
ALTER TABLE benchmark_cases ADD COLUMN conditions VARCHAR;
ALTER TABLE benchmark_runs ADD COLUMN git_dirty BOOLEAN;

-- It has more columns now, and is made anew with the next import.
DROP VIEW IF EXISTS raw_benchmark_data;
