//! The store from outside: run folders, the database and the views.

mod common;
mod database;
mod run_folder;
mod speed;
