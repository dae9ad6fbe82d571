//! `GET /metrics`: the broker, its agents and their resources as text for Prometheus; and a listener for the same text of
//! something else, as `sluice metrics --listen` has it.

use crate::broker::Broker;
use crate::caller::ConnectionPeer;
use crate::config::Limits;
use crate::listen::House;
use crate::overview::{all_agents, all_interfaces};
use crate::problem::{BoxedProblem, Problem};
use crate::routes::all_resources;
use crate::standby::Reception;
use axum::Router;
use axum::extract::{Extension, State};
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use metrics::{BrokerFigures, CONTENT_TYPE, of_broker};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The broker, its agents and what can be reserved, as text for Prometheus.
#[utoipa::path(get, path = "/metrics",
    responses((status = 200, body = String, content_type = "text/plain"), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn metrics(
    State(broker): State<Arc<Broker>>,
    Extension(peer): Extension<ConnectionPeer>,
) -> Result<impl IntoResponse, BoxedProblem> {
    let caller = peer.caller()?;
    let (agents, interfaces, resources) = tokio::try_join!(
        all_agents(&broker),
        all_interfaces(&broker, &caller, None),
        all_resources(&broker, &caller, None)
    )?;
    let page = of_broker(&BrokerFigures {
        broker: broker.transactions.name().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        agents: agents.agents,
        interfaces: interfaces.agents,
        resources: resources.resources,
        open_transactions: broker.transactions.count(),
    });
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], page))
}

/// Serves the page that `text` makes, as `/metrics` at this address of the loopback, until the process ends.
/// `ready` is told the address; requests that were sent to another name, or by a page from elsewhere, are refused.
///
/// # Errors
/// The address is none of the loopback, or not available.
pub async fn export(
    at: SocketAddr,
    ready: impl FnOnce(SocketAddr),
    text: impl Fn() -> String + Send + Sync + 'static,
) -> io::Result<()> {
    if !at.ip().is_loopback() {
        let what = format!("{at} is no address of the loopback: there nobody says who they are");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let listener = TcpListener::bind(at).await?;
    ready(listener.local_addr()?);
    let text = Arc::new(text);
    let page = move || {
        let text = text.clone();
        async move {
            // It waits for an agent.
            let text = tokio::task::spawn_blocking(move || text()).await.unwrap_or_default();
            ([(header::CONTENT_TYPE, CONTENT_TYPE)], text)
        }
    };
    let (_stop, stopped) = watch::channel(false);
    let reception = Reception::new();
    reception.open(Router::new().route("/metrics", get(page)), None);
    let house = House::new(reception, Limits::default(), stopped);
    house.plain(listener, "metrics".into()).await;
    Ok(())
}
