/*!
The frame of a page: its head, its policy, its style and its scripts.

The policy of a page allows its own scripts alone, by their hashes, so that markup that a plugin or a file smuggled in
could run nothing. Data are a block of JSON, which is no script.
*/

use std::borrow::Cow;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use crate::visible::visible;

/// The style sheet of every page.
pub const STYLE: &str =
    concat!(include_str!("colours.css"), include_str!("style.css"), include_str!("chart.css"));

/// The script of every page: tables, the links between tables and charts, and what ECharts is asked to draw.
pub const SCRIPT: &str = include_str!("script.js");

/// The chart library, Apache ECharts.
pub const LIBRARY: &str = include_str!("../library/echarts.common.min.js");

/// SHA-256 of [`LIBRARY`] in Base64.
const LIBRARY_HASH: &str = "YfEygKujFh93/IAb9fnHhvVfEEMhU6BoP8XMBwCwE9U=";

/// SHA-256 of [`SCRIPT`] in Base64. A test has the new one after a change.
const SCRIPT_HASH: &str = "MQk1+YfErCI3URLe2G9diVKo2ep66ump6PyLZeuYumU=";

/// Place of the scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scripts<'a> {
    /// In the page itself.
    Inside,
    /// At addresses below this one, for a server: `style.css`, `library.js` and `script.js`.
    At(&'a str),
}

/// A section of a page.
#[derive(Debug, Clone)]
pub struct Section {
    /// Its anchor.
    pub id: &'static str,
    /// Heading.
    pub heading: &'static str,
    /// Content.
    pub content: Markup,
}

impl Section {
    /// Returns a section.
    #[must_use]
    pub fn new(id: &'static str, heading: &'static str, content: Markup) -> Self {
        Self { id, heading, content }
    }
}

/// A page.
#[derive(Debug)]
pub struct Page<'a> {
    /// Title of the window.
    pub title: &'a str,
    /// The header, with the heading of the page.
    pub header: Markup,
    /// Sections, in their order.
    pub sections: Vec<Section>,
    /// Last line.
    pub footer: Markup,
    /// Data for the script.
    pub data: Value,
    /// Place of the scripts.
    pub scripts: Scripts<'a>,
}

impl Page<'_> {
    /// Returns the page.
    #[must_use]
    pub fn draw(self) -> Markup {
        let has_charts =
            self.data.get("figures").is_some_and(|figures| figures != &Value::Array(Vec::new()));
        // Only a short list of links is of use.
        let has_list = self.sections.len() > 2;
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    @if self.scripts == Scripts::Inside {
                        meta http-equiv="Content-Security-Policy" content=(policy());
                    }
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " · Tare" }
                    @match self.scripts {
                        Scripts::Inside => style { (PreEscaped(STYLE)) },
                        Scripts::At(place) => link rel="stylesheet" href={ (place) "/style.css" };,
                    }
                }
                body {
                    a.skip href="#content" { "Skip to the content" }
                    (self.header)
                    @if has_list {
                        nav aria-label="Sections" {
                            ul { @for section in &self.sections { li { a href={ "#" (section.id) } { (section.heading) } } } }
                        }
                    }
                    main id="content" {
                        @for section in &self.sections {
                            section id=(section.id) aria-labelledby={ (section.id) "-heading" } {
                                h2 id={ (section.id) "-heading" } { (section.heading) }
                                (section.content)
                            }
                        }
                    }
                    footer { (self.footer) }
                    script type="application/json" id="data" { (PreEscaped(embedded(self.data))) }
                    @match self.scripts {
                        Scripts::Inside => {
                            @if has_charts { script { (PreEscaped(LIBRARY)) } }
                            script { (PreEscaped(SCRIPT)) }
                        }
                        Scripts::At(place) => {
                            @if has_charts { script src={ (place) "/library.js" } {} }
                            script src={ (place) "/script.js" } {}
                        }
                    }
                }
            }
        }
    }
}

/// Returns the policy of a page with its scripts inside.
fn policy() -> String {
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{LIBRARY_HASH}' \
         'sha256-{SCRIPT_HASH}'"
    )
}

/// Returns JSON that can stand in an element `script`: nothing in it can end the element or begin a comment.
///
/// Characters that act are made visible first: the page's text is made visible as a whole later, which would break JSON.
fn embedded(data: Value) -> String {
    shown(data).to_string().replace('<', "\\u003c")
}

fn shown(data: Value) -> Value {
    match data {
        Value::String(text) => {
            let changed = match visible(&text) {
                Cow::Borrowed(_) => None,
                Cow::Owned(changed) => Some(changed),
            };
            Value::String(changed.unwrap_or(text))
        }
        Value::Array(values) => values.into_iter().map(shown).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, shown(value))).collect()
        }
        other => other,
    }
}

/// Returns an anchor: an identifier for any name.
#[must_use]
pub fn anchor(start: &str, name: &str) -> String {
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
    format!("{start}-{}", name.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the SHA-256 of a text in Base64.
    fn hash(text: &str) -> String {
        let digits = host_hash::sha256(text.as_bytes());
        let byte = |place: usize| {
            u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).expect("digits")
        };
        base64(&(0..32).map(byte).collect::<Vec<_>>())
    }

    fn base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digits = bytes.chunks(3).flat_map(|some| {
            let bits = some
                .iter()
                .enumerate()
                .fold(0_u32, |bits, (place, byte)| bits | u32::from(*byte) << (16 - 8 * place));
            (0..4).map(move |place| match place <= some.len() {
                true => char::from(DIGITS[(bits >> (18 - 6 * place) & 63) as usize]),
                false => '=',
            })
        });
        digits.collect()
    }

    #[test]
    fn the_library_is_the_one_that_was_looked_at() {
        let digits = host_hash::sha256(LIBRARY.as_bytes());
        assert!(include_str!("../library/README.md").contains(&digits), "{digits}");
        assert_eq!(hash(LIBRARY), LIBRARY_HASH);
    }

    #[test]
    fn the_policy_allows_the_script() {
        assert_eq!(hash(SCRIPT), SCRIPT_HASH, "SCRIPT_HASH follows the script");
    }

    #[test]
    fn scripts_do_not_end_their_element() {
        for script in [LIBRARY, SCRIPT] {
            let script = script.to_ascii_lowercase();
            assert!(!script.contains("</script") && !script.contains("<!--"));
        }
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (text, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(text.as_bytes()), coded);
        }
    }

    #[test]
    fn data_cannot_leave_their_element() {
        let text = "</script><!--<script>\\";
        let data = json!({ "name": text, "acts": "\u{2028}\u{202e}\u{1b}" });
        let page = Page {
            title: text,
            header: html! {},
            sections: Vec::new(),
            footer: html! {},
            data,
            scripts: Scripts::At("/x"),
        };
        let page = visible(&page.draw().into_string()).into_owned();
        let start = page.find("id=\"data\">").expect("the data") + "id=\"data\">".len();
        let end = start + page[start..].find("</script>").expect("an end");
        let read: Value = serde_json::from_str(&page[start..end]).expect("JSON");
        assert_eq!((&read["name"], &read["acts"]), (&json!(text), &json!("\\u{2028}\\u{202e}␛")));
        assert!(!page[start..end].contains('<'));
    }
}
