//! Samples and queries per second of measured time.
