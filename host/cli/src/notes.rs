/*!
Failures, gaps and warnings of a run, each kind once, below its table.

A person gets the end of a run on one screen, so each kind has its count and its worst case, in as
many lines as there is room for. `host results show --warnings` has the rest.
*/

use crate::style::Palette;
use crate::visible::{self, wrapped};

/// Lines of a note's text that are shown at most.
const TEXT: usize = 2;

/// Lines of the reason of a failure or a gap that are shown at most. It goes from the place to the cause, so if it is
/// cut, then in the middle.
const REASON: usize = 6;

/// The severity of a note, and the word that it begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// A case failed.
    Failed,
    /// A metric failed on a case.
    NoValue,
    /// A case, or a value, is a gap.
    Gap,
    /// A result is invalid.
    Invalid,
    /// A result is doubtful.
    Warning,
}

impl Word {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::NoValue => "no value",
            Self::Gap => "gap",
            Self::Invalid => "invalid",
            Self::Warning => "warning",
        }
    }

    pub(crate) fn painted(self, palette: Palette) -> String {
        match self {
            Self::Failed | Self::Invalid => palette.bad(self.text()),
            Self::NoValue | Self::Gap | Self::Warning => palette.warning(self.text()),
        }
    }
}

/// A kind of failure, gap or warning, with the worst of it.
#[derive(Debug, Clone)]
pub(crate) struct Note {
    pub(crate) word: Word,
    /// The kind, the number of cases, and the worst case.
    pub(crate) head: String,
    /// The same without the place, for a single line.
    pub(crate) brief: String,
    /// Figures of the worst case.
    pub(crate) text: String,
    /// Last lines that a failed case's worker wrote to standard error.
    pub(crate) said: Vec<String>,
    /// Whether other notes of the kind have other figures, or not all of their cases are named.
    pub(crate) stands_for_others: bool,
}

/// Lines for a terminal.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Fitted {
    pub(crate) lines: Vec<String>,
    /// Whether text was left out or cut.
    pub(crate) shortened: bool,
}

impl Note {
    /// Returns the heading on one line and the text below it.
    fn whole(&self, width: usize, palette: Palette) -> Fitted {
        let (head, head_is_cut) = self.line(&self.head, width, palette);
        let text = match self.word {
            Word::Failed | Word::Gap | Word::NoValue => both_ends(&self.text, width, "  ", REASON),
            Word::Invalid | Word::Warning => in_lines(&self.text, width, "  ", TEXT),
        };
        let mut lines = vec![head];
        lines.extend(text.lines);
        let mut shortened = head_is_cut || text.shortened || self.stands_for_others;
        for line in &self.said {
            let (line, is_cut) = cut(&format!("  | {}", on_one_line(line)), width);
            shortened |= is_cut;
            lines.push(line);
        }
        Fitted { lines, shortened }
    }

    /// Returns heading and text on one line, cut to the width: a reason in its middle.
    fn brief(&self, width: usize, palette: Palette) -> String {
        let text = match self.word {
            Word::Failed | Word::Gap | Word::NoValue => {
                let head = self.word.text().len() + 2 + self.brief.chars().count() + 2;
                in_the_middle(&on_one_line(&self.text), width.saturating_sub(head))
            }
            Word::Invalid | Word::Warning => self.text.clone(),
        };
        self.line(&format!("{}: {text}", self.brief), width, palette).0
    }

    fn line(&self, rest: &str, width: usize, palette: Palette) -> (String, bool) {
        let room = width.saturating_sub(self.word.text().len() + 2);
        let (rest, is_cut) = cut(&on_one_line(rest), room);
        (format!("{}  {rest}", self.word.painted(palette)), is_cut)
    }
}

/// Draws notes in at most `room` lines: whole while there is room, then on one line each, and the last
/// ones only counted.
pub(crate) fn fit(notes: &[Note], room: usize, width: usize, palette: Palette) -> Fitted {
    let rest = |from: usize| others(&notes[from..], width);
    let shown = (0..=notes.len())
        .rev()
        .find(|shown| shown + rest(*shown).len() <= room)
        // Even without room, the notes are counted.
        .unwrap_or(0);
    let rest = rest(shown);
    let mut spare = room.saturating_sub(shown + rest.len());
    let mut fitted = Fitted { shortened: !rest.is_empty(), ..Fitted::default() };
    for note in &notes[..shown] {
        let whole = note.whole(width, palette);
        let more = whole.lines.len() - 1;
        if more <= spare {
            spare -= more;
            fitted.lines.extend(whole.lines);
            fitted.shortened |= whole.shortened;
        } else {
            fitted.lines.push(note.brief(width, palette));
            fitted.shortened = true;
        }
    }
    fitted.lines.extend(rest);
    fitted
}

