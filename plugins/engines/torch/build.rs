//! Compiles `native.cpp` with the headers that `torch-sys` was compiled with.
//!
//! Tests and examples are programs, and the linker would look for all libraries that libtorch needs. Some of them are
//! only there when a program runs.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/native.cpp");
    println!("cargo:rerun-if-env-changed=LIBTORCH_INCLUDE");
    println!("cargo:rustc-link-arg=-Wl,--allow-shlib-undefined");
    let named = env::var_os("LIBTORCH_INCLUDE").map(PathBuf::from);
    let beside = || {
        let libraries = env::var_os("DEP_TCH_LIBTORCH_LIB").expect("torch-sys names its libraries");
        PathBuf::from(libraries).parent().expect("they are in a folder").to_owned()
    };
    let include = named.unwrap_or_else(beside).join("include");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings(false)
        .include(&include)
        .include(include.join("torch/csrc/api/include"))
        .file("src/native.cpp")
        .compile("tare_torch_native");
}
