/*!
Foreign text, made safe for display.

Names, reasons and messages come from plugins, manifests and files, and a terminal obeys what is
printed to it: an escape sequence moves the cursor, a carriage return overwrites the line. Here such
characters become visible, in the forms of `host_record::visible`, which reports use as well. The
printer lets nothing else through. Text that is put into a table or styled is
made visible before, because afterwards it could not be distinguished from the tool's own styles.
*/

use std::borrow::Cow;
use std::fmt::Write as _;

use host_record::visible::{acts, push_visible};

/// Characters of one text that people are shown; machine formats have the whole.
pub(crate) const EXCERPT: usize = 2000;

/// Returns the text on one line: line breaks are visible, too.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return text.into();
    }
    let mut visible = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if character == '\t' {
            visible.push(' ');
        } else if acts(character) {
            push_visible(&mut visible, character);
        } else {
            visible.push(character);
        }
    }
    visible.into()
}

/// Returns the text with its line breaks, for text of several lines.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    if !text.contains(|character| character != '\n' && acts(character)) {
        return text.into();
    }
    let parts: Vec<_> = text.split('\n').map(|part| line(part.trim_end_matches('\r'))).collect();
    parts.join("\n").into()
}

/// Breaks text of anybody's into lines that fit, each beginning with `indent`.
pub(crate) fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let text = lines(text);
    let mut broken = Vec::new();
    for paragraph in text.lines() {
        let mut line = indent.to_owned();
        // Not at the narrow spaces within numbers.
        for word in paragraph.split_ascii_whitespace() {
            let long = line.chars().count() + word.chars().count() + 1 > width;
            if long && line.len() > indent.len() {
                broken.push(std::mem::replace(&mut line, indent.to_owned()));
            }
            if line.len() > indent.len() {
                line.push(' ');
            }
            line.push_str(word);
        }
        broken.push(line);
    }
    broken.join("\n")
}

/// Returns a limited part of the text, and how much is left out.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    let Some((end, _)) = text.char_indices().nth(EXCERPT) else { return text.into() };
    let (kept, rest) = text.split_at(end);
    format!("{kept} … {} characters left out", rest.chars().count()).into()
}

/// Returns the first line of a text, for places with little room.
pub(crate) fn beginning(text: &str, characters: usize) -> String {
    let first = text.lines().next().unwrap_or_default();
    let mut kept: String = first.chars().take(characters).collect();
    if kept.len() < text.trim_end().len() {
        kept.push_str(" …");
    }
    line(&kept).into_owned()
}

/// Returns the text for a terminal: line breaks stay, and so do colours and weights if `styles`
/// says that they are the tool's own.
pub(crate) fn printed(text: &str, styles: bool) -> Cow<'_, str> {
    if !styles {
        return lines(text);
    }
    let mut visible = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('\x1b') {
        visible.push_str(&lines(&rest[..start]));
        let length = style_length(&rest[start..]);
        visible.push_str(if length > 0 { &rest[start..start + length] } else { "␛" });
        rest = &rest[start + length.max(1)..];
    }
    visible.push_str(&lines(rest));
    visible.into()
}

/// Returns the bytes of the colour or weight (`ESC [ numbers m`) at the beginning of the text; 0 if
/// there is none.
fn style_length(text: &str) -> usize {
    let Some(numbers) = text.strip_prefix("\x1b[") else { return 0 };
    match numbers.find(|character: char| !character.is_ascii_digit() && character != ';') {
        Some(end) if numbers[end..].starts_with('m') => end + 3,
        _ => 0,
    }
}

/// Returns equivalent JSON in characters that no terminal obeys. JSON itself requires that only
/// below U+0020, and such characters stand only inside strings.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    if !text.contains(|character| character != '\n' && acts(character)) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if character != '\n' && acts(character) {
            let _ = write!(escaped, "\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped.into()
}

/// Returns source text whose offsets stay the same: each character is replaced by as many bytes.
pub(crate) fn source(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let harmless = matches!(character, '\n' | '\t')
            || (character == '\r' && characters.peek() == Some(&'\n'));
        if acts(character) && !harmless {
            visible.extend(std::iter::repeat_n('?', character.len_utf8()));
        } else {
            visible.push(character);
        }
    }
    visible
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\x1b[31mred\x07\0\r\nb\u{9b}2J\u{202e}c\td\x7f";

    #[test]
    fn what_a_terminal_would_obey_is_visible() {
        assert_eq!(line(HOSTILE), "a␛[31mred␇␀␍␊b\\u{9b}2J\\u{202e}c d␡");
        assert_eq!(lines(HOSTILE), "a␛[31mred␇␀\nb\\u{9b}2J\\u{202e}c d␡");
        assert_eq!(lines("plain ␛ naïve\n"), "plain ␛ naïve\n");
    }

    #[test]
    fn only_styles_pass_and_only_where_there_are_any() {
        let text = "\x1b[1;32mgood\x1b[0m \x1b]0;title\x07\x1b[2J\x1b[31";
        assert_eq!(printed(text, true), "\x1b[1;32mgood\x1b[0m ␛]0;title␇␛[2J␛[31");
        assert_eq!(printed(text, false), "␛[1;32mgood␛[0m ␛]0;title␇␛[2J␛[31");
    }

    #[test]
    fn json_keeps_the_truth() {
        let value = serde_json::json!({ "name": HOSTILE });
        let text = format!("{value:#}");
        let escaped = json(&text);
        assert!(!escaped.contains(|character| character != '\n' && acts(character)), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).expect("JSON"), value);
    }

    #[test]
    fn long_texts_say_how_much_is_left_out() {
        assert_eq!(excerpt(&"é".repeat(EXCERPT)).chars().count(), EXCERPT);
        let cut = excerpt(&"é".repeat(EXCERPT + 7)).into_owned();
        assert!(cut.ends_with("é … 7 characters left out"), "{cut}");
        assert_eq!(beginning("first\nsecond", 80), "first …");
        assert_eq!(beginning("a\x1bb", 80), "a␛b");
        assert_eq!(beginning("first second", 5), "first …");
    }

    #[test]
    fn a_number_is_not_broken_at_its_thousands() {
        let text = "throughput 18\u{202f}048/s offline";
        assert_eq!(wrapped(text, 16, ""), "throughput\n18\u{202f}048/s offline");
    }

    #[test]
    fn spans_of_a_source_stay_true() {
        let text = "name = \"\x1b[2J\u{9b}\u{202e}é\"\r\nx\ry\n";
        let shown = source(text);
        assert_eq!(shown, "name = \"?[2J?????é\"\r\nx?y\n");
        assert_eq!(shown.len(), text.len());
    }
}
