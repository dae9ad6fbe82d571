//! Requests of browsers: meant for this listener, and sent by its own pages.
//!
//! A page from elsewhere can make its own name point here (DNS rebinding): then its requests carry that name as `Host`.
//! And it can send requests across origins, which carry `Origin` or say so in `Sec-Fetch-Site`. None of them is served.

use super::settings::WebSettings;
use crate::origin::{is_loopback, one};
use crate::problem::{Answer, Problem};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use std::net::{IpAddr, SocketAddr};

/// Checks `Host`, `Origin` and `Sec-Fetch-Site`.
///
/// # Errors
/// 421: it was sent to another name; 403: a page from elsewhere sent it.
pub(super) fn check<B>(request: &Request<B>, settings: &WebSettings, local: SocketAddr) -> Answer<()> {
    let host = one(request.headers(), header::HOST).and_then(|host| host.parse::<Authority>().ok());
    let named = request.uri().authority().is_none_or(|named| is_ours(named, settings, local));
    if !named || !host.is_some_and(|host| is_ours(&host, settings, local)) {
        let what = "Host is no name of this broker: [web] name says by which name browsers call it";
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "host", "Sent to another host", what));
    }
    let scheme = if settings.tls { "https" } else { "http" };
    let origins = request.headers().contains_key(header::ORIGIN);
    let origin = one(request.headers(), header::ORIGIN).and_then(|origin| origin.parse::<Uri>().ok());
    let own = origin.is_some_and(|origin| {
        origin.scheme_str() == Some(scheme) && origin.authority().is_some_and(|origin| is_ours(origin, settings, local))
    });
    // Reading needs no Origin, as browsers send none then; changing does.
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let data = request.uri().path().starts_with("/v1") || request.uri().path() == "/openapi.json";
    let site = request.headers().get("sec-fetch-site").map(|site| site.as_bytes());
    let elsewhere = data && site.is_some_and(|site| site != b"same-origin" && site != b"none");
    if elsewhere || (origins && !own) || (!reads && !own) {
        let what = "a page from elsewhere asks nothing here (Origin, Sec-Fetch-Site)";
        return Err(Problem::new(StatusCode::FORBIDDEN, "origin", "From elsewhere", what));
    }
    Ok(())
}

/// True for the name of the settings, the address that was called, and on the loopback all its names; with our port.
fn is_ours(authority: &Authority, settings: &WebSettings, local: SocketAddr) -> bool {
    let host = authority.host();
    let usual = if settings.tls { 443 } else { 80 };
    let port = match authority.as_str().strip_prefix(host) {
        Some("") => Some(usual),
        _ => authority.port_u16(),
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    // An address is no name, so nobody can point it elsewhere.
    let called = bare.parse::<IpAddr>().is_ok_and(|ip| ip == local.ip());
    let named = settings.name.as_deref().is_some_and(|name| name.eq_ignore_ascii_case(host));
    let here = local.ip().is_loopback() && is_loopback(authority);
    !authority.as_str().contains('@') && port == Some(local.port()) && (called || named || here)
}

/// The value of a cookie, if it is there once.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|field| field.to_str().ok());
    let mut found = all.flat_map(|field| field.split(';')).filter_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    });
    let (first, None) = (found.next()?, found.next()) else { return None };
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(settings: &WebSettings, method: &str, path: &str, fields: &[(&str, &str)]) -> u16 {
        let builder = Request::builder().method(method).uri(path);
        let builder = fields.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
        check(&builder.body(()).unwrap(), settings, settings.listen).map_or_else(|problem| problem.status, |()| 200)
    }

    fn plain() -> WebSettings {
        WebSettings::at("127.0.0.1:8080".parse().unwrap())
    }

    fn tls() -> WebSettings {
        WebSettings { name: Some("broker.example".into()), ..WebSettings::at("10.0.0.1:443".parse().unwrap()) }
    }

    #[test]
    fn hosts() {
        for (host, on_loopback, with_tls) in [
            ("localhost:8080", 200, 421),
            ("127.0.0.1:8080", 200, 421),
            ("localhost", 421, 421),
            ("10.0.0.1", 421, 200),
            ("10.0.0.1:443", 421, 200),
            ("10.0.0.2", 421, 421),
            ("broker.example", 421, 200),
            ("BROKER.example:443", 421, 200),
            ("broker.example:444", 421, 421),
            ("broker.example.evil", 421, 421),
            ("evil@broker.example", 421, 421),
            ("evil.example:8080", 421, 421),
            ("", 421, 421),
        ] {
            assert_eq!(status(&plain(), "GET", "/", &[("host", host)]), on_loopback, "{host:?}");
            assert_eq!(status(&tls(), "GET", "/", &[("host", host)]), with_tls, "{host:?}");
        }
        assert_eq!(status(&tls(), "GET", "/", &[]), 421);
        assert_eq!(status(&tls(), "GET", "/", &[("host", "broker.example"), ("host", "evil")]), 421);
        assert_eq!(status(&tls(), "GET", "http://evil/", &[("host", "broker.example")]), 421);
    }

    #[test]
    fn origins() {
        let host = ("host", "broker.example");
        for (origin, expected) in [
            ("https://broker.example", 200),
            ("http://broker.example", 403),
            ("https://broker.example:8443", 403),
            ("https://evil.example", 403),
            ("null", 403),
            ("", 403),
        ] {
            for method in ["GET", "POST", "DELETE"] {
                assert_eq!(status(&tls(), method, "/v1/me", &[host, ("origin", origin)]), expected, "{origin:?}");
            }
        }
        assert_eq!(status(&tls(), "GET", "/v1/me", &[host]), 200);
        assert_eq!(status(&tls(), "POST", "/session", &[host]), 403, "what changes something says whence");
        for (site, page, data) in
            [("same-origin", 200, 200), ("none", 200, 200), ("cross-site", 200, 403), ("same-site", 200, 403)]
        {
            assert_eq!(status(&tls(), "GET", "/", &[host, ("sec-fetch-site", site)]), page, "{site}");
            assert_eq!(status(&tls(), "GET", "/v1/me", &[host, ("sec-fetch-site", site)]), data, "{site}");
        }
    }

    #[test]
    fn cookies() {
        let of = |fields: &[&str]| {
            let mut headers = HeaderMap::new();
            for field in fields {
                headers.append(header::COOKIE, field.parse().unwrap());
            }
            cookie(&headers, "sluice").map(str::to_owned)
        };
        assert_eq!(of(&["a=b; sluice=x; c=d"]).as_deref(), Some("x"));
        assert_eq!(of(&["a=b", "sluice=x"]).as_deref(), Some("x"));
        assert_eq!(of(&["sluice=x; sluice=y"]), None);
        assert_eq!(of(&["xsluice=x"]), None);
        assert_eq!(of(&[]), None);
    }
}
