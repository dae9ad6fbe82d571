//! A walk over a message for people and scripts, with the draft's names.

use super::{Aggregate, Leg, Message, Opt, Qos, Rates, Selector};
use crate::describe::{Value, Visitor};

/// Tells a visitor every field: ICMP header, `container`, `reservation`, `qos`, the list `options`, and `remainder`: what
/// nobody here understands.
pub fn describe(message: &Message<'_>, to: &mut dyn Visitor) {
    let number = |n: u32| Value::Number(u64::from(n));
    to.field("leg", Value::Text(if message.leg == Leg::Request { "request" } else { "reply" }));
    to.field("identifier", number(message.id.into()));
    to.field("sequence", number(message.sequence.into()));
    to.record(Some("container"));
    to.field("transaction_id", number(message.transaction));
    to.field("type", Value::Text("BOOMERANG_RESERVATION"));
    to.field("family", Value::Text(if message.family == super::Family::V4 { "PF_IPv4" } else { "PF_IPv6" }));
    to.field("flags", number(message.flags.into()));
    to.field("nack", Value::Flag(message.is_nack()));
    to.field("no_echo", Value::Flag(message.is_no_echo()));
    to.end();
    to.record(Some("reservation"));
    to.field("refresh_s", number(message.refresh.into()));
    to.field("key", Value::Number(message.key));
    selector("classifier", &message.classifier, to);
    selector("mask", &message.mask, to);
    to.end();
    to.record(Some("qos"));
    match message.qos {
        Qos::Bitrate(pair) => {
            to.field("format", Value::Text("BITRATE"));
            rates(&pair, to);
        }
        Qos::Downgrade { policy, .. } => {
            to.field("format", Value::Text("DOWNGRADE"));
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
        to.field("remainder", Value::Bytes(remainder));
    }
}

fn rates(pair: &Rates, to: &mut dyn Visitor) {
    to.field("forward_bps", Value::Number(pair.forward.into()));
    to.field("reverse_bps", Value::Number(pair.reverse.into()));
}

fn selector(name: &'static str, selector: &Selector, to: &mut dyn Visitor) {
    to.record(Some(name));
    to.field("src", Value::Address(selector.src));
    to.field("dst", Value::Address(selector.dst));
    to.field("sport", Value::Number(selector.src_port.into()));
    to.field("dport", Value::Number(selector.dst_port.into()));
    to.field("tproto", Value::Number(selector.protocol.into()));
    to.field("tos", Value::Number(selector.tos.into()));
    to.field("flags", Value::Number(selector.flags.into()));
    let bits = if selector.src.is_ipv4() { 32u8 } else { 128 };
    if let (Some(wild), "mask") = (selector.wild(), name) {
        to.field("src_prefix", Value::Number(bits.saturating_sub(wild.src).into()));
        to.field("dst_prefix", Value::Number(bits.saturating_sub(wild.dst).into()));
    }
    to.end();
}

fn describe_option(option: &Opt<'_>, to: &mut dyn Visitor) {
    match option {
        Opt::Uid(uid) => {
            to.field("option", Value::Text("Boomerang_UID"));
            to.field("user_id", Value::Number(uid.user));
            to.field("credential", Value::Number(uid.credential));
        }
        Opt::Aggregation(aggregate) => {
            to.field("option", Value::Text("RESV_AGGREGATION"));
            describe_aggregate(aggregate, to);
        }
        Opt::Auth(auth) => {
            to.field("option", Value::Text("AUTH"));
            to.field("key_id", Value::Number(auth.key_id.into()));
            to.field("sequence", Value::Number(auth.sequence));
            to.field("asked_forward_bps", Value::Number(auth.forward.into()));
            to.field("asked_reverse_bps", Value::Number(auth.reverse.into()));
            to.field("asked_refresh_s", Value::Number(auth.refresh.into()));
            to.field("origin_digest", Value::Bytes(&auth.origin));
            to.field("hop_digest", Value::Bytes(&auth.hop));
        }
        Opt::Hops(hops) => {
            to.field("option", Value::Text("HOPS"));
            to.field("forward", Value::Number(hops.forward.into()));
            to.field("reverse", Value::Number(hops.reverse.into()));
        }
        Opt::Unknown { kind, body } => {
            to.field("option", Value::Text("unknown"));
            to.field("type", Value::Number((*kind).into()));
            to.field("body", Value::Bytes(body));
        }
    }
}

fn describe_aggregate(aggregate: &Aggregate, to: &mut dyn Visitor) {
    to.field("address", Value::Address(aggregate.address));
    to.field("transaction_id", Value::Number(aggregate.transaction.into()));
    selector("classifier", &aggregate.classifier, to);
    selector("mask", &aggregate.mask, to);
    to.field("rate_bps", Value::Number(aggregate.rate.into()));
}
