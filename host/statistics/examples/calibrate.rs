//! scratch
use host_statistics::*;
#[path = "../tests/synthetic/mod.rs"]
mod synthetic;
use synthetic::Noise;
fn main() {
    for (name, noise) in [
        ("iid", Noise::Lognormal),
        ("bimodal", Noise::Bimodal),
        ("ar.3", Noise::Autocorrelated(0.3)),
        ("ar.5", Noise::Autocorrelated(0.5)),
        ("stalls", Noise::Stalls),
    ] {
        for n in [50usize, 200, 1000, 6000] {
            for tolerance in [-1.0] {
                let rounds = if n > 4000 { 400 } else { 1000 };
                let mut alarms = 0;
                for seed in 0..rounds {
                    let values = noise.factors(n, 0.2, &mut Random::from_seed(seed));
                    let found = steady_state(&values, tolerance).unwrap();
                    alarms += usize::from(found.segments.len() > 1);
                }
                print!(
                    "{name} n={n} tol={tolerance}: {:.3}%   ",
                    100.0 * alarms as f64 / rounds as f64
                );
            }
            println!();
        }
    }
    let values = Noise::Lognormal.factors(1_000_000, 0.1, &mut Random::from_seed(1));
    let t = std::time::Instant::now();
    println!("{:?}", steady_state(&values, 0.01).unwrap().class);
    println!("steady {:?}", t.elapsed());
}
