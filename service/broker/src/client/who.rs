//! Who asks: the token that requests show, the user for whom they are made, and whom the broker takes us for.

use super::{Answer, BrokerClient};
use documents::overview::MeDoc;
use std::sync::Arc;

impl BrokerClient {
    /// The same client, whose requests show a token of a virtual organisation.
    #[must_use]
    pub fn showing(self, token: Option<String>) -> BrokerClient {
        BrokerClient { token: token.map(Arc::from), ..self }
    }

    /// The same client, whose requests are made for a user of the broker's machine, by root or one of its `speakers`.
    #[must_use]
    pub fn speaking_for(self, uid: u32, groups: &[u32]) -> BrokerClient {
        let groups: String = groups.iter().map(|group| format!(" gid:{group}")).collect();
        BrokerClient { user: Some(format!("uid:{uid}{groups}").into()), ..self }
    }

    /// Who the broker takes us for.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn me(&self) -> Answer<MeDoc> {
        self.get("/v1/me")
    }
}
