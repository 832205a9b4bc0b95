//! Runs a plan: starts workers, watches them, and records how each case ended.
