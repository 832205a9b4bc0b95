//! The fault backend: crashes, hangs, leaks and lies on request.
