//! The few lines of a text that an error is about, cut to a width: a manifest may have lines of a megabyte.

use std::ops::Range;

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

/// Lines that are kept before and after those of the error.
const AROUND: usize = 2;
/// Lines of the error that are kept.
const MOST_LINES: usize = 20;
/// Bytes that are kept of a line.
const WIDTH: usize = 200;
/// Bytes that are kept of a long line before the error.
const BEFORE: usize = 60;
/// Mark of a cut.
const CUT: &str = "…";

/// Some lines of a named text, which keep their numbers and columns.
#[derive(Debug)]
pub(crate) struct SourceExcerpt {
    name: String,
    text: String,
    /// Number of the first line, from 0.
    first_line: usize,
    /// Line of the error, from 0 at the first line.
    line: usize,
    /// Bytes that this line lacks at its beginning.
    missing: usize,
}

impl SourceExcerpt {
    /// Takes the lines around a span, and returns the span within them.
    pub(crate) fn around(name: &str, text: &str, span: &Range<usize>) -> (Self, Range<usize>) {
        let start = boundary(text, span.start.min(text.len()));
        let end = boundary(text, span.end.clamp(start, text.len()));
        let mut begin = line_start(text, start);
        for _ in 0..AROUND {
            begin = line_start(text, begin.saturating_sub(1));
        }
        let first_line = text[..begin].matches('\n').count();
        let mut excerpt =
            Self { name: name.to_owned(), text: String::new(), first_line, line: 0, missing: 0 };
        let (mut shown, mut at, mut after) = (0..0, begin, 0);
        for (index, line) in text[begin..].split_inclusive('\n').enumerate() {
            let ends = at + line.len();
            let is_first = at <= start && (start < ends || ends == text.len());
            let window = window(line, if is_first { start - at } else { 0 });
            if window.start > 0 {
                excerpt.text.push_str(CUT);
            }
            let place = |offset: usize, text: &str| {
                text.len() + offset.saturating_sub(at).clamp(window.start, window.end)
                    - window.start
            };
            if is_first {
                excerpt.line = index;
                excerpt.missing = window.start.saturating_sub(CUT.len());
                shown.start = place(start, &excerpt.text);
            }
            if at <= end && index < excerpt.line + MOST_LINES {
                shown.end = place(end, &excerpt.text);
            }
            excerpt.text.push_str(&line[window.clone()]);
            if window.end < line.trim_end_matches(['\n', '\r']).len() {
                excerpt.text.push_str(CUT);
                excerpt.text.push('\n');
            } else {
                excerpt.text.push_str(&line[window.end..]);
            }
            at = ends;
            if at > end || (at > start && index >= excerpt.line + MOST_LINES) {
                after += 1;
            }
            if after > AROUND {
                break;
            }
        }
        shown.end = shown.end.max(shown.start);
        (excerpt, shown)
    }
}

impl SourceCode for SourceExcerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let found = self.text.read_span(span, before, after)?;
        // Context begins at the beginning of a line.
        let cut = if found.line() == self.line && found.column() > 0 { self.missing } else { 0 };
        let contents = MietteSpanContents::new_named(
            self.name.clone(),
            found.data(),
            *found.span(),
            found.line() + self.first_line,
            found.column() + cut,
            found.line_count(),
        );
        Ok(Box::new(contents.with_language("TOML")))
    }
}

/// Returns the part of a line that is kept, around an offset in it. It ends before the line break.
fn window(line: &str, offset: usize) -> Range<usize> {
    let length = line.trim_end_matches(['\n', '\r']).len();
    if length <= WIDTH {
        return 0..length;
    }
    let start = boundary(line, offset.min(length).saturating_sub(BEFORE));
    start..boundary(line, (start + WIDTH).min(length))
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Returns the last boundary of characters up to an offset.
fn boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the excerpt, the marked text, and the line and column of the mark, from 1.
    fn excerpt(text: &str, span: Range<usize>) -> (String, String, usize, usize) {
        let (excerpt, shown) = SourceExcerpt::around("name", text, &span);
        let place = SourceSpan::from(shown.clone());
        let contents = excerpt.read_span(&place, 0, 0).expect("the span lies within");
        let (line, column) = (contents.line() + 1, contents.column() + 1);
        drop(contents);
        let marked = excerpt.text[shown].to_owned();
        (excerpt.text, marked, line, column)
    }

    #[test]
    fn lines_around_an_error_keep_their_numbers() {
        let text = "a\nb\nc\nd = 1\ne\nf\ng\n";
        let at = text.find("1").expect("it is there");
        let (kept, marked, line, column) = excerpt(text, at..at + 1);
        assert_eq!((&*kept, &*marked, line, column), ("b\nc\nd = 1\ne\nf\n", "1", 4, 5));
        assert_eq!(excerpt("", 0..0), (String::new(), String::new(), 1, 1));
        let (kept, marked, line, _) = excerpt("a\nb", 3..3);
        assert_eq!((&*kept, &*marked, line), ("a\nb", "", 2));
    }

    #[test]
    fn a_long_line_is_cut_around_the_error() {
        let text = format!("{}é!{}\nlast\n", "x".repeat(99_999), "[".repeat(99_999));
        let at = text.find('!').expect("it is there");
        let (kept, marked, line, column) = excerpt(&text, at..at + 1);
        assert_eq!((&*marked, line), ("!", 1));
        assert!(
            kept.len() < 400 && kept.starts_with("…xx") && kept.ends_with("[…\nlast\n"),
            "{kept}"
        );
        assert_eq!(column, at + 1);
        // The whole of a line is marked as far as it is shown.
        let (_, marked, ..) = excerpt(&text, 0..text.len());
        assert!(marked.len() < 700, "{}", marked.len());
    }

    #[test]
    fn an_error_of_many_lines_is_cut() {
        let text = "line\n".repeat(100_000);
        let (kept, marked, line, _) = excerpt(&text, 50..text.len());
        assert_eq!(line, 11);
        assert!(kept.lines().count() < 30 && marked.lines().count() <= MOST_LINES, "{kept}");
    }
}
