//! Makes the executable look for DuckDB's library beside itself, so that it works from wherever
//! the two are copied together.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    match system.as_str() {
        "macos" => println!("cargo::rustc-link-arg-bins=-Wl,-rpath,@executable_path"),
        // Windows looks beside the executable by itself.
        "windows" => {}
        _ => println!("cargo::rustc-link-arg-bins=-Wl,-rpath,$ORIGIN"),
    }
}
