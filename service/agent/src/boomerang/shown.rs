//! Boomerang's upcalls and rates as documents of the socket.

use boomerang::BoomerangUpcall;
use documents::agent::BoomerangNews;
use documents::boomerang::RatesDoc;
use wire::boomerang::Rates;

/// An upcall as the socket's document.
pub(super) fn news(upcall: BoomerangUpcall) -> BoomerangNews {
    match upcall {
        BoomerangUpcall::Reserved { rates, refresh, hops } => BoomerangNews::Reserved {
            rates: rates_doc(rates),
            refresh_s: refresh,
            hops_forward: hops.map(|(forward, _)| forward),
            hops_reverse: hops.map(|(_, reverse)| reverse),
        },
        BoomerangUpcall::Refused { available, kept } => {
            BoomerangNews::Refused { available: rates_doc(available), kept: rates_doc(kept) }
        }
        BoomerangUpcall::Silent { messages, over } => BoomerangNews::Silent { messages, over },
        BoomerangUpcall::HopMismatch { forward, reverse } => BoomerangNews::HopMismatch { forward, reverse },
        BoomerangUpcall::NoRoute => BoomerangNews::NoRoute,
        BoomerangUpcall::Released => BoomerangNews::Released,
    }
}

/// A pair of rates.
pub(super) fn rates_doc(rates: Rates) -> RatesDoc {
    RatesDoc { forward_bps: rates.forward, reverse_bps: rates.reverse }
}
