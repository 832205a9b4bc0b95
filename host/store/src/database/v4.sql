-- Schema version 4: predictions, apart from results.

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
