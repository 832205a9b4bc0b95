-- Schema version 1. A migration that has been released is never edited; the next one follows it.

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
    fingerprint     VARCHAR NOT NULL
);

CREATE TABLE benchmark_cases (
    run_id                VARCHAR NOT NULL,
    case_id               VARCHAR NOT NULL,
    case_index            BIGINT,
    model                 VARCHAR NOT NULL,
    backend               VARCHAR NOT NULL,
    device                VARCHAR NOT NULL,
    precision             VARCHAR NOT NULL,
    batch                 INTEGER NOT NULL,
    sequence_length       INTEGER,
    mode                  VARCHAR NOT NULL,
    scenario              VARCHAR NOT NULL,
    outcome               VARCHAR NOT NULL,
    reason_kind           VARCHAR,
    reason                VARCHAR,
    reason_data           VARCHAR,
    plugin_id             VARCHAR,
    plugin_version        VARCHAR,
    plugin_sha256         VARCHAR,
    model_sha256          VARCHAR,
    device_name           VARCHAR,
    threads               INTEGER,
    seed                  UBIGINT,
    queries               BIGINT,
    started_at            TIMESTAMP,
    elapsed_ns            BIGINT,
    open_ns               BIGINT,
    load_ns               BIGINT,
    prepare_ns            BIGINT,
    first_run_ns          BIGINT,
    peak_memory_bytes     BIGINT,
    baseline_memory_bytes BIGINT,
    clock_source          VARCHAR,
    clock_resolution_ns   BIGINT,
    clock_read_ns         DOUBLE,
    loop_ns               DOUBLE,
    used                  VARCHAR,
    measure               VARCHAR
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
