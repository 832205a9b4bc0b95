//! Text without characters that a reader's program would obey or refuse.

use std::borrow::Cow;

use host_record::visible::{acts, push_visible};

/// Returns the text with control characters and similar ones replaced by visible forms, such as `␛` and `\u{202e}`.
/// HTML and XML forbid control characters, terminals obey them, and characters that change the writing direction can
/// change a line's meaning. Tabs and line breaks stay.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    let acts = |character: char| acts(character) && !matches!(character, '\t' | '\n' | '\r');
    if !text.contains(acts) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if acts(character) {
            push_visible(&mut shown, character);
        } else {
            shown.push(character);
        }
    }
    shown.into()
}

/// Limit on the characters of a reason on a page for people; the report `json` has the whole text.
pub const REASON: usize = 2000;

/// Returns the first characters, and the number of those left out.
#[must_use]
pub fn excerpt(text: &str, characters: usize) -> Cow<'_, str> {
    let Some((end, _)) = text.char_indices().nth(characters) else { return text.into() };
    let (kept, rest) = text.split_at(end);
    format!("{kept} … {} characters left out", rest.chars().count()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_act_are_seen() {
        assert_eq!(visible("a\0\x1b[2J\x07\x7f\u{9b}\t\r\nb"), "a␀␛[2J␇␡\\u{9b}\t\r\nb");
        let turned = "a\u{202a}\u{202e}\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}\u{2028}b";
        let seen = r"a\u{202a}\u{202e}\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}\u{2028}b";
        assert_eq!(visible(turned), seen);
        assert!(matches!(visible("plain\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn long_texts_say_how_much_is_left_out() {
        assert_eq!(excerpt(&"é".repeat(2000), REASON).chars().count(), 2000);
        assert!(excerpt(&"é".repeat(2009), REASON).ends_with("é … 9 characters left out"));
    }
}
