-- What a case was measured under, and whether the user's repository had changes.

ALTER TABLE benchmark_cases ADD COLUMN conditions VARCHAR;
ALTER TABLE benchmark_runs ADD COLUMN git_dirty BOOLEAN;
