//! The worker process: loads one backend plugin, measures one case, streams its samples.
