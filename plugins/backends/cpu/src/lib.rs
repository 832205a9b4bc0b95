//! The CPU backend: the embedded rten engine, which needs no installed runtime.
