//! The families, each in a file, and the names under which they are known.

mod bert;
mod clip;
mod detr;
mod efficientnet;
mod gpt2;
mod llama;
mod mobilenet;
mod resnet;
mod t5;
mod vit;
mod whisper;

use crate::family::Family;

/// All of them, in the order in which they are listed.
pub(crate) const FAMILIES: &[Family] = &[
    resnet::RESNET18,
    resnet::RESNET50,
    mobilenet::MOBILENET_V3_LARGE,
    efficientnet::EFFICIENTNET_B0,
    vit::VIT_B_16,
    detr::DETR_RESNET50,
    bert::BERT_BASE,
    gpt2::GPT2,
    llama::LLAMA_1B,
    t5::T5_SMALL,
    clip::CLIP_VIT_B32,
    whisper::WHISPER_TINY,
];

/// The name that stands for every architecture.
pub const ALL: &str = "all";

/// Returns the names of all architectures.
#[must_use]
pub fn names() -> Vec<&'static str> {
    FAMILIES.iter().map(|family| family.name).collect()
}
