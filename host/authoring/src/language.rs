//! Kinds of plugins, languages, and which of them go together.

use std::fmt;

/// Kinds of plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Runs models on hardware.
    Backend,
    /// Computes values for cases.
    Metric,
    /// Writes files about a run.
    Report,
    /// Gives advice about a run.
    Recommender,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Backend, Self::Metric, Self::Report, Self::Recommender];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::Metric => "metric",
            Self::Report => "report",
            Self::Recommender => "recommender",
        }
    }

    /// Returns the kind of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Languages that plugins are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust, with cargo.
    Rust,
    /// C11, with make.
    C,
    /// C++17, with make.
    Cpp,
    /// Python, with componentize-py.
    Python,
    /// JavaScript, with jco.
    Js,
    /// Go.
    Go,
}

impl Language {
    /// All languages.
    pub const ALL: [Self; 6] = [Self::Rust, Self::C, Self::Cpp, Self::Python, Self::Js, Self::Go];

    /// Returns its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::C => "c",
            Self::Cpp => "cpp",
            Self::Python => "python",
            Self::Js => "js",
            Self::Go => "go",
        }
    }

    /// Returns the language of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.name() == name)
    }

    /// Returns its name in a text.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::C => "C",
            Self::Cpp => "C++",
            Self::Python => "Python",
            Self::Js => "JavaScript",
            Self::Go => "Go",
        }
    }
}

/// The languages of each kind. A test builds and runs each pair where the language's tools are.
pub const OFFERED: [(Kind, &[Language]); 4] = [
    (Kind::Backend, &[Language::Rust, Language::C, Language::Cpp]),
    (Kind::Metric, GUESTS),
    (Kind::Report, GUESTS),
    (Kind::Recommender, GUESTS),
];

const GUESTS: &[Language] = &[Language::Rust, Language::C, Language::Python, Language::Js];

pub(crate) fn is_offered(kind: Kind, language: Language) -> bool {
    OFFERED.iter().any(|(offered, languages)| *offered == kind && languages.contains(&language))
}

/// Returns the pairs that are offered, in words.
#[must_use]
pub fn offered() -> String {
    let pairs = OFFERED.map(|(kind, languages)| {
        let names: Vec<_> = languages.iter().map(|language| language.name()).collect();
        format!("{kind} in {}", names.join(", "))
    });
    pairs.join("; ")
}
