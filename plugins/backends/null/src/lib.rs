//! The null backend: returns at once, so that it measures the harness.
