//! Resv, ResvTear and ResvConf seeds.

use super::{Seed, controlled, guaranteed, hop4, hop6, ip, seed, sender4, sender6, session4, session6, start, video};
use terms::{FlowSpec, Rate, Span, Style, Tspec};
use wire::{Builder, ErrorSpec, FilterObject, MessageType};

fn resv4() -> Builder {
    start(MessageType::Resv).session(&session4()).hop(&hop4()).time_values(Span::from_secs(30))
}

fn resv6() -> Builder {
    start(MessageType::Resv).session(&session6()).hop(&hop6()).time_values(Span::from_secs(30))
}

pub fn seeds() -> Vec<Seed> {
    let mut all = v4();
    all.extend(v6());
    all.extend(tears());
    all.extend(confirmations());
    all
}

fn v4() -> Vec<Seed> {
    let router = FlowSpec::ControlledLoad(Tspec { m: 0, M: 0, ..video() });
    let audio = FlowSpec::ControlledLoad(Tspec { r: Rate::from_kbps(64), ..video() });
    let ff = || resv4().style(Style::Ff);
    let null_service = [0, 0, 0, 3, 6, 0, 0, 2, 128, 0, 0, 1, 0, 0, 5, 0xdc];
    let scope = [ip("10.0.1.1"), ip("10.0.1.2"), ip("10.0.1.3")];
    vec![
        seed(
            "resv-v4-ff",
            "Resv, FF, one sender, controlled load",
            ff().flowspec(&controlled()).filter_spec(&sender4(1)),
        ),
        seed(
            "resv-v4-ff-guaranteed",
            "Resv, FF, guaranteed service",
            ff().flowspec(&guaranteed()).filter_spec(&sender4(1)),
        ),
        seed(
            "resv-v4-ff-inherit",
            "Resv, FF, three senders: the second takes the first one's FLOWSPEC",
            ff().flowspec(&controlled())
                .filter_spec(&sender4(1))
                .filter_spec(&sender4(2))
                .flowspec(&audio)
                .filter_spec(&sender4(3)),
        ),
        seed(
            "resv-v4-confirm",
            "Resv, FF, asks for a confirmation",
            resv4().confirm(ip("10.0.2.2")).style(Style::Ff).flowspec(&controlled()).filter_spec(&sender4(1)),
        ),
        seed(
            "resv-v4-router-values",
            "Resv as routers send it: m = 0, M = 0",
            ff().flowspec(&router).filter_spec(&sender4(1)),
        ),
        seed(
            "resv-v4-se",
            "Resv, SE, three senders share one FLOWSPEC",
            resv4()
                .style(Style::Se)
                .flowspec(&controlled())
                .filter_spec(&sender4(1))
                .filter_spec(&sender4(2))
                .filter_spec(&sender4(3)),
        ),
        seed("resv-v4-wf", "Resv, WF", resv4().style(Style::Wf).flowspec(&controlled())),
        seed(
            "resv-v4-wf-scope",
            "Resv, WF with SCOPE, guaranteed service",
            resv4().scope(&scope).style(Style::Wf).flowspec(&guaranteed()),
        ),
        seed(
            "resv-v4-wf-scope-empty",
            "Resv, WF with an empty SCOPE",
            resv4().scope(&[]).style(Style::Wf).flowspec(&controlled()),
        ),
        seed(
            "resv-v4-null-service",
            "Resv, FF, null service (RFC 2997), which we recognise and do not offer",
            ff().raw(9, 2, &null_service).filter_spec(&sender4(1)),
        ),
        seed(
            "resv-v4-forward",
            "Resv, FF, an object to forward (0xd0) in the middle of the flow descriptor list",
            ff().flowspec(&controlled()).raw(0xd0, 1, &[1; 4]).filter_spec(&sender4(1)),
        ),
    ]
}

fn v6() -> Vec<Seed> {
    let label = FilterObject::FlowLabel { src: "2001:db8:1::9".parse().unwrap(), label: 0x12345 };
    vec![
        seed(
            "resv-v6-ff",
            "Resv, IPv6, FF, guaranteed service, with confirmation",
            resv6().confirm(ip("2001:db8:2::2")).style(Style::Ff).flowspec(&guaranteed()).filter_spec(&sender6(1)),
        ),
        seed(
            "resv-v6-se",
            "Resv, IPv6, SE, one sender by ports and one by flow label",
            resv6().style(Style::Se).flowspec(&controlled()).filter_spec(&sender6(1)).filter_spec(&label),
        ),
        seed(
            "resv-v6-wf-scope",
            "Resv, IPv6, WF with SCOPE",
            resv6().scope(&[ip("2001:db8:1::1"), ip("2001:db8:1::2")]).style(Style::Wf).flowspec(&controlled()),
        ),
    ]
}

fn tears() -> Vec<Seed> {
    let tear4 = || start(MessageType::ResvTear).session(&session4()).hop(&hop4());
    let tear6 = start(MessageType::ResvTear).session(&session6()).hop(&hop6());
    vec![
        seed("resvtear-v4-ff", "ResvTear, FF, without FLOWSPEC", tear4().style(Style::Ff).filter_spec(&sender4(1))),
        seed(
            "resvtear-v4-ff-flowspec",
            "ResvTear, FF, repeats the FLOWSPEC",
            tear4().style(Style::Ff).flowspec(&controlled()).filter_spec(&sender4(1)),
        ),
        seed(
            "resvtear-v4-se",
            "ResvTear, SE, two senders",
            tear4().style(Style::Se).filter_spec(&sender4(1)).filter_spec(&sender4(2)),
        ),
        seed("resvtear-v4-wf", "ResvTear, WF, nothing but the style", tear4().style(Style::Wf)),
        seed("resvtear-v6-ff", "ResvTear, IPv6, FF", tear6.style(Style::Ff).filter_spec(&sender6(1))),
    ]
}

fn confirmations() -> Vec<Seed> {
    let spec = |node| ErrorSpec { node, flags: 0, code: 0, value: 0 };
    let conf4 = |node: &str| {
        let head = start(MessageType::ResvConf).session(&session4()).error_spec(&spec(ip(node)));
        head.confirm(ip("10.0.2.2"))
    };
    let conf6 = start(MessageType::ResvConf).session(&session6()).error_spec(&spec(ip("2001:db8:1::1")));
    vec![
        seed(
            "resvconf-v4-ff",
            "ResvConf, FF",
            conf4("10.0.1.254").style(Style::Ff).flowspec(&controlled()).filter_spec(&sender4(1)),
        ),
        seed(
            "resvconf-v4-sender-node",
            "ResvConf as routers send it: the node is the sender's address",
            conf4("10.0.1.1").style(Style::Ff).flowspec(&guaranteed()).filter_spec(&sender4(1)),
        ),
        seed("resvconf-v4-wf", "ResvConf, WF", conf4("10.0.1.254").style(Style::Wf).flowspec(&controlled())),
        seed(
            "resvconf-v6-se",
            "ResvConf, IPv6, SE",
            conf6.confirm(ip("2001:db8:2::2")).style(Style::Se).flowspec(&controlled()).filter_spec(&sender6(1)),
        ),
    ]
}
