//! Checks that do not need the ledger's free amounts (FAULTS.md T1, T3, T8, T9).

use super::Wanted;
use crate::config::Config;
use crate::io::{BookingRequest, When};
use crate::refusal::{Refusal, RefusalReason};
use alloc::format;
use alloc::string::String;
use terms::book::{Binding, ResourceKind};
use terms::{Rate, Span, Time};

/// An amount beyond every resource: sums of two cannot overflow.
const MOST: u64 = 1 << 62;

pub(super) fn shape(ask: &BookingRequest, config: &Config) -> Result<(), Refusal> {
    match ask.parts.len() {
        0 => return Err(Refusal::meaningless(None, "a reservation has at least one part: of which resource?")),
        n if n > config.parts => return Err(limit("parts of a reservation", config.parts)),
        _ => {}
    }
    if ask.notice.as_deref().is_some_and(|notice| *notice == Span::ZERO || *notice > config.horizon) {
        let most = config.horizon.as_nanos() / Span::NANOS_PER_SEC;
        return Err(Refusal::meaningless(
            None,
            format!("a notice comes more than nothing and {most} s before the end at most"),
        ));
    }
    check_text("label", &ask.label, config)?;
    check_text("group", &ask.group, config)?;
    if ask.members.len() > config.members {
        return Err(limit("members of a group", config.members));
    }
    match ask.members.iter().any(String::is_empty) {
        true => Err(Refusal::meaningless(None, "members: one without a name")),
        false => ask.members.iter().try_for_each(|member| check_text("members", member, config)),
    }
}

/// Checks a text that people chose: not too long, no control characters (it goes into logs and terminals).
pub(crate) fn check_text(what: &'static str, text: &str, config: &Config) -> Result<(), Refusal> {
    if text.len() > config.text {
        return Err(Refusal::meaningless(None, format!("{what}: at most {} bytes", config.text)));
    }
    if text.chars().any(char::is_control) {
        return Err(Refusal::meaningless(None, format!("{what}: no control characters")));
    }
    Ok(())
}

pub(super) fn part(n: usize, wanted: &Wanted<'_>, when: &When) -> Result<(), Refusal> {
    let ask = wanted.ask;
    let no = |text: &str| Err(Refusal::meaningless(Some(n), text));
    let volume = matches!(when, When::Volume { .. });
    if ask.amount == 0 && !volume {
        return no("an amount of zero reserves nothing");
    }
    if ask.amount > MOST {
        return no("more than any resource has");
    }
    if ask.least == 0 && ask.amount != 0 {
        return no("the least that will do is more than nothing");
    }
    if ask.least > ask.amount {
        return no("the least that will do is more than what is wanted");
    }
    if wanted.kind.has_packets() && !(20..=65_535).contains(&ask.shape.packet) {
        return no("packets are 20 to 65,535 bytes long");
    }
    if ask.shape.rtt > Span::from_secs(60) {
        return no("a round-trip time is 60 seconds at most");
    }
    if let Some(background) = ask.background {
        if wanted.offer.shared == 0 {
            return no("this resource takes no background reservations");
        }
        if background.weight == 0 {
            return no("a weight is at least 1");
        }
        if background.floor > ask.amount && !volume {
            return no("the floor is above the most that is wanted");
        }
        if volume {
            return no("a volume cannot be promised in the background");
        }
    }
    if let Some(meter) = ask.shape.meter {
        if wanted.kind != ResourceKind::Network {
            return no("only parts of an interface have a meter; an agreement says its own ([[sla]])");
        }
        if ask.background.is_none() {
            return no(
                "a meter gives AF11 to AF13, which background parts have: ask for background; EF has one bucket",
            );
        }
        // A share that grows beyond the peak rate later is its own peak.
        if let Some(fault) = meter.fault(Rate::from_bps(ask.amount)) {
            return no(fault);
        }
    }
    if volume && !wanted.kind.is_rate() {
        return no("a volume is moved at a rate: only network, disk and SLA parts go with it");
    }
    match &ask.binding {
        Some(binding) => check_binding(n, wanted.kind, binding),
        None => Ok(()),
    }
}

