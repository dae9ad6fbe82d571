//! Objects in words, for `rapi_fmt_*`.

use crate::objects::{RapiObject, form};
use documents::agent::{FlowSpecDoc, TspecDoc};
use rsvp_client::Failure;

/// A flowspec; also a Tspec, as the lists of path events have them.
pub fn flowspec(object: &RapiObject<'_>) -> String {
    match object.form {
        form::TSPEC_SIMPLIFIED | form::TSPEC_INTSERV => tspec(object),
        _ => said(object, |object| {
            Ok(match object.flowspec()? {
                FlowSpecDoc::ControlledLoad { tspec } => format!("[CL {}]", bucket(&tspec)),
                FlowSpecDoc::Guaranteed { tspec, rate_bps, slack_us } => {
                    format!("[G {} R={} S={slack_us}]", bucket(&tspec), rate_bps as f64 / 8.0)
                }
            })
        }),
    }
}

/// A Tspec.
pub fn tspec(object: &RapiObject<'_>) -> String {
    said(object, |object| Ok(format!("[T {}]", bucket(&object.tspec()?))))
}

/// An ADSPEC.
pub fn adspec(object: &RapiObject<'_>) -> String {
    said(object, |object| {
        let a = object.adspec()?;
        let known = |value: Option<f64>| value.map_or("?".to_owned(), |value| value.to_string());
        let broken = |broken: bool| if broken { " broken" } else { "" };
        let mut text = format!(
            "[Adspec{} hops={} bw={} lat={} MTU={}",
            broken(a.break_bit),
            a.hops,
            known(a.bandwidth_bps.map(|bps| bps as f64 / 8.0)),
            known(a.latency_us.map(|us| us as f64)),
            a.mtu
        );
        if let Some(b) = a.controlled_load_break {
            text += &format!(" CL{}", broken(b));
        }
        if let Some(g) = a.guaranteed {
            let (b, c, d) = (broken(g.break_bit), g.c_tot_bytes, g.d_tot_us);
            text += &format!(" G{b} Ctot={c} Dtot={d} Csum={} Dsum={}", g.c_sum_bytes, g.d_sum_us);
        }
        Ok(text + "]")
    })
}

/// A filter: address and port, or address and security parameter index.
pub fn filter(object: &RapiObject<'_>) -> String {
    said(object, |object| {
        let (sender, gpi) = object.filter()?;
        Ok(match gpi {
            true => format!("{}/spi {:#x}", sender.src, sender.src_port),
            false => std::net::SocketAddr::new(sender.src, sender.src_port as u16).to_string(),
        })
    })
}

fn bucket(tspec: &TspecDoc) -> String {
    let peak = tspec.p_bps.map_or("inf".to_owned(), |bps| (bps as f64 / 8.0).to_string());
    let (rate, m, max) = (tspec.r_bps as f64 / 8.0, tspec.m_bytes, tspec.max_bytes);
    format!("r={rate} b={} p={peak} m={m} M={max}", tspec.b_bytes)
}

fn said(object: &RapiObject<'_>, words: impl FnOnce(&RapiObject<'_>) -> Result<String, Failure>) -> String {
    match object.form {
        form::EMPTY => "[empty]".to_owned(),
        _ => words(object).unwrap_or_else(|failure| format!("[? {}]", failure.words)),
    }
}
