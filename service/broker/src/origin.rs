//! The loopback without TLS serves programs of this machine, not web pages from elsewhere in a browser on it.
//!
//! A page can make its own name point at 127.0.0.1 (DNS rebinding): then its requests carry that name as `Host` (RFC 9110
//! section 7.2). And it can send requests across origins, which carry `Origin` (RFC 6454 section 7). Neither is served.

use crate::problem::{Answer, Problem};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Request, StatusCode, Uri, header};
use std::net::IpAddr;

/// Checks that a request that came in by the loopback on this port is meant for it.
///
/// # Errors
/// 421: it was sent to another name; 403: a page from elsewhere sent it.
pub fn check<B>(request: &Request<B>, port: u16) -> Answer<()> {
    let misdirected = || {
        let what = format!("Host is a name or address of the loopback here: localhost:{port} or 127.0.0.1:{port}");
        Problem::new(StatusCode::MISDIRECTED_REQUEST, "host", "Sent to another host", what)
    };
    let named = request.uri().authority().is_none_or(|authority| is_ours(authority, port));
    let host = one(request.headers(), header::HOST).and_then(|host| host.parse::<Authority>().ok());
    if !named || !host.is_some_and(|host| is_ours(&host, port)) {
        return Err(misdirected());
    }
    if !request.headers().contains_key(header::ORIGIN) {
        return Ok(());
    }
    let origin = one(request.headers(), header::ORIGIN).and_then(|origin| origin.parse::<Uri>().ok());
    let own = |origin: &Uri| {
        origin.scheme_str() == Some("http")
            && origin.authority().is_some_and(|authority| is_ours(authority, port) && authority.port().is_some())
    };
    match origin.as_ref().is_some_and(own) {
        true => Ok(()),
        false => {
            let what = "a page from elsewhere (Origin) asks nothing here: use mutual TLS";
            Err(Problem::new(StatusCode::FORBIDDEN, "origin", "From elsewhere", what))
        }
    }
}

/// The value of a header field, if it occurs once.
pub(crate) fn one(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut all = headers.get_all(name).iter();
    let (first, None) = (all.next()?, all.next()) else { return None };
    first.to_str().ok()
}

/// True for a name that always means this machine, with our port. Programs may omit the port; a browser does
/// so only if it is 80.
fn is_ours(authority: &Authority, port: u16) -> bool {
    let host = authority.host();
    let loopback = is_loopback(authority);
    let bare = !authority.as_str().contains('@');
    let same = match authority.as_str().strip_prefix(host) {
        Some("") => true,
        _ => authority.port_u16() == Some(port),
    };
    bare && loopback && same
}

/// True for a name or address that always means this machine.
pub(crate) fn is_loopback(authority: &Authority) -> bool {
    let host = authority.host();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(uri: &str, fields: &[(&str, &str)]) -> u16 {
        let builder = fields.iter().fold(Request::get(uri), |builder, (name, value)| builder.header(*name, *value));
        check(&builder.body(()).unwrap(), 8080).map_or_else(|problem| problem.status, |()| 200)
    }

    #[test]
    fn hosts() {
        for (host, expected) in [
            ("localhost:8080", 200),
            ("LOCALHOST:8080", 200),
            ("127.0.0.1:8080", 200),
            ("127.9.9.9:8080", 200),
            ("[::1]:8080", 200),
            ("localhost", 200),
            ("localhost:8081", 421),
            ("localhost:", 421),
            ("evil.example:8080", 421),
            ("localhost.evil.example:8080", 421),
            ("127.0.0.1.evil.example:8080", 421),
            ("evil@localhost:8080", 421),
            ("10.0.0.1:8080", 421),
            ("[::ffff:10.0.0.1]:8080", 421),
            ("0.0.0.0:8080", 421),
            ("", 421),
        ] {
            assert_eq!(status("/v1/resources", &[("host", host)]), expected, "{host:?}");
        }
        assert_eq!(status("/v1/resources", &[]), 421);
        assert_eq!(status("/x", &[("host", "localhost"), ("host", "evil.example")]), 421);
        assert_eq!(status("http://evil.example/x", &[("host", "localhost:8080")]), 421);
    }

    #[test]
    fn origins() {
        for (origin, expected) in [
            ("http://localhost:8080", 200),
            ("http://127.0.0.1:8080", 200),
            ("http://evil.example", 403),
            ("http://localhost:3000", 403),
            ("http://localhost", 403),
            ("https://localhost:8080", 403),
            ("null", 403),
            ("", 403),
        ] {
            assert_eq!(status("/x", &[("host", "localhost:8080"), ("origin", origin)]), expected, "{origin:?}");
        }
    }
}
