//! The timing loop: load scenarios, warm-up and stopping rules, generic over one trait.
