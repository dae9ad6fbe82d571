//! The ledger of a link as a node uses it: open slots come, change, go, and a refusal says what is free.

use admit::{Limits, LinkLedger, LinkTerms};
use terms::{IfIndex, Misuse, Rate, Refused, Time};

const NOW: Time = Time::from_nanos(1_000);

fn link() -> LinkLedger {
    let terms = LinkTerms {
        rate: Rate::from_mbps(10),
        kept_back: Rate::from_kbps(500),
        signalled_share: Rate::from_mbps(10),
        assumed_holding: None,
    };
    LinkLedger::new(IfIndex(3), terms, Limits::default())
}

#[test]
fn what_is_kept_back_is_never_given() {
    let mut link = link();
    assert_eq!(link.free(NOW), Rate::from_kbps(9_500));
    let a = link.open(NOW, Rate::from_mbps(9)).unwrap();
    let refused = link.open(NOW, Rate::from_mbps(1)).unwrap_err();
    let (asked, free) = (Rate::from_mbps(1), Rate::from_kbps(500));
    assert_eq!(refused, Refused::Capacity { interface: IfIndex(3), asked, free });
    link.open(NOW, Rate::from_kbps(500)).unwrap();
    assert_eq!(link.free(NOW), Rate::ZERO);
    link.release(NOW, a).unwrap();
    assert_eq!(link.free(NOW), Rate::from_mbps(9));
    assert_eq!(link.release(NOW, a), Err(Misuse::UnknownHandle));
}

#[test]
fn a_refused_change_leaves_the_old() {
    let mut link = link();
    let a = link.open(NOW, Rate::from_mbps(4)).unwrap();
    link.open(NOW, Rate::from_mbps(5)).unwrap();
    let before = link.table().digest();
    let refused = link.modify(NOW, a, Rate::from_mbps(5)).unwrap_err();
    let (asked, free) = (Rate::from_mbps(5), Rate::from_kbps(4_500));
    assert_eq!(refused, Refused::Capacity { interface: IfIndex(3), asked, free });
    assert_eq!(link.table().digest(), before);
    assert_eq!(link.modify(NOW, a, Rate::from_kbps(4_500)).unwrap().amount, Rate::from_kbps(4_500));
    assert_eq!(link.modify(NOW, a, Rate::from_kbps(1)).unwrap().amount, Rate::from_kbps(1));
    assert_eq!(link.modify(NOW, a, Rate::ZERO), Err(Refused::Meaningless(Misuse::ZeroRate)));
}

#[test]
fn a_link_that_shrinks_says_what_is_missing() {
    let mut link = link();
    let a = link.open(NOW, Rate::from_mbps(9)).unwrap();
    let slower = LinkTerms { rate: Rate::from_mbps(5), ..link.terms() };
    let shortfall = link.change(NOW, slower).unwrap().unwrap();
    assert_eq!((shortfall.first, shortfall.worst), (NOW, Rate::from_kbps(4_500)));
    assert!(link.open(NOW, Rate::from_bps(1)).is_err());
    assert_eq!(link.modify(NOW, a, Rate::from_mbps(8)).unwrap().amount, Rate::from_mbps(8));
    assert_eq!(link.open_sum(), Rate::from_mbps(8));
}

#[test]
fn what_was_found_in_the_plane_counts_even_if_it_does_not_fit() {
    let mut link = link();
    let (_, none) = link.adopt(NOW, Rate::from_mbps(9)).unwrap();
    assert_eq!(none, None);
    let (second, missing) = link.adopt(NOW, Rate::from_mbps(2)).unwrap();
    assert_eq!(missing.unwrap().worst, Rate::from_kbps(1_500));
    assert_eq!(link.free(NOW), Rate::ZERO);
    link.release(NOW, second).unwrap();
    assert_eq!(link.free(NOW), Rate::from_kbps(500));
    assert_eq!(link.table().audit(), Ok(()));
}
