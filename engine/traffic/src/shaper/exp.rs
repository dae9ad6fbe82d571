//! `exp(-x)` and `(1 - exp(-x)) / x` in fixed point: 2^-32, error below 2^-30.

/// One.
pub(super) const ONE: u64 = 1 << 32;

/// `exp(-x)` for `x` in 2^-32, rounded to nearest; 0 beyond `x = 23`.
pub(super) fn exp_neg(x: u64) -> u64 {
    // exp(-x) = exp(-n) * exp(-f), with n whole and f < 1.
    let n = (x >> 32) as usize;
    let Some(&whole) = WHOLE.get(n) else { return 0 };
    let f = x & (ONE - 1);
    mul(whole, ONE - mul(f, phi_series(f)))
}

/// `(1 - exp(-x)) / x`, one at zero: it makes the estimator's limit at `T = 0` exactly `L / K`.
pub(super) fn phi(x: u64) -> u64 {
    if x < ONE {
        return phi_series(x);
    }
    let rest = u128::from(ONE - exp_neg(x)) << 32;
    (rest / u128::from(x)) as u64
}

/// The series `1 - x/2! + x^2/3! - ...` for `x < 1`; 13 terms leave less than 2^-33.
fn phi_series(x: u64) -> u64 {
    let mut sum = ONE as i64;
    let mut term = ONE;
    for n in 2..15u64 {
        term = mul(term, x) / n;
        sum += if n % 2 == 0 { -(term as i64) } else { term as i64 };
    }
    sum as u64
}

fn mul(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b) + (1 << 31)) >> 32) as u64
}

/// `exp(-n) * 2^32`, rounded to nearest.
const WHOLE: [u64; 23] = [
    4_294_967_296,
    1_580_030_169,
    581_260_615,
    213_833_830,
    78_665_070,
    28_939_262,
    10_646_160,
    3_916_503,
    1_440_801,
    530_041,
    194_991,
    71_733,
    26_389,
    9_708,
    3_571,
    1_314,
    483,
    178,
    65,
    24,
    9,
    3,
    1,
];

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn within_two_to_the_minus_30() {
        for i in 0..200_000u64 {
            let x = i * i * 3;
            let real = x as f64 / ONE as f64;
            let (exp, phi_) = ((-real).exp(), if x == 0 { 1.0 } else { -(-real).exp_m1() / real });
            assert!((exp_neg(x) as f64 / ONE as f64 - exp).abs() < 1e-9, "exp(-{real})");
            assert!((phi(x) as f64 / ONE as f64 - phi_).abs() < 1e-9, "phi({real})");
        }
        assert_eq!((exp_neg(0), phi(0), exp_neg(u64::MAX)), (ONE, ONE, 0));
    }
}
