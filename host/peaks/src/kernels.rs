//! Loops that keep the arithmetic units of a processor busy, and one that reads memory.
//!
//! Operands stay in registers, so that nothing but the units limits a loop. A product of matrices would depend on how
//! well it is written, and an engine with a better one would then reach more than the peak.

use std::hint::black_box;

use host_record::Precision;

/// A loop of fused products and sums.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel {
    pub(crate) precision: Precision,
    /// Its instructions, by name.
    pub(crate) instructions: &'static str,
    /// Operations of one round.
    pub(crate) operations: u64,
    /// Computes so many rounds.
    pub(crate) run: fn(u64),
}

/// Returns the kernels with the widest instructions of this processor, one for each precision that there is a
/// kernel for.
pub(crate) fn kernels() -> Vec<Kernel> {
    #[cfg(target_arch = "x86_64")]
    return x86::kernels();
    #[cfg(target_arch = "aarch64")]
    return arm::kernels();
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    Vec::new()
}

/// Reads numbers from memory.
pub(crate) fn read(numbers: &[u64]) {
    const WIDTH: usize = 32;
    let mut sums = [0_u64; WIDTH];
    let (chunks, rest) = numbers.as_chunks::<WIDTH>();
    for chunk in chunks {
        for (sum, number) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*number);
        }
    }
    black_box((sums, rest));
}

/// Independent chains of a kernel: more than units times the cycles that a sum of products takes.
const CHAINS: usize = 12;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::is_x86_feature_detected as has;
    use std::arch::x86_64::{
        __m256, __m512, __m512i, _mm256_fmadd_ps, _mm256_set1_ps, _mm512_dpbusd_epi32,
        _mm512_fmadd_ps, _mm512_set1_epi8, _mm512_set1_ps, _mm512_setzero_si512,
    };
    use std::hint::black_box;

    use host_record::Precision;

    use super::{CHAINS, Kernel};

    pub(super) fn kernels() -> Vec<Kernel> {
        let lanes = |lanes: u64, products: u64| 2 * lanes * products * CHAINS as u64;
        let fp32 = match () {
            () if has!("avx512f") => Some(Kernel {
                precision: Precision::Fp32,
                instructions: "AVX-512 FMA",
                operations: lanes(16, 1),
                // SAFETY: the processor has AVX-512F, as was just asked.
                run: |rounds| unsafe { fma_512(rounds) },
            }),
            () if has!("avx2") && has!("fma") => Some(Kernel {
                precision: Precision::Fp32,
                instructions: "AVX2 FMA",
                operations: lanes(8, 1),
                // SAFETY: the processor has AVX2 and FMA, as was just asked.
                run: |rounds| unsafe { fma_256(rounds) },
            }),
            () => None,
        };
        // With AMX, whose tiles multiply faster, these would not be the peak.
        let int8 = (has!("avx512f") && has!("avx512vnni") && !has_amx()).then_some(Kernel {
            precision: Precision::Int8,
            instructions: "AVX-512 VNNI",
            operations: lanes(16, 4),
            // SAFETY: the processor has AVX-512F and VNNI, as was just asked.
            run: |rounds| unsafe { vnni_512(rounds) },
        });
        fp32.into_iter().chain(int8).collect()
    }

    /// Returns whether the processor has the unit for tiles of int8.
    fn has_amx() -> bool {
        std::arch::x86_64::__get_cpuid_max(0).0 >= 7
            && std::arch::x86_64::__cpuid_count(7, 0).edx & (1 << 25) != 0
    }

    #[target_feature(enable = "avx512f")]
    fn fma_512(rounds: u64) {
        let (factor, term) = (_mm512_set1_ps(black_box(0.999)), _mm512_set1_ps(black_box(0.001)));
        let mut sums: [__m512; CHAINS] = [term; CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, term);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx2,fma")]
    fn fma_256(rounds: u64) {
        let (factor, term) = (_mm256_set1_ps(black_box(0.999)), _mm256_set1_ps(black_box(0.001)));
        let mut sums: [__m256; CHAINS] = [term; CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, term);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    fn vnni_512(rounds: u64) {
        let (left, right) = (_mm512_set1_epi8(black_box(3)), _mm512_set1_epi8(black_box(-2)));
        let mut sums: [__m512i; CHAINS] = [_mm512_setzero_si512(); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, left, right);
            }
        }
        black_box(sums);
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::{float32x4_t, vdupq_n_f32, vfmaq_f32};
    use std::hint::black_box;

    use host_record::Precision;

    use super::Kernel;

    /// Cores have up to four units, of four cycles each.
    const CHAINS: usize = 20;

    pub(super) fn kernels() -> Vec<Kernel> {
        vec![Kernel {
            precision: Precision::Fp32,
            instructions: "NEON FMA",
            operations: 2 * 4 * CHAINS as u64,
            run: fma,
        }]
    }

    fn fma(rounds: u64) {
        // SAFETY: every processor of this architecture has NEON.
        unsafe { fma_128(rounds) }
    }

    #[target_feature(enable = "neon")]
    fn fma_128(rounds: u64) {
        let (factor, term) = (vdupq_n_f32(black_box(0.999)), vdupq_n_f32(black_box(0.001)));
        let mut sums: [float32x4_t; CHAINS] = [term; CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = vfmaq_f32(term, *sum, factor);
            }
        }
        black_box(sums);
    }
}
