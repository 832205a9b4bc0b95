//! Statistics of measurements: pure functions, also compiled into guests.
