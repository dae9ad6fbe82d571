//! Brokers that this agent asks for their decisions about promises: the sections `[[broker]]` of its file.
//!
//! ```toml
//! [[broker]]                           # asked for its decision about what was promised to it
//! name = "main"                        # as its certificate has it; a broker of our own domain
//! address = "tls://10.0.0.9:8443"      # its REST; this agent shows the certificate of [listen]
//! ```

use crate::document::{Document, Mistake};
use serde::Deserialize;
use toml::Spanned;

/// The most brokers in the file.
const MOST: usize = 64;
/// The longest name of a certificate, bytes.
const MOST_NAME: usize = 64;

/// A broker that is asked for its decisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerAddress {
    /// Its name, as its certificate has it.
    pub name: String,
    /// Its host: a name or an address.
    pub host: String,
    /// The port of its REST.
    pub port: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BrokerFile {
    name: Spanned<String>,
    address: Spanned<String>,
}

/// Reads the brokers of the agent's file; `listens`: the file has `[listen]`.
pub(crate) fn read(
    document: &Document<'_>,
    found: &[BrokerFile],
    listens: bool,
) -> Result<Vec<BrokerAddress>, Mistake> {
    let mut all: Vec<BrokerAddress> = Vec::new();
    for broker in found {
        let (name, address) = (broker.name.get_ref(), broker.address.get_ref());
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
        if name.is_empty() || name.len() > MOST_NAME || !name.chars().all(plain) {
            let what = format!("{name:?} is no name of a broker of our own domain: letters, digits, - _ . @");
            return Err(document.at(broker.name.span(), what));
        }
        if all.iter().any(|other| other.name == *name) || all.len() >= MOST {
            return Err(document.at(broker.name.span(), format!("each broker once, and at most {MOST}")));
        }
        if !listens {
            let what = "a broker is asked under the certificate of [listen], which is not there";
            return Err(document.at(broker.name.span(), what));
        }
        let split = address.strip_prefix("tls://").and_then(rpc::place::split);
        let (host, port) =
            split.ok_or_else(|| document.at(broker.address.span(), format!("{address:?}: write tls://HOST:PORT")))?;
        all.push(BrokerAddress { name: name.clone(), host, port });
    }
    Ok(all)
}
