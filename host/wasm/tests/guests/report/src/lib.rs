//! Breaks the rules for reports, on request.

use plugin_guest::{Cell, Description, Error, Output, Part, Report, Views};
use serde::Deserialize;

struct Hostile;

#[derive(Deserialize)]
#[serde(default)]
struct Options {
    write: Vec<String>,
    name: Vec<String>,
    bytes: usize,
    contents: String,
    panic: bool,
    view: String,
    columns: Vec<String>,
    #[serde(rename = "loop")]
    loops: bool,
    ignore: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            write: vec![],
            name: vec![],
            bytes: 1,
            contents: String::new(),
            panic: false,
            view: String::new(),
            columns: vec![],
            loops: false,
            ignore: false,
        }
    }
}

impl Report for Hostile {
    type Options = Options;

    fn describe() -> Description {
        plugin_guest::describe!("hostile-report", {
            "write" => "Files to write.",
            "name" => "Files to name.",
            "bytes" => "Size of each file.",
            "contents" => "Text of each file.",
            "panic" => "Panic after writing.",
            "view" => "View to read.",
            "columns" => "Its columns to read, of the rows whose batch is 8.",
            "loop" => "Do not return after reading the view.",
            "ignore" => "Ignore what the host refuses.",
        })
    }

    fn render(
        views: &dyn Views,
        output: &mut dyn Output,
        options: Options,
    ) -> Result<Vec<String>, Error> {
        let mut contents = vec![b'x'; options.bytes];
        if !options.columns.is_empty() {
            let conditions = vec![("batch".to_owned(), vec![Cell::Integer(8)])];
            let part = Part { columns: options.columns, conditions, ..Part::default() };
            contents = format!("{:?}", views.read_part(&options.view, &part)?).into();
        } else if !options.view.is_empty() {
            contents = format!("{:?}\n{:?}", views.names(), views.read(&options.view)?).into();
        }
        if options.loops {
            loop {
                std::hint::spin_loop();
            }
        }
        if !options.contents.is_empty() {
            contents = options.contents.into_bytes();
        }
        for name in &options.write {
            let written = output.write(name, &contents);
            if !options.ignore {
                written?;
            }
        }
        if options.panic {
            panic!("half-way");
        }
        Ok(options.name)
    }
}

plugin_guest::export_report!(Hostile);
