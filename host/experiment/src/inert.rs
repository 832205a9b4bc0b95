/*!
Documents in XML that a browser would run scripts of, or load from elsewhere: which ones do neither.

A content-security policy has no place in such a file, so it is read, and accepted only if all of it is known to be inert.
A drawing has the elements of shapes and text, a style that loads nothing, and no links. Other XML has no namespace, because
elements that browsers obey are in one. Neither has a document type, whose entities could hide anything, nor a processing
instruction, which could name a style sheet with scripts.
*/

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// Elements of a drawing.
const DRAWN: &[&str] = &[
    "svg", "g", "title", "desc", "style", "defs", "path", "line", "rect", "circle", "ellipse",
    "polyline", "polygon", "text", "tspan",
];

/// The namespace of drawings.
const SVG: &str = "http://www.w3.org/2000/svg";

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A drawing: SVG.
    Drawing,
    /// Data in XML.
    Data,
}

/// Checks that a file is inert.
///
/// # Errors
///
/// If it is not, or is not well-formed: why, in words that follow the file's name.
pub(crate) fn check(text: &str, kind: Kind) -> Result<(), String> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_comments = true;
    let mut open: Vec<String> = Vec::new();
    let mut elements = 0_usize;
    loop {
        let event =
            reader.read_event().map_err(|error| format!("it is not well-formed: {error}"))?;
        match event {
            Event::Start(start) => {
                open.push(element(&start, kind, elements == 0)?);
                elements += 1;
            }
            Event::Empty(start) => {
                let _name = element(&start, kind, elements == 0)?;
                elements += 1;
            }
            Event::End(_) => {
                open.pop();
            }
            Event::DocType(_) => return Err("it has a document type".into()),
            Event::PI(_) => return Err("it has a processing instruction".into()),
            Event::Text(found) if open.last().is_some_and(|name| name == "style") => {
                style(&String::from_utf8_lossy(&found))?;
            }
            Event::CData(_) | Event::GeneralRef(_)
                if open.last().is_some_and(|name| name == "style") =>
            {
                return Err("its style is not plain text".into());
            }
            Event::Text(_)
            | Event::CData(_)
            | Event::GeneralRef(_)
            | Event::Comment(_)
            | Event::Decl(_) => {}
            Event::Eof => break,
        }
    }
    match elements {
        0 => Err("it has no element".into()),
        _ if !open.is_empty() => Err("it ends within an element".into()),
        _ => Ok(()),
    }
}

/// Checks an element with its attributes, and returns its name.
fn element(start: &BytesStart<'_>, kind: Kind, is_first: bool) -> Result<String, String> {
    let name = String::from_utf8_lossy(start.name().as_ref()).into_owned();
    let is_known = match kind {
        Kind::Drawing => DRAWN.contains(&&*name) && (name == "svg") == is_first,
        Kind::Data => !name.contains(':'),
    };
    if !is_known {
        return Err(format!("it has the element `{name}`"));
    }
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| format!("it is not well-formed: {error}"))?;
        let of = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
        let value = attribute
            .normalized_value(XmlVersion::Implicit1_0)
            .map_err(|error| format!("it is not well-formed: {error}"))?;
        let lower = of.to_ascii_lowercase();
        let is_inert = match kind {
            Kind::Drawing if lower == "xmlns" => value == SVG,
            Kind::Drawing => {
                !(lower.contains(':')
                    || lower.starts_with("on")
                    || lower.contains("href")
                    || lower == "src")
            }
            Kind::Data => !lower.starts_with("xmlns") && !lower.contains(':'),
        };
        if !is_inert {
            return Err(format!("it has the attribute `{of}`"));
        }
        // A label is text for people.
        if kind == Kind::Drawing && !lower.starts_with("aria-") {
            style(&value)?;
        }
    }
    Ok(name)
}

/// Checks a style, or an attribute that can be one: it loads nothing, and has no escapes that could hide that.
fn style(text: &str) -> Result<(), String> {
    let lower = text.to_ascii_lowercase();
    let found = ["url(", "@import", "image(", "image-set(", "javascript:", "expression(", "\\"];
    match found.iter().find(|word| lower.contains(**word)) {
        Some(word) => Err(format!("its style has `{word}`")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawing(inside: &str) -> Result<(), String> {
        check(&format!("<svg xmlns=\"{SVG}\" viewBox=\"0 0 9 9\">{inside}</svg>"), Kind::Drawing)
    }

    #[test]
    fn drawings_are_shapes_text_and_style() {
        let inside = "<style>.c0 { fill: var(--s0); }</style><g><path d=\"M0 0\" style=\"fill:none\"/></g>\
                      <text x=\"1\">a &amp; b<title>t</title></text><!-- c -->";
        assert_eq!(drawing(inside), Ok(()));
    }

    #[test]
    fn whatever_runs_or_loads_is_refused() {
        for inside in [
            "<script>alert(1)</script>",
            "<foreignObject/>",
            "<image x=\"1\"/>",
            "<use/>",
            "<a/>",
            "<animate/>",
            "<svg/>",
            "<path onload=\"alert(1)\"/>",
            "<path ONLOAD=\"alert(1)\"/>",
            "<text href=\"x\"/>",
            "<text xlink:href=\"x\"/>",
            "<h:script xmlns:h=\"http://www.w3.org/1999/xhtml\"/>",
            "<g xmlns=\"http://www.w3.org/1999/xhtml\"/>",
            "<path style=\"fill:url(http://x)\"/>",
            "<path style=\"fill:u\\72l(x)\"/>",
            "<path fill=\"&#117;rl(http://x)\"/>",
            "<style>@import 'x';</style>",
            "<style><![CDATA[@import 'x';]]></style>",
            "<style>&#64;import 'x';</style>",
            "<?xml-stylesheet href=\"x\"?>",
            "<g>",
            "</svg><svg>",
        ] {
            assert!(drawing(inside).is_err(), "{inside}");
        }
        for whole in ["", "text", "<!DOCTYPE svg [<!ENTITY x \"y\">]><svg/>", "<html/>", "<g/>"] {
            assert!(check(whole, Kind::Drawing).is_err(), "{whole}");
        }
    }

    #[test]
    fn data_have_no_namespace() {
        let data = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"a\"><script>no</script></testsuites>";
        assert_eq!(check(data, Kind::Data), Ok(()));
        for text in [
            "<a xmlns=\"http://www.w3.org/1999/xhtml\"/>",
            "<a><h:script xmlns:h=\"http://www.w3.org/1999/xhtml\">x</h:script></a>",
            "<?xml-stylesheet type=\"text/xsl\" href=\"x\"?><a/>",
            "<!DOCTYPE a><a/>",
            "<a>",
        ] {
            assert!(check(text, Kind::Data).is_err(), "{text}");
        }
    }
}
