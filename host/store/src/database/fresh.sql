-- What all migrations lead to, for a new database: one step instead of many. A test holds it against them.
-- The host's table of columns creates `benchmark_cases`.

CREATE TABLE benchmark_runs (
    run_id          VARCHAR PRIMARY KEY,
    experiment      VARCHAR NOT NULL,
    description     VARCHAR NOT NULL,
    started_at      TIMESTAMP NOT NULL,
    finished_at     TIMESTAMP,
    host_version    VARCHAR NOT NULL,
    git_commit      VARCHAR,
    manifest_path   VARCHAR NOT NULL,
    manifest_sha256 VARCHAR NOT NULL,
    cases           BIGINT NOT NULL,
    finished        BIGINT NOT NULL,
    failed          BIGINT NOT NULL,
    gaps            BIGINT NOT NULL,
    record_version  INTEGER NOT NULL,
    fingerprint     VARCHAR NOT NULL,
    git_dirty       BOOLEAN
);

CREATE TABLE benchmark_plugins (
    run_id         VARCHAR NOT NULL,
    role           VARCHAR NOT NULL,
    plugin_id      VARCHAR NOT NULL,
    plugin_version VARCHAR NOT NULL,
    plugin_sha256  VARCHAR NOT NULL
);

CREATE TABLE benchmark_results (
    run_id         VARCHAR NOT NULL,
    case_id        VARCHAR NOT NULL,
    metric         VARCHAR NOT NULL,
    value          DOUBLE,
    unit           VARCHAR,
    direction      VARCHAR,
    interval_low   DOUBLE,
    interval_high  DOUBLE,
    gap_kind       VARCHAR,
    gap_reason     VARCHAR,
    gap_data       VARCHAR,
    attributes     VARCHAR,
    plugin_id      VARCHAR NOT NULL,
    plugin_version VARCHAR NOT NULL,
    plugin_sha256  VARCHAR NOT NULL,
    options        VARCHAR
);

CREATE TABLE benchmark_warnings (
    run_id   VARCHAR NOT NULL,
    case_id  VARCHAR NOT NULL,
    process  UINTEGER NOT NULL,
    kind     VARCHAR NOT NULL,
    data     VARCHAR NOT NULL
);

CREATE TABLE hardware_info (
    run_id VARCHAR NOT NULL,
    name   VARCHAR NOT NULL,
    value  VARCHAR
);

CREATE TABLE recommendations (
    run_id         VARCHAR NOT NULL,
    plugin_id      VARCHAR NOT NULL,
    plugin_version VARCHAR NOT NULL,
    plugin_sha256  VARCHAR NOT NULL,
    options        VARCHAR,
    title          VARCHAR NOT NULL,
    explanation    VARCHAR NOT NULL,
    cases          VARCHAR NOT NULL,
    attributes     VARCHAR
);

CREATE TABLE predictions (
    run_id         VARCHAR NOT NULL,
    plugin_id      VARCHAR NOT NULL,
    plugin_version VARCHAR NOT NULL,
    plugin_sha256  VARCHAR NOT NULL,
    options        VARCHAR,
    coordinates    VARCHAR NOT NULL,
    metric         VARCHAR NOT NULL,
    value          DOUBLE NOT NULL,
    interval_low   DOUBLE NOT NULL,
    interval_high  DOUBLE NOT NULL,
    confidence     DOUBLE NOT NULL,
    unit           VARCHAR NOT NULL,
    cases          VARCHAR NOT NULL,
    attributes     VARCHAR
);
