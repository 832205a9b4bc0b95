//! Differences between operating systems.

mod folder;
mod memory;

pub(crate) use folder::Folder;
pub(crate) use memory::HugePages;
