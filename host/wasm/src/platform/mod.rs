//! Differences between operating systems.

mod folder;
mod memory;
mod process;

pub(crate) use folder::{Folder, Part, touch};
pub(crate) use memory::HugePages;
pub(crate) use process::{End, limit_this_process, path_of, unnamed_file};
