//! Text that a reader's program neither obeys nor refuses.

use std::borrow::Cow;

/// Returns the text with control characters replaced by visible symbols, such as `␛`. HTML and XML
/// forbid them, and terminals obey them. Tabs and line breaks stay.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    let acts = |character: char| character.is_control() && !matches!(character, '\t' | '\n' | '\r');
    if !text.contains(acts) {
        return text.into();
    }
    let picture = |character: char| match character {
        '\u{7f}' => '␡',
        '\0'..'\u{20}' => char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}'),
        // The others have no control pictures.
        _ => '\u{fffd}',
    };
    text.chars().map(|one| if acts(one) { picture(one) } else { one }).collect::<String>().into()
}

/// Characters of a reason that a page for people shows; the report `json` has the whole.
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
    fn control_characters_are_seen() {
        assert_eq!(visible("a\0\x1b[2J\x07\x7f\u{9b}\t\r\nb"), "a␀␛[2J␇␡\u{fffd}\t\r\nb");
        assert!(matches!(visible("plain\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn long_texts_say_how_much_is_left_out() {
        assert_eq!(excerpt(&"é".repeat(2000), REASON).chars().count(), 2000);
        assert!(excerpt(&"é".repeat(2009), REASON).ends_with("é … 9 characters left out"));
    }
}
