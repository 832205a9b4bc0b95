//! Makes the module look for DuckDB's library beside itself, as the command `host` does.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    match system.as_str() {
        "macos" => {
            println!("cargo::rustc-link-arg-cdylib=-Wl,-rpath,@loader_path");
            // The interpreter that loads the module has the symbols.
            println!("cargo::rustc-link-arg-cdylib=-undefined");
            println!("cargo::rustc-link-arg-cdylib=dynamic_lookup");
        }
        "windows" => {}
        _ => println!("cargo::rustc-link-arg-cdylib=-Wl,-rpath,$ORIGIN"),
    }
}
