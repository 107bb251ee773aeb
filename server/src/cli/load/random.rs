//! Made-up choices: a small generator, and Zipf's law exactly. Never for secrets.

use std::hash::{BuildHasher as _, RandomState};

/// SplitMix64 (Steele, Lea, Flood 2014): 64 bits of state, passes BigCrush, one multiplication
/// chain a number.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// A generator that repeats itself from the same seed.
    pub const fn seeded(seed: u64) -> Self {
        Random(seed)
    }

    /// A generator that nobody can foretell.
    pub fn from_system() -> Self {
        // `RandomState` is keyed by the operating system's randomness.
        Random(RandomState::new().hash_one(0))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..n` (0 when `n` is 0), by Lemire's multiplication: the bias is below
    /// n / 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `[0, 1)` of 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Zipf's law over `1..=n`: P(k) is proportional to 1/k^s. Exact and without a table, by
/// rejection-inversion (W. Hörmann, G. Derflinger: "Rejection-inversion to generate variates from
/// monotone discrete distributions", ACM TOMACS 6(3), 1996).
#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    n: u64,
    exponent: f64,
    h_first: f64,
    h_last: f64,
    accept_below: f64,
}

impl Zipf {
    /// The law over `1..=n` (at least 1) with an exponent above 0.
    pub fn new(n: u64, exponent: f64) -> Self {
        let n = n.max(1);
        let h = |x: f64| integral(x, exponent);
        Zipf {
            n,
            exponent,
            h_first: h(1.5) - 1.0,
            h_last: h(n as f64 + 0.5),
            accept_below: 2.0 - integral_inverse(h(2.5) - density(2.0, exponent), exponent),
        }
    }

    /// A number in `1..=n`.
    pub fn sample(&self, random: &mut Random) -> u64 {
        loop {
            // Uniform under the hat's integral, whose inverse gives a point; round it to a rank.
            let u = self.h_last + random.unit() * (self.h_first - self.h_last);
            let x = integral_inverse(u, self.exponent);
            let k = (x + 0.5).clamp(1.0, self.n as f64).floor();
            let near = k - x <= self.accept_below;
            if near || u >= integral(k + 0.5, self.exponent) - density(k, self.exponent) {
                return k as u64;
            }
        }
    }
}

/// The density 1/x^s.
fn density(x: f64, exponent: f64) -> f64 {
    (-exponent * x.ln()).exp()
}

/// The density's integral from 1 to x: (x^(1-s) - 1) / (1-s), which is ln x at s = 1.
fn integral(x: f64, exponent: f64) -> f64 {
    let log_x = x.ln();
    expm1_over((1.0 - exponent) * log_x) * log_x
}

/// The inverse of [`integral`].
fn integral_inverse(y: f64, exponent: f64) -> f64 {
    let t = (y * (1.0 - exponent)).max(-1.0);
    (log1p_over(t) * y).exp()
}

/// (e^t - 1) / t, steady at 0.
fn expm1_over(t: f64) -> f64 {
    if t.abs() > 1e-8 {
        t.exp_m1() / t
    } else {
        1.0 + t / 2.0 * (1.0 + t / 3.0)
    }
}

/// ln(1 + t) / t, steady at 0.
fn log1p_over(t: f64) -> f64 {
    if t.abs() > 1e-8 {
        t.ln_1p() / t
    } else {
        1.0 - t * (0.5 - t / 3.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pearson's statistic of `draws` samples against the exact law; under the law its mean is
    /// n - 1 and its deviation sqrt(2 (n - 1)).
    fn chi_square(n: u64, exponent: f64, draws: u64) -> f64 {
        let zipf = Zipf::new(n, exponent);
        let mut random = Random::seeded(7);
        let mut seen = vec![0u64; n as usize];
        for _ in 0..draws {
            seen[zipf.sample(&mut random) as usize - 1] += 1;
        }
        let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-exponent)).collect();
        let total: f64 = weights.iter().sum();
        let expected = weights.iter().map(|weight| weight / total * draws as f64);
        seen.iter()
            .zip(expected)
            .map(|(seen, expected)| (*seen as f64 - expected).powi(2) / expected)
            .sum()
    }

    #[test]
    fn samples_follow_zipfs_law_at_any_exponent() {
        for exponent in [0.2, 0.8, 1.0, 1.3, 2.0] {
            let n = 50;
            let chi = chi_square(n, exponent, 200_000);
            let (mean, deviation) = (49.0, 98f64.sqrt());
            assert!((chi - mean).abs() < 5.0 * deviation, "{exponent}: {chi}");
        }
    }

    #[test]
    fn one_subject_is_always_the_first() {
        let (zipf, mut random) = (Zipf::new(1, 1.0), Random::from_system());
        assert!((0..1_000).all(|_| zipf.sample(&mut random) == 1));
    }

    #[test]
    fn uniform_numbers_stay_below_their_bound_and_reach_all() {
        let mut random = Random::seeded(1);
        let mut seen = [0u32; 7];
        for _ in 0..7_000 {
            seen[random.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (850..1_150).contains(n)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
