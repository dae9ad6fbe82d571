//! PathErr and ResvErr seeds.

use super::{Seed, controlled, guaranteed, hop4, hop6, ip, seed, sender4, sender6, session4, session6, start, video};
use terms::Style;
use wire::iana::error;
use wire::{ErrorSpec, MessageType, UserError};

const WORDS: UserError<'static> =
    UserError { enterprise: 0, sub_org: 0, value: 0, text: "node maui interface eth1 asked 12mbit free 6.5mbit" };

pub fn seeds() -> Vec<Seed> {
    let mut all = path_errors();
    all.extend(resv_errors());
    all
}

fn path_errors() -> Vec<Seed> {
    let node4 = |code, value| ErrorSpec { node: ip("10.0.3.1"), flags: 0, code, value };
    let node6 = ErrorSpec { node: ip("2001:db8:3::1"), flags: 0, code: error::UNKNOWN_CTYPE, value: 0x0b04 };
    let err4 = |code, value| start(MessageType::PathErr).session(&session4()).error_spec(&node4(code, value));
    // A Tspec whose token rate is NaN, quoted back.
    let mut nan = [0u8; 32];
    nan[..12].copy_from_slice(&[0, 0, 0, 7, 1, 0, 0, 6, 127, 0, 0, 5]);
    nan[12..16].copy_from_slice(&f32::NAN.to_be_bytes());
    vec![
        seed(
            "patherr-v4-unknown-class",
            "PathErr, unknown object class 0x2a, with the sender descriptor",
            err4(error::UNKNOWN_CLASS, 0x2a01).sender_template(&sender4(1)).sender_tspec(&video()),
        ),
        seed(
            "patherr-v4-words",
            "PathErr with the node's own words (USER_ERROR_SPEC)",
            err4(error::POLICY, 0).user_error(&WORDS).sender_template(&sender4(1)).sender_tspec(&video()),
        ),
        seed(
            "patherr-v4-bad-tspec",
            "PathErr that quotes the Tspec it complains of (token rate NaN)",
            err4(error::TRAFFIC_CONTROL, error::TC_BAD_TSPEC).sender_template(&sender4(1)).raw(12, 2, &nan),
        ),
        seed("patherr-v4-short", "PathErr without a sender descriptor", err4(error::BAD_DSTPORT, 0)),
        seed(
            "patherr-v6",
            "PathErr, IPv6, unknown C-Type",
            start(MessageType::PathErr)
                .session(&session6())
                .error_spec(&node6)
                .sender_template(&sender6(1))
                .sender_tspec(&video()),
        ),
    ]
}

fn resv_errors() -> Vec<Seed> {
    let node4 =
        |flags| ErrorSpec { node: ip("10.0.3.1"), flags, code: error::ADMISSION, value: error::ADMISSION_BANDWIDTH };
    let node6 = ErrorSpec { node: ip("2001:db8:3::1"), flags: 0, code: error::NO_PATH, value: 0 };
    let err4 = |flags| start(MessageType::ResvErr).session(&session4()).hop(&hop4()).error_spec(&node4(flags));
    let scope = [ip("10.0.1.1"), ip("10.0.1.2")];
    vec![
        seed(
            "resverr-v4-ff-words",
            "ResvErr, FF, admission refused, with the node's own words",
            err4(0).user_error(&WORDS).style(Style::Ff).flowspec(&controlled()).filter_spec(&sender4(1)),
        ),
        seed(
            "resverr-v4-in-place",
            "ResvErr, FF, guaranteed service, InPlace and NotGuilty",
            err4(3).style(Style::Ff).flowspec(&guaranteed()).filter_spec(&sender4(1)),
        ),
        seed(
            "resverr-v4-se",
            "ResvErr, SE, two senders",
            err4(0).style(Style::Se).flowspec(&controlled()).filter_spec(&sender4(1)).filter_spec(&sender4(2)),
        ),
        seed(
            "resverr-v4-wf-scope",
            "ResvErr, WF with SCOPE",
            err4(0).scope(&scope).style(Style::Wf).flowspec(&controlled()),
        ),
        seed("resverr-v4-short", "ResvErr without an error flow descriptor", err4(0).style(Style::Ff)),
        seed(
            "resverr-v6-ff",
            "ResvErr, IPv6, FF, no path",
            start(MessageType::ResvErr)
                .session(&session6())
                .hop(&hop6())
                .error_spec(&node6)
                .style(Style::Ff)
                .flowspec(&controlled())
                .filter_spec(&sender6(1)),
        ),
    ]
}
