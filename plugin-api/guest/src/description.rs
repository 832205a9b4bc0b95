//! A plugin's description of itself.

/// A plugin's description of itself. [`describe!`](crate::describe) fills it from the crate's
/// manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// Lower-case words joined by hyphens; a metric's names begin with it.
    pub id: &'static str,
    /// Semantic version.
    pub version: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// SPDX licence expression.
    pub license: &'static str,
    /// Names and one-sentence explanations of the options that it takes. Others are refused.
    pub options: &'static [(&'static str, &'static str)],
}

/// A [`Description`] with version, summary and licence from the `Cargo.toml` of the crate that
/// calls it, and the id and options given.
///
/// ```
/// let description = plugin_guest::describe!("tail", {
///     "percentile" => "Percentile to report, 0 to 100.",
/// });
/// assert_eq!(description.options[0].0, "percentile");
/// ```
#[macro_export]
macro_rules! describe {
    ($id:literal) => { $crate::describe!($id, {}) };
    ($id:literal, { $($option:literal => $explanation:literal),* $(,)? }) => {
        $crate::Description {
            id: $id,
            version: env!("CARGO_PKG_VERSION"),
            summary: env!("CARGO_PKG_DESCRIPTION"),
            license: env!("CARGO_PKG_LICENSE"),
            options: &[$(($option, $explanation)),*],
        }
    };
}