/// Returns the lines that count the notes without a line of their own.
fn others(notes: &[Note], width: usize) -> Vec<String> {
    if notes.is_empty() {
        return Vec::new();
    }
    let mut parts = Vec::new();
    for word in [Word::Failed, Word::NoValue, Word::Gap, Word::Invalid] {
        let number = notes.iter().filter(|note| note.word == word).count();
        if number > 0 {
            parts.push(format!("{number} × {}", word.text()));
        }
    }
    let warnings = notes.iter().filter(|note| note.word == Word::Warning);
    parts.extend(warnings.map(|note| note.brief.clone()));
    let text = format!("and {}", parts.join(", "));
    in_lines(&text, width, "", usize::MAX).lines
}

/// Breaks a text into lines of `width`, of which `most` are kept.
pub(crate) fn in_lines(text: &str, width: usize, indent: &str, most: usize) -> Fitted {
    let all = wrapped(&on_one_line(text), width, indent);
    let mut shortened = false;
    let mut lines: Vec<_> = Vec::new();
    for (index, line) in all.lines().enumerate() {
        if index == most {
            shortened = true;
            if let Some(last) = lines.pop() {
                lines.push(cut(&format!("{last} …"), width).0);
            }
            break;
        }
        // A word can be longer than a line.
        let (line, is_cut) = cut(line, width);
        shortened |= is_cut;
        lines.push(line);
    }
    Fitted { lines, shortened }
}

/// Breaks a text into lines of `width`. Of more than `most`, the first and the last are kept.
fn both_ends(text: &str, width: usize, indent: &str, most: usize) -> Fitted {
    let mut whole = in_lines(text, width, indent, usize::MAX);
    if whole.lines.len() > most {
        let first = most / 2;
        let last = whole.lines.len() - (most - first - 1);
        whole.lines.splice(first..last, [format!("{indent}…")]);
        whole.shortened = true;
    }
    whole
}

/// Cuts a text to a width, and keeps its end, which has the cause.
pub(crate) fn in_the_middle(text: &str, width: usize) -> String {
    let count = text.chars().count();
    // Less than that does not explain anything.
    const LEAST: usize = 30;
    if count <= width || width < LEAST {
        return text.to_owned();
    }
    let first = width / 3;
    let start: String = text.chars().take(first).collect();
    let end: String = text.chars().skip(count - (width - first - 3)).collect();
    format!("{} … {}", start.trim_end(), end.trim_start())
}

