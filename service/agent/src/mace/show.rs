//! Flows that never signalled, as a document.

use super::MaceHost;
use crate::drive::Drive;
use ::mace::engine::PromotedFlow;
use ::mace::io::FlowDecision;
use documents::mace::{MaceApplicationRow, MaceCountRow, MaceDecisionRow, MaceDoc, MaceFlowRow, MaceShadowRow};
use terms::{FlowKey, Rate, Session, Time};

/// The state of the interface with recognition, with at most so many flows; `None`: there is none.
pub(crate) fn show(drive: &Drive, most: usize) -> Option<MaceDoc> {
    let (host, config) = (drive.mace.as_ref()?, drive.config.mace.as_ref()?);
    let now = drive.clock.now();
    let (terms, rule) = host.engine.rule();
    let shared = host.engine.config().shared;
    let counts = host.engine.counts();
    Some(MaceDoc {
        interface: config.interface.clone(),
        rule: terms.name().to_owned(),
        allocated_wire_bps: shared.allocated.as_bps(),
        measured_wire_bps: host.engine.measured().map(Rate::as_bps),
        estimate_wire_bps: rule.usage().as_bps(),
        declared_wire_bps: rule.declared().as_bps(),
        in_doubt: rule.in_doubt(),
        period_ms: shared.period.as_millis(),
        window: shared.window,
        flows: host.engine.promoted().iter().take(most).map(|(flow, promoted)| row(now, flow, promoted)).collect(),
        promoted: host.engine.promoted().len(),
        signalled: config.signalled.then(|| host.engine.signalled()),
        applications: applications(host),
        shadows: host.engine.shadows().iter().map(shadow).collect(),
        decisions: host.engine.decisions().rev().map(|decision| decided(host, now, decision)).collect(),
        counts: MaceCountRow {
            asked: counts.asked,
            admitted: counts.admitted,
            refused: counts.refused,
            failed: counts.failed,
            silent: counts.silent,
            ended: counts.ended,
            samples: counts.samples,
            doubted: counts.doubted,
        },
    })
}

fn row(now: Time, flow: &FlowKey, promoted: &PromotedFlow) -> MaceFlowRow {
    let session = Session { dst: flow.dst, protocol: flow.protocol, dst_port: flow.dst_port };
    MaceFlowRow {
        session: session.into(),
        sender: flow.sender(&session).into(),
        application: promoted.application.clone(),
        declared_wire_bps: promoted.declared.as_bps(),
        age_ms: now.since(promoted.since).as_millis(),
        silent_ms: now.since(promoted.last).as_millis(),
        timeout_ms: promoted.timeout.as_millis(),
        installed: promoted.installed,
    }
}

fn applications(host: &MaceHost) -> Vec<MaceApplicationRow> {
    let row = |known: &::mace::KnownApplication| {
        let counts = host.engine.counts_of(&known.name);
        MaceApplicationRow {
            name: known.name.clone(),
            protocol: known.protocol,
            first_port: known.ports.0,
            last_port: known.ports.1,
            rate_bps: known.rate.as_bps(),
            bucket_bytes: known.depth.get(),
            threshold: known.threshold,
            timeout_ms: known.timeout.as_millis(),
            asked: counts.asked,
            admitted: counts.admitted,
            declared_wire_bps: known.declared(host.engine.config().overhead).as_bps(),
            would_admit: would_admit(host, known.declared(host.engine.config().overhead)),
        }
    };
    host.engine.applications().all().iter().map(row).collect()
}

/// The rules that would admit one more flow of this rate now.
fn would_admit(host: &MaceHost, declared: Rate) -> Vec<String> {
    let (terms, rule) = host.engine.rule();
    let first = rule.would(declared).is_ok().then(|| terms.name().to_owned());
    let others = host.engine.shadows().iter().filter(|shadow| shadow.would(declared));
    first.into_iter().chain(others.map(|shadow| shadow.terms().name().to_owned())).collect()
}

fn decided(host: &MaceHost, now: Time, decision: &FlowDecision) -> MaceDecisionRow {
    let flow = &decision.flow;
    let session = Session { dst: flow.dst, protocol: flow.protocol, dst_port: flow.dst_port };
    let said = host.engine.shadows().iter().zip(&decision.shadows);
    MaceDecisionRow {
        age_ms: now.since(decision.at).as_millis(),
        session: session.into(),
        sender: flow.sender(&session).into(),
        application: decision.application.clone(),
        declared_wire_bps: decision.declared.as_bps(),
        estimate_wire_bps: decision.usage.as_bps(),
        admitted: decision.admitted,
        would_admit: said.filter(|(_, yes)| **yes).map(|(rule, _)| rule.terms().name().to_owned()).collect(),
    }
}

fn shadow(rule: &::mace::rules::ShadowRule) -> MaceShadowRow {
    let (admitted, refused) = rule.answers();
    let (rule, estimate_wire_bps) = (rule.terms().name().to_owned(), rule.usage().as_bps());
    MaceShadowRow { rule, estimate_wire_bps, admitted, refused }
}
