//! Laws of the nouns: amounts, rounding, flows, guaranteed service.

mod amount;
mod flows;
mod guaranteed;
mod laws;
mod rounding;
