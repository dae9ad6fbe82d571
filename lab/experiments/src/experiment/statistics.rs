//! Means over independent runs, their confidence intervals, and their distance from published values.

/// A mean over independent runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval (Student); `None` for a single run.
    pub ci95: Option<f64>,
}

/// Returns mean and confidence interval of independent samples; `None` without samples.
pub fn mean(samples: &[f64]) -> Option<Mean> {
    let n = samples.len();
    if n == 0 {
        return None;
    }
    let mean = samples.iter().sum::<f64>() / n as f64;
    if n == 1 {
        return Some(Mean { mean, ci95: None });
    }
    let variance = samples.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1) as f64;
    Some(Mean { mean, ci95: Some(student_95(n - 1) * (variance / n as f64).sqrt()) })
}

/// Returns the two-sided 95 % quantile of Student's t.
fn student_95(degrees: usize) -> f64 {
    const EXACT: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    match degrees {
        0 => f64::INFINITY,
        1..=30 => EXACT[degrees - 1],
        // Cornish and Fisher's expansion around the normal quantile; good to a thousandth from 30 on.
        more => {
            let z = 1.959_964_f64;
            z + (z.powi(3) + z) / (4.0 * more as f64)
        }
    }
}

/// The distance of measured values from published ones.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Distance {
    /// Root of the mean of the squared relative errors.
    pub rms: f64,
    /// The relative error that is farthest from zero, with its sign.
    pub worst: f64,
    /// The index of that pair.
    pub worst_at: usize,
}

/// Returns the distance of pairs (published, measured). Pairs published as zero have no relative error;
/// `None` if no pair has one.
pub fn distance(pairs: &[(f64, f64)]) -> Option<Distance> {
    let errors =
        pairs.iter().enumerate().filter_map(|(i, &(published, measured))| Some((i, relative(published, measured)?)));
    let errors: Vec<(usize, f64)> = errors.collect();
    let (worst_at, worst) = *errors.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    let squares: f64 = errors.iter().map(|(_, error)| error * error).sum();
    Some(Distance { rms: (squares / errors.len() as f64).sqrt(), worst, worst_at })
}

/// Returns the relative error; `None` if the published value is zero.
pub fn relative(published: f64, measured: f64) -> Option<f64> {
    (published != 0.0).then(|| measured / published - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_interval_of_three() {
        // 1, 2, 3: s = 1, t(2) = 4.303, 4.303 / sqrt(3) = 2.484.
        let found = mean(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(found.mean, 2.0);
        assert!((found.ci95.unwrap() - 2.4843).abs() < 1e-3, "{found:?}");
        assert_eq!(mean(&[7.0]), Some(Mean { mean: 7.0, ci95: None }));
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn student_goes_down_to_the_normal_quantile() {
        let values: Vec<f64> = (1..200).map(student_95).collect();
        assert!(values.windows(2).all(|pair| pair[1] < pair[0]), "{values:?}");
        assert!((student_95(100) - 1.984).abs() < 1e-3 && (student_95(1_000_000) - 1.960).abs() < 1e-3);
    }

    #[test]
    fn distance_names_the_worst() {
        let found = distance(&[(1.0, 1.1), (0.0, 5.0), (2.0, 1.0), (4.0, 4.0)]).unwrap();
        assert_eq!((found.worst_at, found.worst), (2, -0.5));
        assert!((found.rms - ((0.01 + 0.25) / 3.0_f64).sqrt()).abs() < 1e-9);
        assert_eq!(distance(&[(0.0, 1.0)]), None);
    }
}