/// Joins the lines of a text, with control characters made visible.
fn on_one_line(text: &str) -> String {
    let text = visible::lines(text);
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Cuts a line to a width. Returns the rest, and whether something was cut.
fn cut(line: &str, width: usize) -> (String, bool) {
    let mut characters = line.char_indices();
    match characters.nth(width) {
        None => (line.to_owned(), false),
        Some(_) => {
            let kept: String = line.chars().take(width.saturating_sub(2)).collect();
            (format!("{} …", kept.trim_end_matches([' ', '…'])), true)
        }
    }
}

/// Returns as many names of cases as fit into `width`, and whether some are left out.
pub(crate) fn names(names: &[String], width: usize) -> (String, bool) {
    let more = |shown: usize| match names.len() - shown {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let text = |shown: usize| names[..shown].join("; ") + &more(shown);
    let fits = |shown: &usize| text(*shown).chars().count() <= width;
    let shown = (1..=names.len()).rev().find(fits).unwrap_or(names.len().min(1));
    (text(shown), shown < names.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(word: Word, name: &str, text: &str) -> Note {
        Note {
            word,
            head: format!("{name} in 2 of 6 cases; worst: batch 8"),
            brief: format!("{name} (2 cases)"),
            text: text.into(),
            said: Vec::new(),
            stands_for_others: false,
        }
    }

    fn drawn(notes: &[Note], room: usize) -> (String, bool) {
        let fitted = fit(notes, room, 60, Palette::new(false));
        assert!(fitted.lines.iter().all(|line| line.chars().count() <= 60), "{fitted:?}");
        (fitted.lines.join("\n"), fitted.shortened)
    }

    #[test]
    fn the_cause_of_a_failure_is_not_cut() {
        let words = |count: usize| vec!["through"; count].join(" ");
        let text = format!("the backend failed in phase load: {}: no such operator", words(60));
        let notes = [note(Word::Failed, "one", &text), note(Word::Gap, "two", &text)];
        let (whole, is_cut) = drawn(&notes, 20);
        assert!(is_cut);
        let lines: Vec<_> = whole.lines().collect();
        assert_eq!(lines.len(), 2 * (1 + REASON), "{whole}");
        assert!(lines[1].starts_with("  the backend failed in phase load: through"), "{whole}");
        assert_eq!(lines[4], "  …", "{whole}");
        assert!(lines[REASON].ends_with("no such operator"), "{whole}");
        let (brief, _) = drawn(&notes, 2);
        for line in brief.lines() {
            assert!(line.contains(" … ") && line.ends_with("no such operator"), "{brief}");
        }
        let short = [note(Word::Failed, "one", &format!("{}: no such operator", words(30)))];
        assert!(!drawn(&short, 9).1, "six lines are shown");
    }

    #[test]
    fn notes_take_the_room_that_there_is() {
        let long = "latency rose 50 % at query 500 of 1000; it was low from query 100 on, and that \
                    is more than fits on two lines of this width";
        let notes = [
            note(Word::Warning, "drift", "p50 rose 7.5 %"),
            note(Word::Warning, "slowed-down", long),
            note(Word::Warning, "stalls", "1 query in 5.6 took 10.1 ms"),
        ];
        assert_eq!(drawn(&notes[..1], 9), (drawn(&notes[..1], 2).0, false));
        insta::assert_snapshot!(drawn(&notes, 9).0, @r"
        warning  drift in 2 of 6 cases; worst: batch 8
          p50 rose 7.5 %
        warning  slowed-down in 2 of 6 cases; worst: batch 8
          latency rose 50 % at query 500 of 1000; it was low from
          query 100 on, and that is more than fits on two lines of …
        warning  stalls in 2 of 6 cases; worst: batch 8
          1 query in 5.6 took 10.1 ms
        ");
        assert!(drawn(&notes, 9).1, "a text is cut");
        insta::assert_snapshot!(drawn(&notes, 4).0, @r"
        warning  drift in 2 of 6 cases; worst: batch 8
          p50 rose 7.5 %
        warning  slowed-down (2 cases): latency rose 50 % at query …
        warning  stalls (2 cases): 1 query in 5.6 took 10.1 ms
        ");
        insta::assert_snapshot!(drawn(&notes, 2).0, @r"
        warning  drift (2 cases): p50 rose 7.5 %
        and slowed-down (2 cases), stalls (2 cases)
        ");
        insta::assert_snapshot!(drawn(&notes, 0).0, @"and drift (2 cases), slowed-down (2 cases), stalls (2 cases)");
        assert_eq!(drawn(&[], 3), (String::new(), false));
    }

    #[test]
    fn what_is_no_warning_is_counted_by_its_word() {
        let notes: Vec<_> = (0..5)
            .map(|index| note(Word::Failed, "", &format!("reason {index}")))
            .chain([note(Word::Gap, "", "none"), note(Word::Warning, "drift", "p50 rose")])
            .collect();
        insta::assert_snapshot!(drawn(&notes, 3).0, @r"
        failed  (2 cases): reason 0
        failed  (2 cases): reason 1
        and 3 × failed, 1 × gap, drift (2 cases)
        ");
    }

    #[test]
    fn as_many_names_as_fit() {
        let all: Vec<_> = (1..=4).map(|index| format!("case {index}")).collect();
        let of = |width| names(&all, width);
        assert_eq!(of(30), ("case 1; case 2; case 3; case 4".into(), false));
        assert_eq!(of(29), ("case 1; case 2; and 2 more".into(), true));
        assert_eq!(of(1), ("case 1; and 3 more".into(), true), "one is always named");
        assert_eq!(names(&[], 9), (String::new(), false));
    }

    #[test]
    fn the_last_words_of_a_failed_case_stand_below_it() {
        let said = vec!["loading".to_owned(), "\u{1b}[2Jno licence".to_owned(), "x".repeat(70)];
        let failed = Note { said, ..note(Word::Failed, "", "it exited") };
        let (text, shortened) = drawn(std::slice::from_ref(&failed), 9);
        assert!(shortened, "a line is cut");
        insta::assert_snapshot!(text, @r"
        failed  in 2 of 6 cases; worst: batch 8
          it exited
          | loading
          | ␛[2Jno licence
          | xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx …
        ");
        assert_eq!(drawn(&[failed], 1).0, "failed  (2 cases): it exited");
    }

    #[test]
    fn others_text_does_nothing_to_a_terminal() {
        let notes = [note(Word::Failed, "a", "one\r\n\u{1b}[2Jtwo")];
        assert_eq!(drawn(&notes, 9).0.lines().last(), Some("  one ␛[2Jtwo"));
    }
}
