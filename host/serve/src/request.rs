//! Requests: who asks, and for what.

/// Longest head of a request.
pub(crate) const LONGEST_HEAD: usize = 8 << 10;

/// Most headers of a request.
const MOST_HEADERS: usize = 64;

/// A request with the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Segments of the path after the token, decoded.
    pub path: Vec<String>,
    /// Pairs of the query, decoded.
    pub query: Vec<(String, String)>,
    /// Whether only the head of the answer is wanted.
    pub is_head: bool,
}

impl Request {
    /// Returns a value of the query; an empty one is none.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(known, _)| known == name)?;
        Some(found.1.as_str()).filter(|value| !value.is_empty())
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Malformed,
    TooLong,
    Method,
    ForeignHost,
    NoToken,
}

/// Reads the head of a request.
pub(crate) fn parse(head: &[u8], port: u16, token: &str) -> Result<Request, Refused> {
    if head.len() > LONGEST_HEAD {
        return Err(Refused::TooLong);
    }
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Refused::TooLong),
        Ok(httparse::Status::Partial) | Err(_) => return Err(Refused::Malformed),
    }
    let mut hosts =
        request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    // Two hosts would mean one to us and another to someone else.
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Refused::ForeignHost) };
    if !is_own(host.value, port) {
        return Err(Refused::ForeignHost);
    }
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Refused::Method),
    };
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // An absolute target has a host of its own, and none of ours begins like this.
    let mut segments = path.strip_prefix('/').ok_or(Refused::Malformed)?.split('/');
    if !is_same(segments.next().unwrap_or_default(), token) {
        return Err(Refused::NoToken);
    }
    let path: Option<Vec<String>> = segments
        .filter(|segment| !segment.is_empty())
        .map(|segment| decoded(segment, false))
        .collect();
    let query: Option<Vec<(String, String)>> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name, true)?, decoded(value, true)?))
        })
        .collect();
    Ok(Request {
        path: path.ok_or(Refused::Malformed)?,
        query: query.ok_or(Refused::Malformed)?,
        is_head,
    })
}

fn is_own(host: &[u8], port: u16) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let Some((name, of_port)) = host.rsplit_once(':') else { return false };
    of_port.parse() == Ok(port) && (name == "127.0.0.1" || name.eq_ignore_ascii_case("localhost"))
}

/// Compares in a time that does not depend on how much is right.
fn is_same(one: &str, other: &str) -> bool {
    let bytes = one.bytes().zip(other.bytes());
    one.len() == other.len()
        && bytes.fold(0, |different, (one, other)| different | (one ^ other)) == 0
}

/// Decodes percent signs, and in a query plus signs. `None` if it is not UTF-8 or has a control character.
fn decoded(text: &str, is_query: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            b'%' => {
                let code = std::str::from_utf8(after.get(..2)?).ok()?;
                if !code.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    return None;
                }
                bytes.push(u8::from_str_radix(code, 16).ok()?);
                rest = &after[2..];
            }
            b'+' if is_query => bytes.push(b' '),
            other => bytes.push(*other),
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains(char::is_control)).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn ask(line: &str, host: &str) -> Result<Request, Refused> {
        parse(format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes(), 4000, TOKEN)
    }

    fn path(path: &str) -> Result<Vec<String>, Refused> {
        ask(&format!("GET /{TOKEN}{path}"), "127.0.0.1:4000").map(|request| request.path)
    }

    #[test]
    fn paths_are_split_before_they_are_decoded() {
        assert_eq!(path("/"), Ok(vec![]));
        assert_eq!(path("/run/a%20b"), Ok(vec!["run".into(), "a b".into()]));
        assert_eq!(path("/run/..%2f..%2fetc"), Ok(vec!["run".into(), "../../etc".into()]));
        assert_eq!(path("/../x"), Ok(vec!["..".into(), "x".into()]));
        for bad in ["/%", "/%2", "/%zz", "/%+1", "/%ff", "/a%00b", "/a%0ab"] {
            assert_eq!(path(bad), Err(Refused::Malformed), "{bad}");
        }
        let query =
            ask(&format!("GET /{TOKEN}/c?a=x+y&b=%26&c"), "localhost:4000").expect("a request");
        assert_eq!(
            (query.value("a"), query.value("b"), query.value("c")),
            (Some("x y"), Some("&"), None)
        );
    }

    #[test]
    fn foreign_hosts_and_missing_tokens_are_refused() {
        let line = format!("GET /{TOKEN}/");
        for host in ["127.0.0.1:4000", "localhost:4000", "LOCALHOST:4000"] {
            assert!(ask(&line, host).is_ok(), "{host}");
        }
        for host in [
            "evil.example:4000",
            "127.0.0.1",
            "127.0.0.1:4001",
            "localhost",
            "",
            "127.0.0.1.evil.example:4000",
            "localhost.:4000",
            "[::1]:4000",
            "127.0.0.1:4000:4000",
        ] {
            assert_eq!(ask(&line, host), Err(Refused::ForeignHost), "{host}");
        }
        let two = format!("{line} HTTP/1.1\r\nHost: 127.0.0.1:4000\r\nHost: evil\r\n\r\n");
        assert_eq!(parse(two.as_bytes(), 4000, TOKEN), Err(Refused::ForeignHost));
        let none = format!("{line} HTTP/1.1\r\n\r\n");
        assert_eq!(parse(none.as_bytes(), 4000, TOKEN), Err(Refused::ForeignHost));
        for line in [
            "GET /",
            "GET /0123",
            "GET /x/..",
            &format!("GET /{TOKEN}0/"),
            &format!("GET /%30{}/", &TOKEN[1..]),
        ] {
            assert_eq!(ask(line, "127.0.0.1:4000"), Err(Refused::NoToken), "{line}");
        }
    }

    #[test]
    fn nothing_can_be_changed() {
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT"] {
            assert_eq!(
                ask(&format!("{method} /{TOKEN}/"), "127.0.0.1:4000"),
                Err(Refused::Method),
                "{method}"
            );
        }
        assert!(
            ask(&format!("HEAD /{TOKEN}/"), "127.0.0.1:4000").is_ok_and(|request| request.is_head)
        );
        assert_eq!(
            ask(&format!("GET http://127.0.0.1:4000/{TOKEN}/"), "127.0.0.1:4000"),
            Err(Refused::Malformed)
        );
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _answer = parse(&bytes, 4000, TOKEN);
        }

        #[test]
        fn segments_come_back(names in prop::collection::vec("[^\\x00-\\x1f\\x7f\u{80}-\u{9f}]{1,12}", 0..4)) {
            let coded: String = names
                .iter()
                .map(|name| format!("/{}", name.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>()))
                .collect();
            prop_assert_eq!(path(&coded), Ok(names));
        }
    }
}
