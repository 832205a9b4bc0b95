-- Schema version 3: the columns of cases are those that the host's table of columns has, which are added when
-- a database is opened. All runs are read anew.

DROP VIEW IF EXISTS raw_benchmark_data;
DROP TABLE benchmark_cases;
CREATE TABLE benchmark_cases (run_id VARCHAR NOT NULL, case_id VARCHAR NOT NULL);
UPDATE benchmark_runs SET fingerprint = '';
