//! Brokers that this agent asks for their decisions about promises: the sections `[[broker]]` of its file.
//!
//! ```toml
//! [[broker]]                           # asked for its decision about what was promised to it
//! name = "main"                        # as its certificate has it; a broker of our own domain
//! address = "tls://10.0.0.9:8443"      # its REST; this agent shows the certificate of [listen]
//! addresses = ["tls://10.0.0.9:8443", "tls://10.0.0.10:8443"]   # instead: of brokers of one name, of which one leads
//! ```

use crate::document::{Document, Mistake};
use serde::Deserialize;
use toml::Spanned;

/// The most brokers in the file.
const MOST: usize = 64;
/// The most addresses of brokers of one name.
const MOST_ADDRESSES: usize = 8;
/// The longest name of a certificate, bytes.
const MOST_NAME: usize = 64;

/// A broker that is asked for its decisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerAddress {
    /// Its name, as its certificate has it.
    pub name: String,
    /// The places at which it is asked, one after the other: hosts, and the ports of its REST. Of several one leads.
    pub places: Vec<(String, u16)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BrokerFile {
    name: Spanned<String>,
    address: Option<Spanned<String>>,
    #[serde(default)]
    addresses: Vec<Spanned<String>>,
}

/// Reads the brokers of the agent's file; `listens`: the file has `[listen]`.
pub(crate) fn read(
    document: &Document<'_>,
    found: &[BrokerFile],
    listens: bool,
) -> Result<Vec<BrokerAddress>, Mistake> {
    let mut all: Vec<BrokerAddress> = Vec::new();
    for broker in found {
        let name = broker.name.get_ref();
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
        let addresses: Vec<&Spanned<String>> = broker.address.iter().chain(&broker.addresses).collect();
        let both = broker.address.is_some() && !broker.addresses.is_empty();
        if addresses.is_empty() || addresses.len() > MOST_ADDRESSES || both {
            let what = format!("where is it asked? address, or addresses: 1 to {MOST_ADDRESSES}");
            return Err(document.at(broker.name.span(), what));
        }
        let places = addresses.into_iter().map(|address| place(document, address)).collect::<Result<_, _>>()?;
        all.push(BrokerAddress { name: name.clone(), places });
    }
    Ok(all)
}

fn place(document: &Document<'_>, address: &Spanned<String>) -> Result<(String, u16), Mistake> {
    let text = address.get_ref();
    let split = text.strip_prefix("tls://").and_then(rpc::place::split);
    split.ok_or_else(|| document.at(address.span(), format!("{text:?}: write tls://HOST:PORT")))
}
