//! A test that no answer of a kernel makes a reader panic: every reader reads every truncation and every
//! changed byte of real answers.

use super::message::NetlinkMessage;
use super::socket::Reply;
use super::tc::{class, filter, qdisc};
use super::{addr, link, notice, route, socket};

/// A reader in the test; it returns true if it could read the reply.
type Reader = fn(&Reply) -> bool;

/// The body of a message made like a request: family header and attributes.
fn reply(ty: u16, header: usize, fill: impl FnOnce(NetlinkMessage) -> NetlinkMessage) -> Reply {
    let mut head = vec![0; header];
    head[4] = 7; // the interface, where there is one
    let bytes = fill(NetlinkMessage::new(ty, 0, &head)).finish(1, 0);
    Reply { ty, body: bytes[super::message::HEADER..].to_vec() }
}

fn stats(m: NetlinkMessage) -> NetlinkMessage {
    m.nest(7, |m| m.attr(1, &[3; 12]).attr(3, &[4; 20]).attr_u64(8, 9))
}

fn answers() -> Vec<(Reply, Reader)> {
    let veth = |m: NetlinkMessage| {
        m.attr_str(libc::IFLA_IFNAME, "a0")
            .attr_u32(libc::IFLA_MTU, 1500)
            .attr(libc::IFLA_ADDRESS, &[2; 6])
            .nest(libc::IFLA_LINKINFO, |m| m.attr_str(1, "veth"))
    };
    let way = |m: NetlinkMessage| {
        m.attr(libc::RTA_DST, &[10, 0, 0, 1])
            .attr_u32(libc::RTA_OIF, 7)
            .attr(libc::RTA_GATEWAY, &[10, 0, 0, 2])
            .attr(libc::RTA_PREFSRC, &[10, 0, 0, 3])
    };
    let tree =
        |m: NetlinkMessage| m.attr(libc::RTA_MULTIPATH, &[[8, 0, 0, 0, 7, 0, 0, 0], [8, 0, 0, 0, 9, 0, 0, 0]].concat());
    let root = |m: NetlinkMessage| stats(m.attr_str(1, "htb").nest(2, |m| m.attr(2, &[5; 20])));
    let fifo = |m: NetlinkMessage| stats(m.attr_str(1, "pfifo").attr_u32(2, 100));
    let htb = |m: NetlinkMessage| {
        stats(m.attr_str(1, "htb").nest(2, |m| m.attr(1, &[6; 44]).attr_u64(6, 1 << 40).attr_u64(7, 1 << 41)))
    };
    let hfsc = |m: NetlinkMessage| {
        stats(m.attr_str(1, "hfsc").nest(2, |m| m.attr(1, &[1; 12]).attr(2, &[2; 12]).attr(3, &[3; 12])))
    };
    let curves = |m: NetlinkMessage| stats(m.attr_str(1, "hfsc").attr(2, &[2, 0]).nest(8, |m| m.attr(1, &[0; 24])));
    let bpf = |m: NetlinkMessage| m.attr_str(1, "bpf").nest(2, |m| m.attr_u32(11, 5));
    let unicast = |mut reply: Reply, kind: u8| {
        reply.body[7] = kind;
        reply
    };
    let mut refusal = reply(2, 20, |m| m.attr_str(1, "no"));
    refusal.body[..4].copy_from_slice(&(-libc::EINVAL).to_ne_bytes());
    vec![
        (reply(libc::RTM_NEWLINK, 16, veth), |r| link::link(r).is_some()),
        (reply(libc::RTM_NEWADDR, 8, |m| m.attr(libc::IFA_LOCAL, &[1; 16])), |r| addr::address(r).is_some()),
        (unicast(reply(libc::RTM_NEWROUTE, 12, way), libc::RTN_UNICAST), |r| route::answer(r).is_some()),
        (unicast(reply(libc::RTM_NEWROUTE, 12, tree), libc::RTN_MULTICAST), |r| route::answer(r).is_some()),
        (reply(libc::RTM_NEWQDISC, 20, root), |r| qdisc::qdisc(r).is_some()),
        (reply(libc::RTM_NEWQDISC, 20, fifo), |r| qdisc::qdisc(r).is_some()),
        (reply(libc::RTM_NEWTCLASS, 20, htb), |r| class::class(r).is_some_and(|c| c.kind.is_some())),
        (reply(libc::RTM_NEWTCLASS, 20, hfsc), |r| class::class(r).is_some_and(|c| c.kind.is_some())),
        (reply(libc::RTM_NEWQDISC, 20, curves), |r| qdisc::qdisc(r).is_some()),
        (reply(libc::RTM_NEWTFILTER, 20, bpf), |r| filter::filter(r).is_some_and(|f| f.program == Some(5))),
        (reply(libc::RTM_NEWQDISC, 20, fifo), |r| notice::notice(r.ty, &r.body).is_some()),
        (refusal, |r| socket::verdict("try", &r.body, 0x300).is_err()),
    ]
}

#[test]
fn every_reader_is_total() {
    for (good, read) in answers() {
        assert!(read(&good), "the reader knows an unharmed {good:?}");
        for cut in 0..good.body.len() {
            read(&Reply { ty: good.ty, body: good.body[..cut].to_vec() });
        }
        for at in 0..good.body.len() {
            for byte in 0..=255 {
                let mut body = good.body.clone();
                body[at] = byte;
                read(&Reply { ty: good.ty, body });
            }
        }
    }
}
