//! The question to a neighbour's broker: `GET /v1/topology?signed=true`, over mutual TLS.

use crate::neighbours::NeighbourDomain;
use crate::wire::Outward;
use documents::topology::{DomainsDoc, StatementDoc};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use trust::CertificateRole;

/// The longest time of a question, handshake included.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer, bytes.
const MOST_ANSWER: usize = 32 << 20;

/// Asks for all advertisements that are newer than those that are known.
///
/// # Errors
/// A sentence: who answers there is not that domain's broker, or it does not answer, or what makes no sense.
pub(super) async fn ask(
    neighbour: &NeighbourDomain,
    outward: &Outward,
    seen: &BTreeMap<String, u64>,
) -> Result<Vec<StatementDoc>, String> {
    let answer = timeout(PATIENCE, exchange(neighbour, outward, seen)).await;
    answer.unwrap_or_else(|_| Err(format!("it did not answer within {} s", PATIENCE.as_secs())))
}

async fn exchange(
    neighbour: &NeighbourDomain,
    outward: &Outward,
    seen: &BTreeMap<String, u64>,
) -> Result<Vec<StatementDoc>, String> {
    let NeighbourDomain { name: domain, host, port, .. } = neighbour;
    let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
    let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(outward.config.clone());
    let stream = connector.connect(name.clone(), stream).await.map_err(|error| error.to_string())?;
    let identity = outward.gate.server(stream.get_ref().1.peer_certificates(), &name);
    let identity = identity.map_err(|error| error.to_string())?;
    if identity.role != CertificateRole::Broker || identity.domain.as_deref() != Some(domain) {
        return Err(format!("{identity} is no broker of {domain}"));
    }
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let running = tokio::spawn(connection);
    let known: Vec<String> = seen.iter().map(|(domain, number)| format!("{domain}:{number}")).collect();
    let host = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let request = Request::get(format!("/v1/topology?signed=true&known={}", known.join(",")))
        .header(header::HOST, host)
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MOST_ANSWER).collect().await;
        Ok::<_, String>((status, body.map_err(|error| error.to_string())?.to_bytes()))
    };
    let answer = answer.await;
    running.abort();
    match answer? {
        (StatusCode::OK, text) => {
            let doc: DomainsDoc = crate::strict::read(&text)?;
            Ok(doc.statements)
        }
        (status, _) => Err(format!("it answered {status}")),
    }
}