/// Checks that a resource of this kind can have such a binding.
pub(crate) fn check_binding(n: usize, kind: ResourceKind, binding: &Binding) -> Result<(), Refusal> {
    let no = |text: String| Err(Refusal::meaningless(Some(n), text));
    match (kind, binding) {
        (ResourceKind::Network, Binding::Flow(flow)) => match flow.fault() {
            Some(fault) => no(format!("the flow {fault}")),
            None => Ok(()),
        },
        (ResourceKind::Measured, Binding::Flow(flow)) => match flow.whole() {
            Some(_) => Ok(()),
            None => {
                no("a part that is admitted by measurement is for one flow of TCP or UDP: say both addresses, the \
                        protocol and both ports"
                    .into())
            }
        },
        (ResourceKind::Cpu | ResourceKind::Disk, Binding::Process(task) | Binding::Thread(task))
            if task.number == 0 =>
        {
            no("process 0 is no process".into())
        }
        (ResourceKind::Cpu, Binding::Process(_) | Binding::Thread(_)) | (ResourceKind::Disk, Binding::Process(_)) => {
            Ok(())
        }
        (ResourceKind::Network | ResourceKind::Cpu | ResourceKind::Disk, Binding::Cgroup(path)) => {
            let bad = path.is_empty() || path.len() > 4_096 || path.chars().any(char::is_control);
            let climbs = path.split('/').any(|name| name == "..");
            if bad || climbs { no(format!("{path:?} is no path of a control group")) } else { Ok(()) }
        }
        (ResourceKind::Countable, _) => no("what is counted is for nobody in particular".into()),
        (ResourceKind::Sla, _) => no("an SLA is about all packets of the peer: leave its part unbound".into()),
        (ResourceKind::Measured, _) => no("a part that is admitted by measurement is for a flow".into()),
        (ResourceKind::Network, _) => no("a network part is for a flow or a control group".into()),
        (ResourceKind::Cpu, _) => no("a processor part is for a process, a thread or a control group".into()),
        (ResourceKind::Disk, _) => no("a disk part is for a process or a control group".into()),
    }
}

pub(super) fn when(when: &When, wanted: &[Wanted<'_>], config: &Config, today: Time) -> Result<(), Refusal> {
    let no = |text: &str| Err(Refusal::meaningless(None, text));
    let horizon = today.saturating_add(config.horizon);
    let too_far = |t: Time| t != Time::FOREVER && t > horizon;
    let far = "that is further ahead than reservations are taken";
    let over = "that is over already";
    let twice = || {
        let mut ids = wanted.iter().enumerate();
        ids.any(|(n, part)| part.needs_room() && wanted[..n].iter().any(|p| p.needs_room() && p.id == part.id))
    };
    match when {
        When::Window { start, end } => {
            let (start, end) = (start.unwrap_or(today).max(today), end.unwrap_or(Time::FOREVER));
            match () {
                () if end <= today => no(over),
                () if start >= end => no("the window is empty: it must end after it starts"),
                () if too_far(start) || too_far(end) => no(far),
                () => Ok(()),
            }
        }
        When::Now { span } if *span == Span::ZERO => no("no time at all"),
        When::Now { span } if *span > config.horizon => no(far),
        When::Now { .. } => Ok(()),
        When::Earliest { span, not_before, by } => match () {
            () if *span == Span::ZERO => no("no time at all"),
            () if *span > config.horizon => no(far),
            () if by.is_some_and(|by| by <= today) => no(over),
            () if not_before.is_some_and(too_far) => no(far),
            () if by.is_some_and(|by| by.since(not_before.unwrap_or(today).max(today)) < *span) => {
                no("it is longer than the time that is left for it")
            }
            () if twice() => no("the earliest time is looked for with each resource named once"),
            () => Ok(()),
        },
        When::Volume { bytes, not_before, deadline } => match () {
            () if *bytes == 0 => no("a volume of nothing"),
            () if *bytes > MOST / 8 => no("a volume that nothing can move"),
            () if *deadline <= today => no(over),
            () if *deadline == Time::FOREVER || too_far(*deadline) => no(far),
            () if not_before.is_some_and(|start| start >= *deadline) => no("the deadline is before the start"),
            () if twice() => no("a volume is moved with each resource named once"),
            () => Ok(()),
        },
        When::Series { windows, may_fail } => {
            if windows.is_empty() {
                return no("a series has at least one window");
            }
            if windows.len() > config.steps {
                return Err(limit("windows of a series", config.steps));
            }
            if windows.windows(2).any(|pair| pair[0].end() > pair[1].start()) {
                return no("the windows of a series are in order and do not overlap");
            }
            if windows.iter().any(|window| too_far(window.start()) || too_far(window.end())) {
                return no(far);
            }
            if windows[0].end() <= today {
                return no("the first window of the series is over already");
            }
            if may_fail.iter().any(|n| *n >= windows.len()) {
                return no("a window that may fail is not among the windows");
            }
            Ok(())
        }
    }
}

pub(super) fn limit(what: &'static str, limit: usize) -> Refusal {
    Refusal::plain(RefusalReason::Limit { what, limit })
}
