//! Ports for tests.

use host_record::{Port, PortAxis};

/// Ports by their names and axes.
pub(crate) type Axes<'a> = &'a [(&'a str, &'a [&'a str])];

/// Returns ports from their names and axes; a number is a fixed axis.
pub(crate) fn ports(ports: Axes<'_>) -> Vec<Port> {
    let axis = |text: &&str| match text.parse() {
        Ok(size) => PortAxis::Fixed(size),
        Err(_) => PortAxis::Dynamic((*text).to_owned()),
    };
    let port = |(name, axes): &(&str, &[&str])| Port {
        name: (*name).to_owned(),
        axes: Some(axes.iter().map(axis).collect()),
    };
    ports.iter().map(port).collect()
}
