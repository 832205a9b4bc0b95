//! Published peaks of data-centre cards.
//!
//! The publications themselves could not be opened here. Figures were compared with what other texts quote from them; a
//! publication that is marked says how far nothing confirmed it.
//!
//! They are without structured sparsity, which doubles some of the printed figures. fp32 is that of the general
//! cores of NVIDIA's cards, and of the matrix cores of AMD's, which their libraries use for products of matrices.

/// Published peaks of a card.
#[derive(Debug, Clone, Copy)]
pub struct Card {
    /// Its names, as drivers report them. A part of a card has another name.
    pub names: &'static [&'static str],
    /// Operations in 10¹² for each second, by format.
    pub compute: &'static [(&'static str, f64)],
    /// Bytes of its memory in 10⁹ for each second.
    pub gigabytes_per_second: f64,
    /// The publication that states them.
    pub publication: &'static str,
}

const fn card(
    names: &'static [&'static str],
    compute: &'static [(&'static str, f64)],
    gigabytes_per_second: f64,
    publication: &'static str,
) -> Card {
    Card { names, compute, gigabytes_per_second, publication }
}

const V100: &str = "NVIDIA, V100 Tensor Core GPU, data sheet, January 2020";
const V100_PCIE: &str =
    "NVIDIA, V100 Tensor Core GPU, data sheet, January 2020 (fp16 not confirmed)";
const T4: &str = "NVIDIA, T4 Tensor Core GPU, data sheet, 2019";
const A100: &str = "NVIDIA, A100 Tensor Core GPU, data sheet, June 2021";
const A100_40: &str = "NVIDIA, A100 Tensor Core GPU Architecture, white paper, 2020";
const A10: &str = "NVIDIA, A10 Tensor Core GPU, data sheet, 2021 (only fp32 and memory confirmed)";
const A30: &str = "NVIDIA, A30 Tensor Core GPU, data sheet, 2021 (not confirmed)";
const L4: &str = "NVIDIA, L4 Tensor Core GPU, data sheet, 2023";
const L40S: &str = "NVIDIA, L40S GPU, data sheet, 2023";
const H100: &str = "NVIDIA, H100 Tensor Core GPU, data sheet, 2023";
const H100_NVL: &str = "NVIDIA, H100 Tensor Core GPU, data sheet, 2023 (not confirmed)";
const H200_NVL: &str = "NVIDIA, H200 Tensor Core GPU, data sheet, 2024 (only memory confirmed)";
const H200: &str = "NVIDIA, H200 Tensor Core GPU, data sheet, 2024";
const MI100: &str = "AMD, Instinct MI100 Accelerator, brochure, 2020 (bf16 not confirmed)";
const MI200: &str = "AMD, Instinct MI200 Series Accelerators, data sheet, 2022";
const MI300A: &str = "AMD, Instinct MI300A APU, data sheet, 2023";
const MI300X: &str = "AMD, Instinct MI300X Accelerator, data sheet, 2023";
const MI325X: &str = "AMD, Instinct MI325X Accelerator, data sheet, 2024";

const OF_A100: &[(&str, f64)] =
    &[("fp32", 19.5), ("tf32", 156.0), ("fp16", 312.0), ("bf16", 312.0), ("int8", 624.0)];
const OF_H100: &[(&str, f64)] =
    &[("fp32", 67.0), ("tf32", 494.5), ("fp16", 989.5), ("bf16", 989.5), ("int8", 1979.0)];
const OF_NVL: &[(&str, f64)] =
    &[("fp32", 60.0), ("tf32", 417.5), ("fp16", 835.5), ("bf16", 835.5), ("int8", 1670.5)];
const OF_MI300X: &[(&str, f64)] =
    &[("fp32", 163.4), ("tf32", 653.7), ("fp16", 1307.4), ("bf16", 1307.4), ("int8", 2614.9)];

/// The cards.
pub const TABLE: &[Card] = &[
    card(
        &["Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB"],
        &[("fp32", 15.7), ("fp16", 125.0)],
        900.0,
        V100,
    ),
    card(
        &["Tesla V100-PCIE-16GB", "Tesla V100-PCIE-32GB"],
        &[("fp32", 14.0), ("fp16", 112.0)],
        900.0,
        V100_PCIE,
    ),
    card(&["Tesla T4"], &[("fp32", 8.1), ("fp16", 65.0), ("int8", 130.0)], 320.0, T4),
    card(&["NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB"], OF_A100, 1555.0, A100_40),
    card(&["NVIDIA A100 80GB PCIe"], OF_A100, 1935.0, A100),
    card(&["NVIDIA A100-SXM4-80GB"], OF_A100, 2039.0, A100),
    card(
        &["NVIDIA A10"],
        &[("fp32", 31.2), ("tf32", 62.5), ("fp16", 125.0), ("bf16", 125.0), ("int8", 250.0)],
        600.0,
        A10,
    ),
    card(
        &["NVIDIA A30"],
        &[("fp32", 10.3), ("tf32", 82.0), ("fp16", 165.0), ("bf16", 165.0), ("int8", 330.0)],
        933.0,
        A30,
    ),
    card(
        &["NVIDIA L4"],
        &[("fp32", 30.3), ("tf32", 60.0), ("fp16", 121.0), ("bf16", 121.0), ("int8", 242.5)],
        300.0,
        L4,
    ),
    // For fp16 362 is quoted from the data sheet, beside 733 with sparsity. Half of that is taken, so that all rows agree.
    card(
        &["NVIDIA L40S"],
        &[("fp32", 91.6), ("tf32", 183.0), ("fp16", 366.5), ("bf16", 366.5), ("int8", 733.0)],
        864.0,
        L40S,
    ),
    card(
        &["NVIDIA H100 PCIe"],
        &[("fp32", 51.0), ("tf32", 378.0), ("fp16", 756.5), ("bf16", 756.5), ("int8", 1513.0)],
        2000.0,
        H100,
    ),
    card(&["NVIDIA H100 NVL"], OF_NVL, 3900.0, H100_NVL),
    card(&["NVIDIA H100 80GB HBM3"], OF_H100, 3350.0, H100),
    card(&["NVIDIA H200 NVL"], OF_NVL, 4800.0, H200_NVL),
    card(&["NVIDIA H200"], OF_H100, 4800.0, H200),
    card(
        &["AMD Instinct MI100"],
        &[("fp32", 46.1), ("fp16", 184.6), ("bf16", 92.3), ("int8", 184.6)],
        1228.8,
        MI100,
    ),
    card(
        &["AMD Instinct MI210"],
        &[("fp32", 45.3), ("fp16", 181.0), ("bf16", 181.0), ("int8", 181.0)],
        1638.4,
        MI200,
    ),
    // A card is two devices, with half of its peaks each.
    card(
        &["AMD Instinct MI250X"],
        &[("fp32", 47.85), ("fp16", 191.5), ("bf16", 191.5), ("int8", 191.5)],
        1638.4,
        MI200,
    ),
    card(
        &["AMD Instinct MI300A"],
        &[("fp32", 122.6), ("tf32", 490.3), ("fp16", 980.6), ("bf16", 980.6), ("int8", 1961.2)],
        5300.0,
        MI300A,
    ),
    card(&["AMD Instinct MI300X", "AMD Instinct MI300X OAM"], OF_MI300X, 5300.0, MI300X),
    card(&["AMD Instinct MI325X", "AMD Instinct MI325X OAM"], OF_MI300X, 6000.0, MI325X),
];
