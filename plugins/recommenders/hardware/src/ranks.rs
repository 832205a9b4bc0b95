//! Ranks of configurations, with the probability that each is right.

use host_statistics::{Random, moments};

/// Draws of all means: a probability is known to 1.6 % then, which is less than the processes know of it.
const DRAWS: usize = 1000;

/// From so many degrees of freedom on, Student's *t* is drawn as normal.
const NEARLY_NORMAL: usize = 60;

/// Returns the order of configurations by the means of their processes, and for each place the part of draws in which the
/// configuration that has it takes it. Each mean is drawn from Student's *t* around the measured one, so a rank is right with
/// this probability if processes are independent and nearly normal. `None` if one has fewer than two processes.
pub(crate) fn ranks(processes: &[&[f64]], is_lower_better: bool) -> Option<Vec<(usize, f64)>> {
    let sign = if is_lower_better { 1.0 } else { -1.0 };
    let means: Vec<(f64, f64, usize)> = processes
        .iter()
        .map(|values| {
            let found = moments(values)?;
            let error = found.deviation? / (values.len() as f64).sqrt();
            Some((sign * found.mean, error, values.len() - 1))
        })
        .collect::<Option<_>>()?;
    let order = |values: &[f64]| {
        let mut places: Vec<usize> = (0..values.len()).collect();
        places.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
        places
    };
    let measured: Vec<f64> = means.iter().map(|(mean, ..)| *mean).collect();
    let ranked = order(&measured);
    let mut right = vec![0_usize; ranked.len()];
    let mut random = Random::from_seed(0);
    for _ in 0..DRAWS {
        let drawn: Vec<f64> = means
            .iter()
            .map(|(mean, error, degrees)| mean + error * student(&mut random, *degrees))
            .collect();
        for (place, (one, other)) in order(&drawn).iter().zip(&ranked).enumerate() {
            right[place] += usize::from(one == other);
        }
    }
    let part = |count: usize| count as f64 / DRAWS as f64;
    Some(ranked.into_iter().zip(right.into_iter().map(part)).collect())
}

/// Draws from Student's *t*.
fn student(random: &mut Random, degrees: usize) -> f64 {
    let (deviate, mut spare) = normals(random);
    if degrees >= NEARLY_NORMAL {
        return deviate;
    }
    let mut squares = 0.0;
    for place in 0..degrees {
        // They are drawn in pairs, of which one is the deviate.
        let one = if place % 2 == 0 {
            spare
        } else {
            let (one, other) = normals(random);
            spare = other;
            one
        };
        squares += one * one;
    }
    deviate / (squares / degrees as f64).sqrt()
}

/// Draws two independent normal deviates, by the polar method (G. Marsaglia and T. A. Bray, "A Convenient Method for
/// Generating Normal Variables", *SIAM Review* 6(3), 1964).
fn normals(random: &mut Random) -> (f64, f64) {
    loop {
        let (one, other) = (2.0 * random.uniform() - 1.0, 2.0 * random.uniform() - 1.0);
        let square = one * one + other * other;
        if square > 0.0 && square < 1.0 {
            let factor = (-2.0 * square.ln() / square).sqrt();
            return (one * factor, other * factor);
        }
    }
}

#[cfg(test)]
mod tests {
    use host_statistics::normal_quantile;

    use super::*;

    #[test]
    fn ranks_are_as_sure_as_the_means_are_apart() {
        let near: [&[f64]; 3] = [&[10.0, 11.0, 12.0], &[1.0, 1.1, 1.2], &[10.1, 11.1, 12.1]];
        let found = ranks(&near, true).expect("processes");
        let places: Vec<usize> = found.iter().map(|(place, _)| *place).collect();
        assert_eq!(places, [1, 0, 2]);
        assert!(found[0].1 > 0.98, "{found:?}");
        // The other two differ by a tenth of their spread.
        assert!(
            (0.45..0.65).contains(&found[1].1) && (0.45..0.65).contains(&found[2].1),
            "{found:?}"
        );
        let highest = ranks(&near, false).expect("processes");
        assert_eq!(highest.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [2, 0, 1]);
        assert_eq!(ranks(&[&[1.0], &[2.0, 3.0]], true), None);
    }

    /// Of equal configurations, each of which is as likely to be the best, the rank is right as often as it says.
    #[test]
    fn equal_configurations_are_not_sure_of_their_ranks() {
        let mut random = Random::from_seed(5);
        let mut sum = 0.0;
        for _ in 0..40 {
            let values: Vec<Vec<f64>> = (0..4)
                .map(|_| (0..5).map(|_| 100.0 + normal_quantile(random.uniform())).collect())
                .collect();
            let processes: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
            sum += ranks(&processes, true).expect("processes")[0].1;
        }
        // A posterior of the best of four equal ones: far from sure.
        assert!((0.4..0.75).contains(&(sum / 40.0)), "{}", sum / 40.0);
    }

    #[test]
    fn student_has_heavier_tails_than_a_normal_distribution() {
        let mut random = Random::from_seed(2);
        let beyond = |random: &mut Random, degrees| {
            (0..20_000).filter(|_| student(random, degrees).abs() > 4.303).count() as f64 / 20_000.0
        };
        // t(0.975; 2) = 4.303.
        let part = beyond(&mut random, 2);
        assert!((0.045..0.055).contains(&part), "{part}");
        assert!(beyond(&mut random, 100) < 0.001);
    }
}
