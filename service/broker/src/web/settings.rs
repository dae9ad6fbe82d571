//! `[web]` of the broker's file.

use rpc::document::{Document, Mistake};
use serde::Deserialize;
use std::net::SocketAddr;
use toml::Spanned;

/// The address and the manner of the listener for browsers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebSettings {
    /// The address.
    pub listen: SocketAddr,
    /// The host name that browsers use, beside the address itself.
    pub name: Option<String>,
    /// True: with TLS, by the broker's own certificate.
    pub tls: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebFile {
    listen: Spanned<SocketAddr>,
    name: Option<Spanned<String>>,
    tls: Option<Spanned<bool>>,
}

impl WebSettings {
    /// A listener without TLS on the loopback, with TLS elsewhere.
    pub fn at(listen: SocketAddr) -> WebSettings {
        WebSettings { listen, name: None, tls: !listen.ip().is_loopback() }
    }

    /// The cookie's name. Browsers take the prefix `__Host-` with TLS alone: then no other host can set it.
    pub(crate) fn cookie(&self) -> &'static str {
        if self.tls { "__Host-sluice" } else { "sluice" }
    }

    /// The cookie's attributes: no script reads it, no other site sends it.
    pub(crate) fn attributes(&self) -> &'static str {
        if self.tls { "Path=/; HttpOnly; SameSite=Strict; Secure" } else { "Path=/; HttpOnly; SameSite=Strict" }
    }
}

/// Reads the settings; `papers`: the broker has a certificate.
///
/// # Errors
/// The first [`Mistake`] in them.
pub(crate) fn read(document: &Document<'_>, found: WebFile, papers: bool) -> Result<WebSettings, Mistake> {
    let WebFile { listen, name, tls } = found;
    let usual = WebSettings::at(*listen.get_ref());
    let with_tls = tls.as_ref().map_or(usual.tls, |tls| *tls.get_ref());
    if !with_tls && usual.tls {
        return Err(document.at(listen.span(), "browsers without TLS only on the loopback (127.0.0.1, ::1)"));
    }
    if with_tls && !papers {
        let what = "browsers with TLS need [tls] with ca, certificate and key: `sluice ca` makes them";
        return Err(document.at(listen.span(), what));
    }
    if let Some(name) = name.as_ref().filter(|name| !is_host(name.get_ref())) {
        return Err(document.at(name.span(), "name is a host name, such as broker.example.org"));
    }
    Ok(WebSettings { name: name.map(|name| name.into_inner().to_ascii_lowercase()), tls: with_tls, ..usual })
}

/// True for a host name of letters, digits, dots and hyphens.
fn is_host(name: &str) -> bool {
    let label = |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    name.len() <= 253 && name.split('.').all(label)
}
