/*!
Parts of HTML pages that need no network: the frame of a page, tables that sort and filter, charts, and numbers as
people read them.

The report `html` is made of these parts, and so are the pages of `host report --compare`, `host history --html` and
`host serve`. A page is readable without scripts: tables are tables, and charts are SVG. With scripts, tables sort and
filter, and the same charts are drawn by Apache ECharts, linked with the rows of the table. Both drawings come from one
[`Chart`], which says what is shown and not how.

The crate is pure: it takes values and returns text. Guests compile it too. Text reaches a page through `maud`, which
escapes it, or as JSON that cannot end its element.
*/

mod chart;
mod frame;
mod number;
mod table;
mod visible;

pub use chart::{
    Axis, AxisKind, Chart, Figure, Kind, MAXIMUM_SERIES, Mark, Point, Series, document,
    number_with, svg,
};
pub use frame::{LIBRARY, Page, SCRIPT, STYLE, Scripts, Section, anchor};
pub use number::{
    Scale, humanise, humanise_interval, humanise_metric, parse_quantity, significant,
};
pub use table::{Cell, Column, Row, Table};
pub use visible::{REASON, excerpt, visible};
