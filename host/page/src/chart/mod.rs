/*!
Charts: what they show, as values.

A [`Chart`] is drawn twice from the same values: as SVG, for readers without scripts and for paper, and by the page's
script with ECharts, where points are linked with the rows of the table. The SVG has as many series as colours can tell
apart; the script gets all of them, and shows those that the reader selects.
*/

mod axis;
mod bars;
mod draw;
mod figure;
mod mark;
mod place;
mod spec;

pub use figure::{Figure, document, svg};
pub use spec::{Axis, AxisKind, Chart, Kind, MAXIMUM_SERIES, Mark, Point, Series, number_with};
