//! Order statistics of sorted samples.

/// Returns the middle value, or the mean of the middle two; `None` without a sample.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    Some((sorted[n.checked_sub(1)? / 2] + sorted[n / 2]) / 2.0)
}

/// Returns the smallest value that at least `share` of the samples (0 to 1) do not exceed, which is the percentile by
/// nearest rank; `None` without a sample.
pub fn nearest_rank<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[1.0, 2.0, 4.0]), Some(2.0));
        assert_eq!(median(&[1.0, 4.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn percentiles() {
        let hundred: Vec<u32> = (1..=100).collect();
        let ranks = [0.0, 0.1, 0.5, 0.9, 0.999, 1.0].map(|share| nearest_rank(&hundred, share));
        assert_eq!(ranks, [1, 10, 50, 90, 100, 100].map(Some));
        assert_eq!(nearest_rank(&[7], 0.1), Some(7));
        assert_eq!(nearest_rank::<u32>(&[], 0.5), None);
    }
}
