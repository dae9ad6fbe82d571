//! The meter of a background part: it is in the order and in the journal, part of the request, and refused where it cannot be.

use crate::world::{Driver, window};
use crate::{create, flow, granted, part};
use booking::io::{OrderAction, RecordTable};
use booking::record::Stored;
use booking::{BookingRequest, Call, RefusalReason, When};
use terms::book::{Background, MeterForm, MeterTerms};
use terms::{Bytes, Rate};

const NET: &[(&str, u64)] = &[("net/eth1", 45), ("cpu", 45)];

fn driver() -> Driver {
    let mut d = Driver::new(NET);
    (d.world.tables[0].2, d.world.tables[1].2) = (40, 40);
    d
}

fn meter() -> MeterTerms {
    let bursts = (Some(Bytes::new(9_000)), None);
    MeterTerms::new(MeterForm::TrTcm).with_rate(Some(Rate::from_bps(30))).with_bursts(bursts.0, bursts.1).aware(true)
}

fn metered(meter: Option<MeterTerms>) -> BookingRequest {
    let mut bulk = part("net/eth1", 20);
    bulk.background = Some(Background { weight: 1, floor: 0 });
    bulk.binding = Some(flow(1));
    bulk.shape.meter = meter;
    BookingRequest { parts: vec![bulk], when: When::default(), ..BookingRequest::default() }
}

#[test]
fn a_meter_is_ordered_kept_and_read_again() {
    let mut d = driver();
    let first = granted(d.call("ann", create(metered(Some(meter())))));
    assert_eq!(first.parts[0].shape.meter, Some(meter()));
    let order = d.carried.last().unwrap();
    assert!(matches!(order.action, OrderAction::Enable { .. }) && order.shape.meter == Some(meter()), "{order:?}");
    let mut next = Driver::asleep(booking::Config::default(), d.world.clone(), d.disk.clone(), 2);
    next.now = d.now;
    next.wake_up();
    assert_eq!(next.view("ann", first.handle).parts[0].shape.meter, Some(meter()), "after a restart");
    next.check();
    // Every form of a meter comes back, beside a part without one; other bytes are no meter.
    for form in MeterForm::ALL {
        let mut d = driver();
        let mut two = metered(Some(MeterTerms::new(form).marking_red(true)));
        two.parts.push(part("cpu", 1));
        granted(d.call("ann", create(two)));
        let (_, value) = d.disk.iter().find(|((table, _), _)| *table == RecordTable::Reservation).unwrap();
        assert_eq!(Stored::decode(value).unwrap().encode(), *value);
        assert!((0..value.len()).all(|len| Stored::decode(&value[..len]).is_err()), "cut off");
    }
}

/// What has no meter is written as before there were any, so that builds without them read it.
#[test]
fn a_record_without_meters_has_its_old_form() {
    let forms = [None, Some(meter())].map(|meter| {
        let mut d = driver();
        granted(d.call("ann", create(metered(meter))));
        let (_, value) = d.disk.iter().find(|((table, _), _)| *table == RecordTable::Reservation).unwrap();
        value[0] - 1
    });
    assert_eq!((forms[0] & 8, forms[1]), (0, forms[0] | 8));
}

#[test]
fn a_meter_is_part_of_the_request() {
    let mut d = driver();
    let keyed = |ask: BookingRequest| Call::Create { ask, hold: None, key: "k".to_owned() };
    let first = granted(d.call("ann", keyed(metered(Some(meter()))))).handle;
    assert_eq!(granted(d.call("ann", keyed(metered(Some(meter()))))).handle, first);
    for other in [None, Some(meter().marking_red(true)), Some(meter().aware(false))] {
        assert_eq!(d.call("ann", keyed(metered(other))).unwrap_err().why, RefusalReason::KeyUsed);
    }
}

#[test]
fn a_meter_is_refused_where_it_cannot_be() {
    let refused = |ask: BookingRequest| {
        let refusal = driver().call("ann", create(ask)).unwrap_err();
        assert!(matches!(refusal.why, RefusalReason::Meaningless { .. }), "{refusal:?}");
        format!("{refusal:?}")
    };
    let mut foreground = metered(Some(meter()));
    foreground.parts[0].background = None;
    foreground.when = When::Window { start: Some(window(1, 9).start()), end: Some(window(1, 9).end()) };
    assert!(refused(foreground).contains("EF has one bucket"));
    let mut processor = metered(Some(meter()));
    (processor.parts[0].resource, processor.parts[0].binding) = ("cpu".to_owned(), None);
    assert!(refused(processor).contains("only parts of an interface have a meter"));
    let low = meter().with_rate(Some(Rate::from_bps(19)));
    assert!(refused(metered(Some(low))).contains("the peak rate is below the rate that is booked"));
    let small = meter().with_bursts(Some(Bytes::new(1_499)), None);
    assert!(refused(metered(Some(small))).contains("a burst holds a whole packet"));
}
