//! A walk over a message for people and scripts, with the draft's names.

use super::{Aggregate, BoomerangMessage, Opt, Qos, Rates, Selector, TravelDirection};
use crate::describe::{FieldValue, Visitor};

/// Visits every field: ICMP header, `container`, `reservation`, `qos`, the list `options`, and `remainder`,
/// the bytes of options that could not be decoded.
pub fn describe(message: &BoomerangMessage<'_>, to: &mut dyn Visitor) {
    let number = |n: u32| FieldValue::Number(u64::from(n));
    to.field("leg", FieldValue::Text(if message.leg == TravelDirection::Request { "request" } else { "reply" }));
    to.field("identifier", number(message.id.into()));
    to.field("sequence", number(message.sequence.into()));
    to.record(Some("container"));
    to.field("transaction_id", number(message.transaction));
    to.field("type", FieldValue::Text("BOOMERANG_RESERVATION"));
    to.field("family", FieldValue::Text(if message.family == super::Family::V4 { "PF_IPv4" } else { "PF_IPv6" }));
    to.field("flags", number(message.flags.into()));
    to.field("nack", FieldValue::Flag(message.is_nack()));
    to.field("no_echo", FieldValue::Flag(message.is_no_echo()));
    to.end();
    to.record(Some("reservation"));
    to.field("refresh_s", number(message.refresh.into()));
    to.field("key", FieldValue::Number(message.key));
    selector("classifier", &message.classifier, to);
    selector("mask", &message.mask, to);
    to.end();
    to.record(Some("qos"));
    match message.qos {
        Qos::Bitrate(pair) => {
            to.field("format", FieldValue::Text("BITRATE"));
            rates(&pair, to);
        }
        Qos::Downgrade { policy, .. } => {
            to.field("format", FieldValue::Text("DOWNGRADE"));
            to.field("policy", number(policy.into()));
            to.list("vector");
            for pair in message.qos.iter() {
                to.record(None);
                rates(&pair, to);
                to.end();
            }
            to.end();
        }
    }
    to.end();
    to.list("options");
    for (_, option) in message.options() {
        to.record(None);
        describe_option(&option, to);
        to.end();
    }
    to.end();
    let remainder = message.options().remainder();
    if !remainder.is_empty() {
        to.field("remainder", FieldValue::Bytes(remainder));
    }
}

fn rates(pair: &Rates, to: &mut dyn Visitor) {
    to.field("forward_bps", FieldValue::Number(pair.forward.into()));
    to.field("reverse_bps", FieldValue::Number(pair.reverse.into()));
}

fn selector(name: &'static str, selector: &Selector, to: &mut dyn Visitor) {
    to.record(Some(name));
    to.field("src", FieldValue::Address(selector.src));
    to.field("dst", FieldValue::Address(selector.dst));
    to.field("sport", FieldValue::Number(selector.src_port.into()));
    to.field("dport", FieldValue::Number(selector.dst_port.into()));
    to.field("tproto", FieldValue::Number(selector.protocol.into()));
    to.field("tos", FieldValue::Number(selector.tos.into()));
    to.field("flags", FieldValue::Number(selector.flags.into()));
    let bits = if selector.src.is_ipv4() { 32u8 } else { 128 };
    if let (Some(wild), "mask") = (selector.wild(), name) {
        to.field("src_prefix", FieldValue::Number(bits.saturating_sub(wild.src).into()));
        to.field("dst_prefix", FieldValue::Number(bits.saturating_sub(wild.dst).into()));
    }
    to.end();
}

fn describe_option(option: &Opt<'_>, to: &mut dyn Visitor) {
    match option {
        Opt::Uid(uid) => {
            to.field("option", FieldValue::Text("Boomerang_UID"));
            to.field("user_id", FieldValue::Number(uid.user));
            to.field("credential", FieldValue::Number(uid.credential));
        }
        Opt::Aggregation(aggregate) => {
            to.field("option", FieldValue::Text("RESV_AGGREGATION"));
            describe_aggregate(aggregate, to);
        }
        Opt::Auth(auth) => {
            to.field("option", FieldValue::Text("AUTH"));
            to.field("key_id", FieldValue::Number(auth.key_id.into()));
            to.field("sequence", FieldValue::Number(auth.sequence));
            to.field("asked_forward_bps", FieldValue::Number(auth.forward.into()));
            to.field("asked_reverse_bps", FieldValue::Number(auth.reverse.into()));
            to.field("asked_refresh_s", FieldValue::Number(auth.refresh.into()));
            to.field("origin_digest", FieldValue::Bytes(&auth.origin));
            to.field("hop_digest", FieldValue::Bytes(&auth.hop));
        }
        Opt::Hops(hops) => {
            to.field("option", FieldValue::Text("HOPS"));
            to.field("forward", FieldValue::Number(hops.forward.into()));
            to.field("reverse", FieldValue::Number(hops.reverse.into()));
        }
        Opt::Unknown { kind, body } => {
            to.field("option", FieldValue::Text("unknown"));
            to.field("type", FieldValue::Number((*kind).into()));
            to.field("body", FieldValue::Bytes(body));
        }
    }
}

fn describe_aggregate(aggregate: &Aggregate, to: &mut dyn Visitor) {
    to.field("address", FieldValue::Address(aggregate.address));
    to.field("transaction_id", FieldValue::Number(aggregate.transaction.into()));
    selector("classifier", &aggregate.classifier, to);
    selector("mask", &aggregate.mask, to);
    to.field("rate_bps", FieldValue::Number(aggregate.rate.into()));
}
