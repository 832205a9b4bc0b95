/*!
The command line's words, for a front end that is not a terminal.

The Python package shows the same errors, hints, notices and pages as the command. So it takes them from here, as text
and in parts. Nothing here prints or knows of Python.
*/

use host_experiment::{Comparison, Error, Notice, Observer};

use crate::exit::Exit;
use crate::failure::{Failure, call_the_program};
pub use crate::failure::{PlaceInText, Problem};
use crate::notices::Console;
use crate::pages::{self, Place};
use crate::printer::Printer;

/// An error as the command line shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The exit code, which names the kind of error.
    pub exit: Exit,
    /// The text that the command line prints where there is no terminal.
    pub text: String,
    /// The same in parts.
    pub problems: Vec<Problem>,
}

/// Puts an error into words.
#[must_use]
pub fn told(error: Error) -> Told {
    let failure = Failure::from(error);
    let printer = Printer::keeping();
    printer.failure(&failure);
    Told {
        exit: failure.exit,
        text: printer.take().trim_end().to_owned(),
        problems: failure.problems().collect(),
    }
}

/// Sets the name of the command in hints, since this process is another program.
pub fn call_the_command(name: &'static str) {
    call_the_program(name);
}

/// Puts notices into words, and prints none of them.
#[derive(Debug)]
pub struct Words(Printer);

impl Default for Words {
    fn default() -> Self {
        Self(Printer::keeping())
    }
}

impl Words {
    /// Returns a function that puts notices into words, which may depend on those before. A notice that only a terminal
    /// shows has none.
    pub fn speaker(&self) -> impl FnMut(Notice<'_>) -> Option<String> {
        let mut console = Console::new(&self.0);
        move |notice| {
            console.notice(notice);
            let text = self.0.take();
            let text = text.trim_end();
            (!text.is_empty()).then(|| text.to_owned())
        }
    }
}

/// Returns a comparison as the page that `host report --compare` writes. It is self-contained.
#[must_use]
pub fn comparison_page(comparison: &Comparison, margin: f64) -> String {
    pages::comparison(comparison, margin, Place::File)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use host_experiment::{Draft, Settings, Silent};

    use super::*;

    #[test]
    fn an_error_of_a_manifest_has_the_command_lines_text_and_its_places() {
        let text = "schema = 1\n[experiment]\nname = \"a\"\nsede = 7\n".to_owned();
        let draft = Draft::parse("/nowhere/m.toml".into(), Path::new("m.toml"), text);
        let Err(error) = draft.check(&Settings::default(), &mut Silent) else {
            panic!("the manifest has errors")
        };
        let told = told(error);
        assert_eq!(told.exit, Exit::Manifest);
        // No plugins are installed where this runs, which is told too.
        let help = Some("did you mean `seed`?");
        let problem = told.problems.iter().find(|problem| problem.help.as_deref() == help);
        let problem = problem.expect("the misspelt key is told");
        let place = problem.place.as_ref().expect("a place");
        assert_eq!((&*place.name, place.line, place.column), ("m.toml", 4, 1));
        for part in [&problem.message, "m.toml:4:1", "did you mean `seed`?"] {
            assert!(told.text.contains(part), "{part} is not in:\n{}", told.text);
        }
    }
}
