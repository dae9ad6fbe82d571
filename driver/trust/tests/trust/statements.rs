//! Signed statements: a partner's broker is believed, and whoever changes or borrows one is not.

use super::partners::{Sites, TODAY};
use std::sync::Arc;
use terms::Span;
use trust::{CertificateRole, DiskSource, MAX_STATEMENT, SignedStatement, StatementSigner, TrustGate};

const PURPOSE: &str = "topology";

fn gate(sites: &Sites, roles: &[CertificateRole], later: Span) -> TrustGate {
    let now = Arc::new(move || TODAY + later);
    TrustGate::open(&sites.broker(roles), Arc::new(DiskSource), now).unwrap()
}

fn signer(sites: &Sites, site: &str, who: &str) -> StatementSigner {
    StatementSigner::open(&sites.files(site, who)).unwrap()
}

fn refused(gate: &TrustGate, purpose: &str, statement: &SignedStatement) -> String {
    gate.stated(purpose, statement).unwrap_err().to_string()
}

#[test]
fn a_partners_broker_is_believed_for_its_own_words_and_one_purpose() {
    let sites = Sites::new("statements");
    let gate = gate(&sites, &[CertificateRole::Broker], Span::ZERO);
    let signed = signer(&sites, "anl", "broker-main").sign(PURPOSE, "{\"domain\":\"anl\"}").unwrap();
    assert_eq!(gate.stated(PURPOSE, &signed).unwrap().to_string(), "anl/broker/main");
    let own = signer(&sites, "home", "broker-main").sign(PURPOSE, "ours").unwrap();
    assert_eq!(gate.stated(PURPOSE, &own).unwrap().to_string(), "broker/main");

    assert!(refused(&gate, "acceptance", &signed).contains("not that of"), "signed for another purpose");
    let forged = SignedStatement { text: signed.text.replace("anl", "lbl"), ..signed.clone() };
    assert!(refused(&gate, PURPOSE, &forged).contains("not that of"));
    let borrowed = SignedStatement { chain: own.chain.clone(), ..signed.clone() };
    assert!(refused(&gate, PURPOSE, &borrowed).contains("not that of"), "with another's certificate");
    for n in 0..signed.signature.len() {
        let mut broken = signed.clone();
        broken.signature[n] ^= 1;
        assert!(gate.stated(PURPOSE, &broken).is_err(), "bit 0 of byte {n}");
    }
    assert!(refused(&gate, PURPOSE, &SignedStatement { chain: vec![], ..signed.clone() }).contains("certificate"));
    let long = SignedStatement { text: "x".repeat(MAX_STATEMENT + 1), ..signed };
    assert!(refused(&gate, PURPOSE, &long).contains("longer"));
    assert!(signer(&sites, "home", "broker-main").sign(PURPOSE, &long.text).is_err());
}

#[test]
fn only_brokers_that_are_trusted_now_are_believed() {
    let sites = Sites::new("believed");
    let signed = signer(&sites, "anl", "broker-main").sign(PURPOSE, "x").unwrap();
    let person = signer(&sites, "home", "operator-root").sign(PURPOSE, "x").unwrap();
    let trusted = gate(&sites, &[CertificateRole::Broker], Span::ZERO);
    assert!(refused(&trusted, PURPOSE, &person).contains("no broker"));
    let without = gate(&sites, &[CertificateRole::Requester], Span::ZERO);
    assert!(refused(&without, PURPOSE, &signed).contains("are not taken here"));
    let later = gate(&sites, &[CertificateRole::Broker], Span::from_secs(2 * 86_400));
    assert!(later.stated(PURPOSE, &signed).is_err(), "the certificate has expired");
    sites.authority("anl").revoke(CertificateRole::Broker, "main", TODAY).unwrap();
    let revoked = refused(&trusted, PURPOSE, &signed);
    assert!(revoked.to_lowercase().contains("revoked"), "{revoked}");
}
