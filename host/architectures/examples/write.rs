//! Writes an architecture's files to a folder: `write resnet50 fp32 FOLDER`. For `tests/compare.py`.

use std::path::Path;

use host_architectures::{Architecture, Element};

#[expect(clippy::print_stdout, reason = "the path is this program's answer")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [architecture, format, folder] = &arguments[..] else {
        return Err("usage: write ARCHITECTURE FORMAT FOLDER".into());
    };
    let element = Element::ALL.into_iter().find(|element| element.name() == format);
    let element = element.ok_or("the format is fp32, fp16, bf16 or int8")?;
    let model = architecture.parse::<Architecture>()?.model(element, 0);
    println!("{}", model.ensure(Path::new(folder), &mut |_| {})?.display());
    Ok(())
}
