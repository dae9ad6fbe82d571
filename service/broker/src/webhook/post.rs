//! One delivery: a POST over a connection of its own, with a signature that the receiver can check.

use super::target::WebhookTarget;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sha2::Sha256;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The longest time of a whole delivery.
const PATIENCE: Duration = Duration::from_secs(10);

/// The client that posts.
#[derive(Clone, Debug)]
pub struct Poster {
    ca: PathBuf,
}

/// A delivery.
#[derive(Clone, Debug)]
pub struct Delivery<'a> {
    /// The name of the webhook.
    pub id: &'a str,
    /// The secret of the signature.
    pub secret: &'a str,
    /// The time, seconds since 1970. It is signed, so that an old delivery is known as such.
    pub at_s: u64,
    /// The body.
    pub body: Vec<u8>,
}

/// `t=SECONDS,v1=HEX`: HMAC-SHA-256 over the seconds, a dot and the body.
pub fn signature(secret: &str, at_s: u64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(at_s.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={at_s},v1={hex}")
}

impl Poster {
    /// A client that trusts the authorities in this file. It is read at each delivery, as deliveries are few.
    pub fn new(ca: &Path) -> Poster {
        Poster { ca: ca.to_owned() }
    }

    /// Posts. A status of 2xx means accepted. Redirections are not followed.
    ///
    /// # Errors
    /// A sentence that says why it was not accepted.
    pub async fn post(&self, target: &WebhookTarget, delivery: Delivery<'_>) -> Result<(), String> {
        timeout(PATIENCE, self.try_post(target, delivery)).await.unwrap_or_else(|_| Err("it took too long".to_owned()))
    }

    async fn try_post(&self, target: &WebhookTarget, delivery: Delivery<'_>) -> Result<(), String> {
        let stream =
            TcpStream::connect((target.host.as_str(), target.port)).await.map_err(|error| error.to_string())?;
        if !target.tls {
            return send(stream, target, delivery).await;
        }
        let name = ServerName::try_from(target.host.clone()).map_err(|error| error.to_string())?;
        let stream =
            TlsConnector::from(self.config()?).connect(name, stream).await.map_err(|error| error.to_string())?;
        send(stream, target, delivery).await
    }

    fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let wrong = |what: String| format!("{}: {what}", self.ca.display());
        let text = std::fs::read(&self.ca).map_err(|error| wrong(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&text).flatten());
        if roots.is_empty() {
            return Err(wrong("there is no certificate in it".to_owned()));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
    }
}

async fn send<S>(stream: S, target: &WebhookTarget, delivery: Delivery<'_>) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let running = tokio::spawn(connection);
    let request = Request::post(&target.path)
        .header(header::HOST, target.authority())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, concat!("sluice/", env!("CARGO_PKG_VERSION")))
        .header("sluice-webhook", delivery.id)
        .header("sluice-signature", signature(delivery.secret, delivery.at_s, &delivery.body))
        .body(Full::new(Bytes::from(delivery.body)).boxed())
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(|error| error.to_string());
    running.abort();
    let status = answer?.status();
    if !status.is_success() {
        return Err(format!("the target answered {status}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2, has this key; the message here is ours, computed with openssl:
    /// `printf '1700000000.{}' | openssl dgst -sha256 -hmac Jefe`
    #[test]
    fn the_signature_is_hmac_sha_256() {
        let signed = signature("Jefe", 1_700_000_000, b"{}");
        assert_eq!(signed, "t=1700000000,v1=d3793e2b4103edfbd98cc19591832f5fad701d413db9fcae0ae7dab8184ed207");
    }
}
