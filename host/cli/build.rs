//! Makes the executable look for DuckDB's library beside itself, so that it works from wherever
//! the two are copied together.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    match system.as_str() {
        "macos" => println!("cargo::rustc-link-arg-bins=-Wl,-rpath,@executable_path"),
        // Windows searches beside the executable anyway.
        "windows" => {}
        _ => println!("cargo::rustc-link-arg-bins=-Wl,-rpath,$ORIGIN"),
    }
    // Tests and development builds lie elsewhere, and find the library in the build's folder.
    println!("cargo::rerun-if-env-changed=DUCKDB_LIB_DIR");
    if let Ok(folder) = std::env::var("DUCKDB_LIB_DIR")
        && std::env::var("PROFILE").is_ok_and(|profile| profile == "debug")
    {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
