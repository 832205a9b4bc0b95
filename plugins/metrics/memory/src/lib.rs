//! Peak, baseline and increase of the worker's resident memory.
