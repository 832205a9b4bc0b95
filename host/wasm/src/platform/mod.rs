//! What depends on the operating system.

mod folder;
mod memory;

pub(crate) use folder::Folder;
pub(crate) use memory::HugePages;
