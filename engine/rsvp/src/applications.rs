//! The standing of local applications: it holds for all their senders and requests.

use crate::io::AppId;
use alloc::collections::BTreeMap;
use terms::ports::Preemption;

/// The standing of each application that has stated one.
#[derive(Default)]
pub(crate) struct Applications {
    standings: BTreeMap<AppId, Standing>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Standing {
    /// True if it acts on behalf of hosts that do not signal.
    proxy: bool,
    /// The pre-emption priority of its requests.
    priority: Option<Preemption>,
}

impl Applications {
    /// From now on an application acts on behalf of hosts that do not signal.
    pub fn make_proxy(&mut self, app: AppId) {
        self.standings.entry(app).or_default().proxy = true;
    }

    /// Sets the pre-emption priority of an application's requests.
    pub fn prioritise(&mut self, app: AppId, priority: Option<Preemption>) {
        self.standings.entry(app).or_default().priority = priority;
    }

    /// True if an application acts on behalf of hosts that do not signal.
    pub fn is_proxy(&self, app: AppId) -> bool {
        self.standings.get(&app).is_some_and(|s| s.proxy)
    }

    /// The pre-emption priority of an application's requests.
    pub fn priority(&self, app: AppId) -> Option<Preemption> {
        self.standings.get(&app).and_then(|s| s.priority)
    }

    /// Forgets an application that has ended.
    pub fn forget(&mut self, app: AppId) {
        self.standings.remove(&app);
    }
}
