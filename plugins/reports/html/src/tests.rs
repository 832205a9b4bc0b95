//! What the page must say, and what it must never do.
