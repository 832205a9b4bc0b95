//! The store: run folders, and the DuckDB database that indexes them.
