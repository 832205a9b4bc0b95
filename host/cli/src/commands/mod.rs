//! One module for each command.

pub(crate) mod compare;
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod generate;
pub(crate) mod init;
pub(crate) mod plan;
pub(crate) mod plugins;
pub(crate) mod recompute;
pub(crate) mod results;
pub(crate) mod run;
pub(crate) mod validate;
