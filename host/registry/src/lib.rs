//! Plugin discovery, metadata, hashes, the lock file and version negotiation.
