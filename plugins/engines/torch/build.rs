//! Tests and examples are programs, and the linker would look for all libraries that libtorch needs. Some of them are
//! only there when a program runs.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg=-Wl,--allow-shlib-undefined");
}
