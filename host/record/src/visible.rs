/*!
Characters that a reader's program obeys instead of showing them.

Names, reasons and messages come from plugins, manifests and files. An escape sequence moves a
terminal's cursor, HTML and XML forbid control characters, and a character that turns the direction of
writing makes a line say something else. The terminal and the reports replace such characters by these
visible forms, so both use one definition.
*/

use std::fmt::Write as _;

/// Returns whether a program obeys a character instead of showing it: a control character, a separator
/// of lines or paragraphs, or a character that changes the direction of writing.
#[must_use]
pub fn acts(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{2028}' | '\u{2029}' | '\u{61c}' | '\u{200e}' | '\u{200f}'
            | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Appends the visible form of a character that acts: its control picture, such as `␛`, or else its
/// number, such as `\u{202e}`.
pub fn push_visible(into: &mut String, character: char) {
    match character {
        '\0'..='\u{1f}' => into.extend(char::from_u32(0x2400 + u32::from(character))),
        '\u{7f}' => into.push('␡'),
        other => {
            let _ = write!(into, "{}", other.escape_unicode());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_character_that_acts_has_a_form_that_does_not() {
        let mut count = 0;
        for character in
            (0..=u32::from(char::MAX)).filter_map(char::from_u32).filter(|it| acts(*it))
        {
            let mut form = String::new();
            push_visible(&mut form, character);
            assert!(!form.is_empty() && !form.contains(acts), "{character:?} becomes {form:?}");
            count += 1;
        }
        assert_eq!(count, 65 + 14, "control characters, separators and directions");
    }
}
