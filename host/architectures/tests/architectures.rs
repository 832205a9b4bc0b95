//! Counts of parameters, names, sizes, and files.

use std::path::Path;

use host_architectures::{
    ALL, Architecture, ArchitectureError, Category, Element, LARGEST, Unfit, names,
};

fn architecture(text: &str) -> Architecture {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn parameters(text: &str) -> u64 {
    architecture(text).model(Element::Fp32, 0).parameters()
}

/// Published by `torchvision` and, for the others, counted by `transformers`.
#[test]
fn counts_of_parameters_are_the_published_ones() {
    let published = [
        ("resnet18", 11_689_512),
        ("resnet50", 25_557_032),
        ("mobilenet_v3_large", 5_483_032),
        ("efficientnet_b0", 5_288_548),
        ("vit_b_16", 86_567_656),
        ("detr_resnet50", 41_501_895),
        ("bert_base", 109_482_240),
        ("gpt2", 124_439_808),
        ("llama_1b", 1_100_048_384),
        ("t5_small", 60_506_624),
        ("clip_vit_b32", 151_277_313),
        ("whisper_tiny", 37_760_640),
    ];
    assert_eq!(published.map(|(name, _)| name)[..], names()[..]);
    assert_eq!(published.map(|(name, _)| (name, parameters(name))), published);
}

#[test]
fn sizes_make_others_of_a_family() {
    let published = [
        ("resnet18:depth=34", 21_797_672),
        ("resnet50:depth=101", 44_549_160),
        ("efficientnet_b0:width=110,depth=120", 9_109_994),
        ("vit_b_16:patch=32", 88_224_232),
        ("gpt2:layers=24,width=1024,heads=16", 354_823_168),
        ("bert_base:layers=24,width=1024,heads=16,inner=4096", 335_141_888),
        ("detr_resnet50:classes=91", 41_524_768),
        ("t5_small:layers=12,width=768,heads=12,inner=3072", 222_903_552),
    ];
    assert_eq!(published.map(|(name, _)| (name, parameters(name))), published);
}

#[test]
fn groups_have_members_and_every_architecture_has_a_group() {
    let of = |word: &str| -> Vec<_> {
        Architecture::of(word).expect("a group").iter().map(Architecture::name).collect()
    };
    assert_eq!(of(ALL), names());
    assert_eq!(of("audio"), ["whisper_tiny"]);
    assert_eq!(of("generation"), ["gpt2", "llama_1b", "t5_small", "whisper_tiny"]);
    let groups = Category::ALL.map(|category| of(category.name())).concat();
    assert!(names().iter().all(|name| groups.contains(name)));
    assert_eq!(of("gpt2:layers=2"), ["gpt2"]);
}

#[test]
fn a_text_is_an_architecture_and_back() {
    for text in ["resnet50", "gpt2:layers=6,width=384"] {
        assert_eq!(architecture(text).to_string(), text);
    }
    assert_eq!(architecture("gpt2:width=768,layers=6").to_string(), "gpt2:layers=6");
    let error = |text: &str| text.parse::<Architecture>().expect_err("it is wrong");
    let told = |text: &str| (error(text).to_string(), error(text).hint().unwrap_or_default());
    let near =
        ("there is no architecture `ResNet-5`".to_owned(), "did you mean `resnet50`?".to_owned());
    assert_eq!(told("ResNet-5"), near);
    assert!(told("whatever").1.starts_with("there are `resnet18`, `resnet50`"));
    let size = ("`gpt2` has no size `layer`".to_owned(), "did you mean `layers`?".to_owned());
    assert_eq!(told("gpt2:layer=3"), size);
    for text in ["gpt2:layers=0", "gpt2:layers", "gpt2:layers=x", "gpt2:layers=1048577"] {
        assert!(matches!(error(text), ArchitectureError::NotASize { .. }), "{text}");
    }
    assert_eq!(LARGEST, 1_048_576);
    assert!(matches!(error("gpt2:layers=3,layers=3"), ArchitectureError::Twice { .. }));
    let reason = Unfit::NotAMultiple { size: "width", by: 12 };
    assert_eq!(error("gpt2:width=100"), ArchitectureError::Unfit { architecture: "gpt2", reason });
    assert_eq!(
        error("resnet50:depth=19").to_string(),
        "there is no such `resnet50`: `depth` is one of 18, 34, 50, 101, 152"
    );
}

const SMALL: &str = "gpt2:layers=1,width=24,heads=2,vocabulary=50,positions=8";

fn files(cache: &Path) -> Vec<String> {
    let names = cache.read_dir().expect("a folder").map(|entry| entry.expect("it").file_name());
    names.map(|name| name.into_string().expect("UTF-8")).collect()
}

#[test]
fn a_model_is_written_once_and_again_if_it_was_damaged() {
    let cache = tempfile::tempdir().expect("a folder");
    let model = architecture(SMALL).model(Element::Fp32, 0);
    let mut written = 0;
    let path = model.ensure(cache.path(), &mut |bytes| written += bytes).expect("a model");
    assert_eq!(written, model.bytes());
    let weights = path.with_file_name("gpt2.onnx.data");
    let sizes = [&path, &weights].map(|path| path.metadata().expect("a file").len());
    assert_eq!(sizes.iter().sum::<u64>(), written);
    let before = std::fs::read(&weights).expect("weights");
    model.ensure(cache.path(), &mut |_| panic!("it is there")).expect("a model");
    std::fs::write(&weights, "short").expect("the folder is writable");
    model.ensure(cache.path(), &mut |_| {}).expect("a model");
    assert_eq!(std::fs::read(&weights).expect("weights"), before);
    assert_eq!(files(cache.path()), [&model.sha256()[..16]], "nothing temporary is left");
}

#[test]
fn formats_and_seeds_and_sizes_are_other_models_with_other_hashes() {
    let small = architecture(SMALL);
    let mut hashes: Vec<_> = Element::ALL.map(|element| small.model(element, 0).sha256()).into();
    hashes.push(small.model(Element::Fp32, 1).sha256());
    hashes.push(architecture("gpt2").model(Element::Fp32, 0).sha256());
    let count = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), count);
    let again = architecture(SMALL).model(Element::Fp32, 0).sha256();
    assert_eq!(again, small.model(Element::Fp32, 0).sha256());
}

