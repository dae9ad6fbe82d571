//! The roots of interfaces, watched: another program may replace one at any time.
//!
//! The kernel sends the notice of a replaced root before it acknowledges the request. So as long as there is
//! no notice, a root that was found ours is ours, and a batch needs no look-up.

use crate::netlink::notice::{NetlinkNotice, Notices};
use std::collections::BTreeSet;
use terms::{Fault, IfIndex};

/// The interfaces whose root was found ours, and the notices that end this knowledge.
#[derive(Debug)]
pub struct RootWatch {
    notices: Notices,
    ours: BTreeSet<IfIndex>,
}

impl RootWatch {
    /// Watches the calling thread's network namespace.
    pub fn open() -> Result<RootWatch, Fault> {
        Ok(RootWatch { notices: Notices::of_queues()?, ours: BTreeSet::new() })
    }

    /// True if the root was found ours and nothing has changed since.
    pub fn is_ours(&mut self, oif: IfIndex) -> Result<bool, Fault> {
        for notice in self.notices.take()? {
            match notice {
                NetlinkNotice::Link(index) | NetlinkNotice::LinkGone(index) | NetlinkNotice::Qdisc(index) => {
                    self.ours.remove(&index);
                }
                NetlinkNotice::Lost => self.ours.clear(),
                NetlinkNotice::Address(_) | NetlinkNotice::Route(_) => {}
            }
        }
        Ok(self.ours.contains(&oif))
    }

    /// Records that the root was looked up after the last call of [`RootWatch::is_ours`], and is ours.
    pub fn found_ours(&mut self, oif: IfIndex) {
        self.ours.insert(oif);
    }
}
