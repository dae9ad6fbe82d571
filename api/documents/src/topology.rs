//! Documents of paths over domains: what a domain publishes of itself, signed, and what a broker knows of others.

use crate::book::Instant;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// All that a domain publishes of itself. This document is the text that its broker signs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AdvertisementDoc {
    /// The domain.
    pub domain: String,
    /// The number; each is higher than the one before, also after a restart.
    pub number: u64,
    /// The moment of publication.
    pub issued: Instant,
    /// The moment from which it is not believed any more.
    pub until: Instant,
    /// The networks of the domain's hosts: `10.0.1.0/24`.
    pub networks: Vec<String>,
    /// The ways through the domain.
    pub ways: Vec<DomainWayRow>,
}

/// A way through a domain: packets come in at one end and leave by the other.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DomainWayRow {
    /// The border by which packets come in; null: they come from the domain's own hosts.
    pub from: Option<BorderRow>,
    /// The border by which they leave; null: they go to the domain's own hosts.
    pub to: Option<BorderRow>,
    /// The most that could ever be reserved, bit/s of IP bytes.
    pub rate: u64,
    /// The cost of the way; at least 1.
    pub cost: u32,
    /// The free amounts, in coarse steps.
    pub free: Vec<FreeRow>,
}

/// A link to a neighbouring domain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BorderRow {
    /// The neighbour.
    pub neighbour: String,
    /// The network that the two domains share there: `10.0.3.0/30`.
    pub link: String,
}

/// An amount that is free from a moment on, until the next row; the last one goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FreeRow {
    /// The first moment.
    pub start: Instant,
    /// The free rate, bit/s of IP bytes; rounded down.
    pub rate: u64,
}

/// A signed text, with the certificates of who signed it: anybody who trusts their authority can check it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct StatementDoc {
    /// The text, JSON itself.
    pub text: String,
    /// The signer's certificate and those after it: DER, in hexadecimal digits.
    pub chain: Vec<String>,
    /// The signature, ECDSA P-256 with SHA-256 in ASN.1: hexadecimal digits.
    pub signature: String,
}

/// All that a broker knows of domains.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DomainsDoc {
    /// The broker's own domain; null: its file names none, and nothing is published.
    pub own: Option<String>,
    /// The advertisements that are believed, by domain. Brokers get them as `statements`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<KnownDomainRow>,
    /// The advertisements as their domains signed them, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<StatementDoc>,
    /// The paths between the two hosts that were named, the cheapest first; null: none were named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<DomainPathRow>>,
    /// The neighbours' brokers, and how the last question to each went.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<NeighbourRow>,
    /// The reason why nothing of our own is published now; null: it is, or the broker has no domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpublished: Option<String>,
}

/// A domain as it is known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KnownDomainRow {
    /// The neighbour that passed it on; null: it is our own.
    pub learnt_from: Option<String>,
    /// Its advertisement.
    pub advertisement: AdvertisementDoc,
}

/// A neighbour's broker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NeighbourRow {
    /// The neighbour's domain.
    pub neighbour: String,
    /// The last answer; null: there was none.
    pub answered: Option<Instant>,
    /// The reason why the last question had no answer; null: it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<String>,
    /// The number of advertisements of its that were refused since the broker started.
    #[serde(default)]
    pub refused: u64,
    /// The reason of the last refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A path over domains between two hosts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DomainPathRow {
    /// The sum of the costs of its ways.
    pub cost: u64,
    /// The least that is free on it in the time that was asked about, bit/s of IP bytes, as the domains publish it;
    /// null: it is inside one domain.
    pub free: Option<u64>,
    /// The domains, in order.
    pub hops: Vec<DomainHopRow>,
}

/// A domain on a path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DomainHopRow {
    /// The domain.
    pub domain: String,
    /// The border by which packets come in; null: from its own host.
    pub from: Option<BorderRow>,
    /// The border by which they leave; null: to its own host.
    pub to: Option<BorderRow>,
}

/// Parses `10.0.1.0/24`: an address, and the length of its prefix, bits.
pub fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    let (address, prefix): (IpAddr, u8) = (address.parse().ok()?, prefix.parse().ok()?);
    (prefix <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, prefix))
}
