//! Takes the names of servers out of what package managers print, before it reaches a screen or a log.
//!
//! Yields the same line with every remote address replaced by `<url>` and every looked-up name by `<host>`.
//! A machine may be set up to use a private registry, and logs travel further than the machine does. It
//! does not touch addresses of this machine, which a reader of the log needs.

/// What precedes the bare name of a server in the messages of cargo, rustup, pip, apt and go.
const BEFORE_A_HOST: [&str; 7] =
    ["host='", "host=\"", "resolve host: ", "resolve '", "lookup ", "onnecting to ", "onnect to "];

/// The line without remote addresses.
pub(crate) fn hide_hosts(line: &str) -> String {
    BEFORE_A_HOST.iter().fold(hide_urls(line), |line, marker| hide_after(&line, marker))
}

/// Replaces `scheme://...` up to the next blank, quote or bracket, unless it is `file://` or local.
fn hide_urls(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let scheme = rest[..at].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '+');
        let start = scheme.len();
        let after = &rest[at + 3..];
        let end = after.find(|c: char| c.is_whitespace() || "'\"`)]>,".contains(c)).unwrap_or(after.len());
        let url = &rest[start..at + 3 + end];
        out.push_str(&rest[..start]);
        out.push_str(if rest[start..at] == *"file" || is_local(&after[..end]) { url } else { "<url>" });
        rest = &after[end..];
    }
    out.push_str(rest);
    out
}

/// Replaces the word after each `marker` if it looks like a server's name or address: it holds a dot.
fn hide_after(line: &str, marker: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(marker) {
        let (before, after) = rest.split_at(at + marker.len());
        let end = after
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-' || c == '_'))
            .unwrap_or(after.len());
        let word = &after[..end];
        out.push_str(before);
        out.push_str(if word.contains('.') && !is_local(word) { "<host>" } else { word });
        rest = &after[end..];
    }
    out.push_str(rest);
    out
}

fn is_local(address: &str) -> bool {
    ["127.", "localhost", "[::1]", "0.0.0.0"].iter().any(|local| address.starts_with(local))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::hide_hosts;

    #[rstest]
    #[case::apt("Get:1 http://deb.example.org/debian bookworm InRelease", "Get:1 <url> bookworm InRelease")]
    #[case::apt_error("Could not resolve 'deb.example.org'", "Could not resolve '<host>'")]
    #[case::pip("Looking in indexes: https://u:p@pypi.example/simple/", "Looking in indexes: <url>")]
    #[case::pip_error(
        "HTTPSConnectionPool(host='a.example', port=443)",
        "HTTPSConnectionPool(host='<host>', port=443)"
    )]
    #[case::cargo("  failed to download from `https://x.example/a/b`", "  failed to download from `<url>`")]
    #[case::curl("(Could not resolve host: x.example)", "(Could not resolve host: <host>)")]
    #[case::go(
        "dial tcp: lookup proxy.example on 10.0.0.2:53: no",
        "dial tcp: lookup <host> on 10.0.0.2:53: no"
    )]
    #[case::git("Updating git+https://x.example/repo", "Updating <url>")]
    #[case::after_a_wide_character("12 │+https://x.example: read", "12 │<url> read")]
    #[case::two("a http://x.example, b https://y.example", "a <url>, b <url>")]
    #[case::local("listening on http://127.0.0.1:16686/search", "listening on http://127.0.0.1:16686/search")]
    #[case::file("Looking in links: file:///srv/wheels", "Looking in links: file:///srv/wheels")]
    #[case::local_connect("connect to 127.0.0.1 port 4317", "connect to 127.0.0.1 port 4317")]
    #[case::words("lookup failed, connect to me", "lookup failed, connect to me")]
    fn remote_names_go_and_the_rest_stays(#[case] line: &str, #[case] expected: &str) {
        assert_eq!(hide_hosts(line), expected);
    }
}
