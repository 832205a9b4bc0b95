/*!
What a report's files may do in a browser: nothing outside themselves.

A report's plugin may be a stranger's, so its pages are not trusted to restrict themselves. The host puts
a content-security policy at the beginning of each HTML file: styles, scripts, images and fonts within the
file work, and nothing is loaded from elsewhere or sent there. A policy of the page's own can only restrict
it further. Other documents in which browsers run scripts have no place for a policy: SVG and XML are accepted if
nothing in them runs or loads, and the rest are refused.
*/

use std::collections::BTreeMap;

use host_store::ReportFolder;

use crate::inert::{self, Kind};

/// First elements of every page. The encoding is named as well, so that the page cannot choose one in which
/// the policy reads differently.
const HEAD: &str = "<meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" \
     content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
     img-src data:; font-src data:; base-uri 'none'; form-action 'none'\">";

/// Endings of other documents in which browsers run scripts.
const SCRIPTED: [&str; 9] = ["svgz", "xhtml", "xht", "xsl", "xslt", "mht", "mhtml", "shtml", "hta"];

/// Puts the policy into the HTML files of a report.
///
/// # Errors
///
/// If a file has a name that is not allowed, or is a page that a policy cannot be put into.
pub(crate) fn apply(files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    for (name, contents) in files {
        let last = name.rsplit('/').next().unwrap_or(name);
        let ending = last.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
        if name.eq_ignore_ascii_case(ReportFolder::LIST) {
            return Err(format!("it writes `{name}`, which is the host's list of its files"));
        }
        if SCRIPTED.contains(&&*ending) {
            return Err(format!(
                "it writes `{name}`, and browsers run scripts in such files without a policy; put the \
                 contents into an HTML page, or write a PNG"
            ));
        }
        let kind = match &*ending {
            "svg" => Some(Kind::Drawing),
            "xml" => Some(Kind::Data),
            _ => None,
        };
        if let Some(kind) = kind {
            let text = std::str::from_utf8(contents)
                .map_err(|_| format!("its file `{name}` is not UTF-8"))?;
            inert::check(text, kind).map_err(|reason| {
                format!(
                    "it writes `{name}`, and browsers run scripts in such files without a policy: {reason}"
                )
            })?;
        }
        if matches!(&*ending, "html" | "htm") {
            *contents = with_policy(std::mem::take(contents))
                .ok_or_else(|| format!("its page `{name}` is not UTF-8"))?
                .into_bytes();
        }
    }
    Ok(())
}

/// Returns the page with the policy after its doctype, which it is given if it does not begin with one. `None` if
/// it is not UTF-8: a browser that takes it for UTF-16 would not read the policy.
fn with_policy(page: Vec<u8>) -> Option<String> {
    let mut page = String::from_utf8(page).ok()?;
    let text = page.strip_prefix('\u{feff}').unwrap_or(&page);
    // The white space of HTML; anything else before a doctype makes browsers ignore it.
    let text = text.trim_start_matches(['\t', '\n', '\x0c', '\r', ' ']);
    let start = page.len() - text.len();
    let begins =
        |word: &str| text.get(..word.len()).is_some_and(|it| it.eq_ignore_ascii_case(word));
    // A `>` ends a doctype even between quotation marks.
    match text.find('>').filter(|_| begins("<!doctype")) {
        Some(end) => page.insert_str(start + end + 1, HEAD),
        None => page.insert_str(start, &format!("<!DOCTYPE html>{HEAD}")),
    }
    Some(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> String {
        with_policy(text.as_bytes().to_vec()).expect("UTF-8").replace(HEAD, "POLICY")
    }

    #[test]
    fn the_policy_comes_before_anything_that_a_page_says() {
        for (before, after) in [
            ("<!DOCTYPE html><html>", "<!DOCTYPE html>POLICY<html>"),
            ("\u{feff} \n<!doctype HTML>\n<script>", "\u{feff} \n<!doctype HTML>POLICY\n<script>"),
            ("<!DOCTYPE html SYSTEM \"a>b\"><p>", "<!DOCTYPE html SYSTEM \"a>POLICYb\"><p>"),
            ("<script>alert(1)</script>", "<!DOCTYPE html>POLICY<script>alert(1)</script>"),
            ("", "<!DOCTYPE html>POLICY"),
            ("<!doctype html", "<!DOCTYPE html>POLICY<!doctype html"),
            // A doctype in a comment is not one.
            ("<!-- <!doctype html> -->", "<!DOCTYPE html>POLICY<!-- <!doctype html> -->"),
            ("<!doctyp\u{e9}>", "<!DOCTYPE html>POLICY<!doctyp\u{e9}>"),
        ] {
            assert_eq!(page(before), after);
        }
        let utf16: Vec<u8> = "\u{feff}<script>".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(with_policy(utf16), None);
    }

    #[test]
    fn files_that_could_run_scripts_without_it_are_refused() {
        let check = |name: &str| {
            let mut files = BTreeMap::from([(name.to_owned(), b"<p>".to_vec())]);
            apply(&mut files).map(|()| String::from_utf8(files[name].clone()).expect("UTF-8"))
        };
        for name in ["a.html", "data/B.HTM", "a.svg.html"] {
            assert!(check(name).expect("a page").contains("Content-Security-Policy"), "{name}");
        }
        for name in
            ["report.md", "results.csv", "run.json", "a.html.txt", "html", "data/files.sha256"]
        {
            assert_eq!(check(name).as_deref(), Ok("<p>"), "{name}");
        }
        // `<p>` ends within an element.
        for name in ["chart.svg", "data/a.SVG", "a.xhtml", "a.html.xml", "Files.SHA256"] {
            assert!(check(name).is_err(), "{name}");
        }
        let drawing =
            b"<svg xmlns=\"http://www.w3.org/2000/svg\"><path d=\"M0 0\"/></svg>".to_vec();
        let mut files = BTreeMap::from([
            ("chart.svg".to_owned(), drawing.clone()),
            ("a.xml".to_owned(), b"<a/>".to_vec()),
        ]);
        assert_eq!(apply(&mut files), Ok(()));
        assert_eq!(files["chart.svg"], drawing);
    }
}
