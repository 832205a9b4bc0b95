//! The header and its mirror in Rust agree on the size of every struct and the offset of every field.

use std::fmt::Write as _;
use std::process::Command;

use plugin_api::abi::LAYOUTS;

/// Returns a program that prints the compiler's layout of the header, in the format of [`expected`].
fn program() -> String {
    let mut program = String::from(
        "#include \"plugin_api.h\"\n#include <stdio.h>\nint main(void) {\n\
         printf(\"%d %d\\n\", TARE_ABI_MAJOR, TARE_ABI_MINOR);\n",
    );
    for layout in LAYOUTS {
        let name = layout.name;
        let _ = writeln!(program, "printf(\"{name} %zu\\n\", sizeof({name}));");
        for (field, _) in layout.fields {
            let _ = writeln!(program, "printf(\"  {field} %zu\\n\", offsetof({name}, {field}));");
        }
    }
    program.push_str("return 0;\n}\n");
    program
}

fn expected() -> String {
    let mut text = format!("{} {}\n", plugin_api::abi::MAJOR, plugin_api::abi::MINOR);
    for layout in LAYOUTS {
        let _ = writeln!(text, "{} {}", layout.name, layout.size);
        for (field, offset) in layout.fields {
            let _ = writeln!(text, "  {field} {offset}");
        }
    }
    text
}

#[test]
fn c_and_rust_agree_on_every_layout() {
    let folder = tempfile::tempdir().expect("a folder");
    for (variable, default, file, standard) in
        [("CC", "cc", "layout.c", "-std=c11"), ("CXX", "c++", "layout.cpp", "-std=c++17")]
    {
        let source = folder.path().join(file);
        std::fs::write(&source, program()).expect("the folder is writable");
        let executable = source.with_extension(default);
        let compiler = std::env::var(variable).unwrap_or_else(|_| default.into());
        let output = Command::new(&compiler)
            .args([standard, "-Wall", "-Wextra", "-Werror"])
            .args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/include")])
            .arg(&source)
            .arg("-o")
            .arg(&executable)
            .output()
            .unwrap_or_else(|error| panic!("the compiler `{compiler}` must be installed: {error}"));
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{compiler}:\n{complaints}");
        let output = Command::new(&executable).output().expect("the program runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected());
    }
}

/// Every `typedef struct` with a body in the header is in the mirror.
#[test]
fn no_struct_of_the_header_is_forgotten() {
    let header = include_str!("../../include/plugin_api.h");
    let defined = header.lines().filter_map(|line| {
        let rest = line.strip_prefix("typedef struct ").or_else(|| line.strip_prefix("struct "))?;
        rest.strip_suffix(" {")
    });
    let mirrored: Vec<_> = LAYOUTS.iter().map(|layout| layout.name).collect();
    let defined: Vec<_> = defined.collect();
    assert_eq!(defined, mirrored);
}
