//! The plan: an experiment and what plugins and devices can do, turned into cases and gaps.
