/*!
One self-contained HTML file, `report.html`: advice, every case, the charts, and the method of measurement.

The file uses no network and runs only its own scripts, and its content security policy enforces that. Text reaches
the page through `maud`, which escapes it, so that a model's name is a name and never markup; characters
that HTML forbids become visible symbols. The page is made of the parts of `host_page`: without scripts it has the table
of results and charts as SVG, and with scripts all values of all cases.
*/

mod data;
mod page;
mod pairs;
mod profile;

use plugin_guest::{Description, Error, NoOptions, Output, Report, Views};
use report_common::{Run, visible};

/// The report.
pub struct Html;

const FILE: &str = "report.html";

impl Report for Html {
    type Options = NoOptions;

    fn describe() -> Description {
        plugin_guest::describe!("html")
    }

    fn render(
        views: &dyn Views,
        output: &mut dyn Output,
        _: NoOptions,
    ) -> Result<Vec<String>, Error> {
        let run = Run::read(views)?;
        let page = page::page(&run).into_string();
        // The page itself has no control characters.
        output.write(FILE, visible(&page).as_bytes())?;
        Ok(vec![FILE.to_owned()])
    }
}

plugin_guest::export_report!(Html);

#[cfg(test)]
mod tests;
