//! Random times: exponential and Pareto. Logarithms and powers are computed here from sums, products and
//! quotients, so the same seed draws the same times on every machine, whatever its mathematical library.

use crate::rng::Rng;
use terms::Span;

/// The longest time that can be drawn, ns: a century.
const LONGEST: f64 = 3.2e18;

/// An exponential time with the mean `mean`.
pub fn exponential(rng: &mut Rng, mean: Span) -> Span {
    to_span(-(mean.as_nanos() as f64) * ln(open_unit(rng)))
}

/// A Pareto time with the mean `mean`. The shape, in thousandths, is above 1,000.
pub fn pareto(rng: &mut Rng, mean: Span, shape_milli: u32) -> Span {
    let shape = f64::from(shape_milli.max(1_001)) / 1_000.0;
    let least = mean.as_nanos() as f64 * (shape - 1.0) / shape;
    to_span(least * exp(-ln(open_unit(rng)) / shape))
}

fn to_span(nanos: f64) -> Span {
    Span::from_nanos(nanos.clamp(0.0, LONGEST) as u64)
}

/// A uniform number between 0 and 1, both excluded.
fn open_unit(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

/// The natural logarithm of a positive number.
fn ln(x: f64) -> f64 {
    // x = m 2^e with m in [0.707, 1.414].
    let bits = x.to_bits();
    let mut e = (bits >> 52) as i64 - 1_023;
    let mut m = f64::from_bits(bits & ((1 << 52) - 1) | 1_023 << 52);
    if m > std::f64::consts::SQRT_2 {
        m /= 2.0;
        e += 1;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)).
    let s = (m - 1.0) / (m + 1.0);
    let (square, mut power, mut sum) = (s * s, s, 0.0);
    for n in 0..14 {
        sum += power / f64::from(2 * n + 1);
        power *= square;
    }
    2.0 * sum + e as f64 * std::f64::consts::LN_2
}

/// e to the power of a number from 0 to 700. Larger numbers count as 700.
fn exp(x: f64) -> f64 {
    let x = x.clamp(0.0, 700.0);
    let n = (x / std::f64::consts::LN_2 + 0.5) as u64;
    let r = x - n as f64 * std::f64::consts::LN_2;
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..20 {
        term *= r / f64::from(k);
        sum += term;
    }
    sum * f64::from_bits((1_023 + n) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_and_powers_are_right_to_fifteen_digits() {
        let mut rng = Rng::new(3, 3);
        for _ in 0..20_000 {
            let x = open_unit(&mut rng);
            assert!((ln(x) - x.ln()).abs() <= 4e-15 * x.ln().abs().max(1e-3), "{x}");
            let y = 40.0 * x;
            assert!((exp(y) - y.exp()).abs() <= 1e-14 * y.exp(), "{y}");
        }
    }

    #[test]
    fn means_and_tails_are_those_of_the_distributions() {
        let (mut rng, mean) = (Rng::new(5, 1), Span::from_millis(300));
        let draws = |draw: &mut dyn FnMut() -> Span| (0..200_000).map(|_| draw().as_nanos()).collect::<Vec<_>>();
        let all = draws(&mut || exponential(&mut rng, mean));
        let average = all.iter().sum::<u64>() / all.len() as u64;
        assert!((297_000_000..303_000_000).contains(&average), "{average}");
        let tail = all.iter().filter(|t| **t > 3 * mean.as_nanos()).count();
        assert!((9_500..10_400).contains(&tail), "e^-3 of 200,000 is 9,957: {tail}");
        // Shape 3 has a variance, so its mean settles.
        let all = draws(&mut || pareto(&mut rng, mean, 3_000));
        let average = all.iter().sum::<u64>() / all.len() as u64;
        assert!((297_000_000..303_000_000).contains(&average), "{average}");
        assert!(all.iter().all(|t| *t >= 199_999_999), "the least is 2/3 of the mean");
        let tail = all.iter().filter(|t| **t > 2 * mean.as_nanos()).count();
        assert!((7_050..7_770).contains(&tail), "1/27 of 200,000 is 7,407: {tail}");
    }
}
