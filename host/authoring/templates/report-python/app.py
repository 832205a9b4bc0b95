"""The plugin: the page of `page.py` for the views of a run."""

import page
from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import output, views
from wit_world.imports.types import Attribute, Cell_Null, Description


def rows(view):
    """Return a view as a list of rows, each a dict by the names of columns."""
    table = views.read(view)
    return [
        {
            name: None if isinstance(cell, Cell_Null) else cell.value
            for name, cell in zip(table.columns, row)
        }
        for row in table.rows
    ]


class Report(exports.Report):
    def describe(self):
        option = Attribute("title", "Heading of the page; `Median latency` by default.")
        summary = "Lists the cases with their median latency as Markdown."
        return Description("{{name}}", "0.1.0", summary, "MIT OR Apache-2.0", [option])

    def render(self, options):
        try:
            # Options are checked before the first view is read.
            title = page.options(options)
        except ValueError as error:
            raise Err(str(error)) from error
        text = page.markdown(title, rows("cases"), rows("results"))
        output.write("{{name}}.md", text.encode())
        return ["{{name}}.md"]
