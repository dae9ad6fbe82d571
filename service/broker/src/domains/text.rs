//! Advertisements as documents: the text that is signed, and what comes out of it again.

use documents::book::Instant;
use documents::topology::{AdvertisementDoc, BorderRow, DomainHopRow, DomainWayRow, FreeRow, StatementDoc, network};
use terms::Rate;
use topology::{Advertisement, Border, BorderPair, DomainHop, DomainPort, FreeStep, Network};
use trust::SignedStatement;

/// The document of an advertisement.
pub fn doc(one: &Advertisement) -> AdvertisementDoc {
    let way = |pair: &BorderPair| DomainWayRow {
        from: border_row(&pair.from),
        to: border_row(&pair.to),
        rate: pair.rate.as_bps(),
        cost: pair.cost,
        free: pair.free.iter().map(|step| FreeRow { start: Instant(step.start), rate: step.rate.as_bps() }).collect(),
    };
    AdvertisementDoc {
        domain: one.domain.clone(),
        number: one.number,
        issued: Instant(one.issued),
        until: Instant(one.until),
        networks: one.networks.iter().map(Network::to_string).collect(),
        ways: one.pairs.iter().map(way).collect(),
    }
}

/// A domain on a path as a document.
pub fn hop(hop: &DomainHop) -> DomainHopRow {
    DomainHopRow { domain: hop.domain.clone(), from: border_row(&hop.from), to: border_row(&hop.to) }
}

fn border_row(port: &DomainPort) -> Option<BorderRow> {
    match port {
        DomainPort::Inside => None,
        DomainPort::At(border) => {
            Some(BorderRow { neighbour: border.neighbour.clone(), link: border.link.to_string() })
        }
    }
}

/// The advertisement of a signed text.
///
/// # Errors
/// A sentence: it is no such document.
pub fn read(text: &str) -> Result<Advertisement, String> {
    let doc: AdvertisementDoc = crate::strict::read(text.as_bytes())?;
    let net = |text: &String| {
        let (address, prefix) = network(text).ok_or_else(|| format!("{text:?} is no network"))?;
        Ok(Network::of(address, prefix))
    };
    let port = |row: Option<BorderRow>| -> Result<DomainPort, String> {
        let Some(BorderRow { neighbour, link }) = row else { return Ok(DomainPort::Inside) };
        Ok(DomainPort::At(Border { link: net(&link)?, neighbour }))
    };
    let step = |row: FreeRow| FreeStep { start: row.start.0, rate: Rate::from_bps(row.rate) };
    let pair = |way: DomainWayRow| {
        Ok(BorderPair {
            from: port(way.from)?,
            to: port(way.to)?,
            rate: Rate::from_bps(way.rate),
            cost: way.cost,
            free: way.free.into_iter().map(step).collect(),
        })
    };
    Ok(Advertisement {
        domain: doc.domain,
        number: doc.number,
        issued: doc.issued.0,
        until: doc.until.0,
        networks: doc.networks.iter().map(net).collect::<Result<_, String>>()?,
        pairs: doc.ways.into_iter().map(pair).collect::<Result<_, String>>()?,
    })
}

/// A signed statement as a document.
pub fn statement_doc(one: &SignedStatement) -> StatementDoc {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let chain = one.chain.iter().map(|certificate| hex(certificate)).collect();
    StatementDoc { text: one.text.clone(), chain, signature: hex(&one.signature) }
}

/// The statement of a document; `None`: its digits are none.
pub fn statement(doc: StatementDoc) -> Option<SignedStatement> {
    let bytes = |text: &String| -> Option<Vec<u8>> {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let pairs = text.as_bytes().chunks(2).map(|two| match two {
            [high, low] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
            _ => None,
        });
        pairs.collect()
    };
    let chain = doc.chain.iter().map(bytes).collect::<Option<_>>()?;
    Some(SignedStatement { chain, signature: bytes(&doc.signature)?, text: doc.text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::Time;

    #[test]
    fn what_was_written_is_read_again() {
        let border = |neighbour: &str, third: u8| {
            DomainPort::At(Border { neighbour: neighbour.into(), link: Network::of([10, 0, third, 1].into(), 30) })
        };
        let free = vec![FreeStep { start: Time::from_nanos(5_000_000_000), rate: Rate::from_bps(7) }];
        let one = Advertisement {
            domain: "esnet".into(),
            number: u64::MAX,
            issued: Time::from_nanos(1_700_000_000_000_000_001),
            until: Time::from_nanos(1_700_000_060_000_000_001),
            networks: vec![
                Network::of([10, 0, 4, 0].into(), 30),
                Network::of(std::net::Ipv6Addr::LOCALHOST.into(), 128),
            ],
            pairs: vec![
                BorderPair { from: border("anl", 3), to: border("lbnl", 8), rate: Rate::from_bps(9), cost: 3, free },
                BorderPair {
                    from: border("anl", 3),
                    to: DomainPort::Inside,
                    rate: Rate::from_bps(9),
                    cost: 1,
                    free: Vec::new(),
                },
            ],
        };
        let text = serde_json::to_string(&doc(&one)).unwrap();
        assert_eq!(read(&text), Ok(one));
        for (from, to) in [("\"cost\":3", "\"cost\":-3"), ("10.0.3.0/30", "10.0.3.0/33"), ("\"number\"", "\"numbers\"")]
        {
            assert!(read(&text.replace(from, to)).is_err(), "{from}");
        }
    }

    #[test]
    fn statements_as_digits() {
        let one = SignedStatement { text: "{}".into(), chain: vec![vec![0, 255], vec![16]], signature: vec![1, 2] };
        assert_eq!(statement_doc(&one).chain, ["00ff", "10"]);
        assert_eq!(statement(statement_doc(&one)), Some(one.clone()));
        for wrong in ["0", "0g", "é"] {
            let doc = StatementDoc { signature: wrong.into(), ..statement_doc(&one) };
            assert_eq!(statement(doc), None, "{wrong}");
        }
    }
}