#[test]
fn every_architecture_has_int8_whose_products_with_weights_are_quantised() {
    for name in names() {
        let architecture = architecture(name);
        let [full, int8] = [Element::Fp32, Element::Int8].map(|it| architecture.model(it, 0));
        assert_eq!(full.parameters(), int8.parameters(), "{name}");
        assert!(int8.operators().contains("DequantizeLinear"), "{name}");
        let read = |model: &host_architectures::Model| {
            host_onnx::Model::of_bytes(model.file()).expect("a model").facts
        };
        let (full, int8) = (read(&full), read(&int8));
        assert_eq!(int8.precision(), Some("int8"), "{name}");
        // Tables of embeddings and vectors stay as they are.
        let quantised = int8.weights["int8"].elements as f64;
        assert!(quantised > 0.3 * full.parameters() as f64, "{name}: {quantised}");
    }
}

#[test]
fn int8_weights_are_the_same_ones_rounded() {
    let cache = tempfile::tempdir().expect("a folder");
    let read = |element| {
        let model = architecture("resnet18:width=8,image=32,classes=10").model(element, 3);
        let path = model.ensure(cache.path(), &mut |_| {}).expect("a model");
        std::fs::read(path.with_file_name("resnet18.onnx.data")).expect("weights")
    };
    let (full, int8) = (read(Element::Fp32), read(Element::Int8));
    // The first tensor is the first kernel: 8 channels of 3 × 7 × 7, with gain 1.6.
    let count = 8 * 3 * 7 * 7;
    let scale = 1.6 / 147_f32.sqrt() * 3_f32.sqrt() / 63.0;
    let mut greatest = 0;
    for index in 0..count {
        let value = f32::from_le_bytes(full[4 * index..4 * index + 4].try_into().expect("4"));
        let rounded = int8[index].cast_signed();
        greatest = greatest.max(rounded.unsigned_abs());
        assert!((value / scale - f32::from(rounded)).abs() < 0.51, "{value} {rounded}");
    }
    assert!((62..=63).contains(&greatest), "the scale is used: {greatest}");
}

#[test]
fn half_precision_files_hold_the_same_weights_rounded() {
    let cache = tempfile::tempdir().expect("a folder");
    let [full, half] = [Element::Fp32, Element::Fp16].map(|element| {
        let model = architecture(SMALL).model(element, 3);
        let path = model.ensure(cache.path(), &mut |_| {}).expect("a model");
        std::fs::read(path.with_file_name("gpt2.onnx.data")).expect("weights")
    });
    // The first tensor is the table of tokens.
    for index in 0..50 * 24 {
        let full = f32::from_le_bytes(full[4 * index..4 * index + 4].try_into().expect("4"));
        let half = half::f16::from_le_bytes(half[2 * index..2 * index + 2].try_into().expect("2"));
        assert_eq!(half, half::f16::from_f32(full));
        assert!(full != 0.0 && full.abs() < 1.0, "{full}");
    }
}
