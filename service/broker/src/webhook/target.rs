//! The target of a webhook: a URL in one form only, so that the allowed and the called one are the same.

use std::net::IpAddr;

/// The longest URL, characters.
const MAX: usize = 512;

/// A target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebhookTarget {
    /// True for TLS.
    pub tls: bool,
    /// The host, in small letters; an IPv6 address without its brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path, with its first slash.
    pub path: String,
}

impl WebhookTarget {
    /// Parses `https://HOST[:PORT]/PATH`; `http` is for the loopback only.
    ///
    /// # Errors
    /// A sentence for its author.
    pub fn parse(text: &str) -> Result<WebhookTarget, String> {
        let wrong = |what: &str| format!("{text:?} is no target: {what}");
        if text.len() > MAX {
            return Err(format!("a target has at most {MAX} characters"));
        }
        let (tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(wrong("it begins with https://")),
        };
        let (place, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let (host, port) = match place.strip_prefix('[').and_then(|place| place.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(|| wrong("after ] comes :PORT"))?)),
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        let host = host.to_ascii_lowercase();
        let named = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
        let address: Option<IpAddr> = host.parse().ok();
        if !named && address.is_none() {
            return Err(wrong("this is no host"));
        }
        let port =
            port.map_or(Ok(if tls { 443 } else { 80 }), |port| port.parse().map_err(|_| wrong("this is no port")))?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~/".contains(c);
        if !path.chars().all(plain) || path.split('/').any(|name| name == ".." || name == ".") || path.contains("//") {
            return Err(wrong("a path has letters, digits, - _ . ~ and single slashes"));
        }
        let near = host == "localhost" || address.is_some_and(|address| address.is_loopback());
        if !tls && !near {
            return Err(wrong("https, except on this machine itself"));
        }
        Ok(WebhookTarget { tls, host, port, path: path.to_owned() })
    }

    /// The URL in its one form.
    pub fn text(&self) -> String {
        format!("{}://{}{}", if self.tls { "https" } else { "http" }, self.authority(), self.path)
    }

    /// Host and port, as in a request's `Host`.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// True if the target is the allowed one, or below it.
    pub fn is_below(&self, allowed: &WebhookTarget) -> bool {
        let same = (self.tls, &self.host, self.port) == (allowed.tls, &allowed.host, allowed.port);
        same && self.path.starts_with(&allowed.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_form() {
        for (text, form) in [
            ("https://Hooks.Example.ORG/a/b", "https://hooks.example.org:443/a/b"),
            ("https://h.example:8443", "https://h.example:8443/"),
            ("https://[2001:db8::1]:9/x", "https://[2001:db8::1]:9/x"),
            ("http://127.0.0.1:80/", "http://127.0.0.1:80/"),
            ("http://localhost/x", "http://localhost:80/x"),
            ("http://[::1]/x", "http://[::1]:80/x"),
        ] {
            let target = WebhookTarget::parse(text).unwrap();
            assert_eq!(target.text(), form);
            assert_eq!(WebhookTarget::parse(form).unwrap(), target);
        }
    }

    #[test]
    fn what_is_none() {
        for text in [
            "",
            "ftp://h/",
            "https://",
            "https:///x",
            "http://h.example/",
            "https://a@b/",
            "https://h/../x",
            "https://h/a/./b",
            "https://h/%2e%2e/",
            "https://h//x",
            "https://h/a?b",
            "https://h/#a",
            "https://h:99999/",
            "https://h:/",
            "https://[::1/",
            "https://h\n/",
            "https://h/\r\nHost: x",
            "https://h_/",
            "http://10.0.0.1/",
            "https://[::1]x/",
        ] {
            assert!(WebhookTarget::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn allowed_is_what_begins_the_same() {
        let allowed = WebhookTarget::parse("https://h.example/sluice/").unwrap();
        let below = |text: &str| WebhookTarget::parse(text).unwrap().is_below(&allowed);
        assert!(below("https://h.example/sluice/a") && below("https://H.example:443/sluice/"));
        for other in [
            "https://h.example/sluice",
            "https://h.example/sluiceX/",
            "https://h.example:444/sluice/",
            "https://h.example.evil/sluice/",
        ] {
            assert!(!below(other), "{other}");
        }
        assert!(!WebhookTarget::parse("http://localhost/sluice/").unwrap().is_below(&allowed));
    }
}
