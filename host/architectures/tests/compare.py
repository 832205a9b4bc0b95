"""Loads the weights of each architecture into its implementation in torchvision or transformers, and compares.

    python compare.py PATH-OF-THE-EXAMPLE-write [ARCHITECTURE...]

needs torch, torchvision, transformers, timm, onnx and onnxruntime. It prints a table for
docs/reference/architectures.md: parameters here and there, the largest difference of an output, and the
standard deviation of the first output. It ends with an error if a parameter is missing on either side, or if
outputs differ by more than 0.1 % of their own deviation.
"""

import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import torch
import torchvision
import transformers
from onnx.external_data_helper import load_external_data_for_model

IMAGE = {"image": (2, 3, 224, 224)}
# Tables that the other side computes when it needs them.
COMPUTED = {"positions", "rotary.cos", "rotary.sin"}
# What the other side keeps and does not compute with, or keeps a second time.
IGNORED = ("num_batches_tracked", "position_ids", "lm_head.weight", "proj_out.weight", "inv_freq",
           "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", ".attn.bias", ".attn.masked_bias")


def vision(make):
    return lambda: (make(weights=None), lambda model, feeds: [model(feeds["image"])], IMAGE)


def text(shape, *names):
    return {name: shape for name in names}


def bert():
    model = transformers.BertModel(transformers.BertConfig())
    names = ("input_ids", "attention_mask", "token_type_ids")
    def run(model, feeds):
        out = model(**feeds)
        return [out.last_hidden_state, out.pooler_output]
    return model, run, text((2, 48), *names)


def causal(make):
    def build():
        run = lambda model, feeds: [model(feeds["input_ids"]).logits]
        return make(), run, text((2, 48), "input_ids")
    return build


def tiny_llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22,
        num_attention_heads=32, num_key_value_heads=4, max_position_embeddings=2048, rms_norm_eps=1e-5))


def t5():
    config = transformers.T5Config(vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8)
    model = transformers.T5ForConditionalGeneration(config)
    names = ("input_ids", "attention_mask", "decoder_input_ids")
    return model, lambda model, feeds: [model(**feeds).logits], text((2, 200), *names)


def clip():
    config = transformers.CLIPConfig()
    # The value with which the end of a text is its highest token, as in the authors' code.
    config.text_config.eos_token_id = 2
    model = transformers.CLIPModel(config)
    def run(model, feeds):
        out = model(**feeds)
        return [out.image_embeds, out.text_embeds, out.logits_per_image]
    return model, run, {"pixel_values": (2, 3, 224, 224), "input_ids": (2, 77)}


def whisper():
    config = transformers.WhisperConfig(
        vocab_size=51865, d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6,
        decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536)
    model = transformers.WhisperForConditionalGeneration(config)
    shapes = {"input_features": (2, 80, 3000), "decoder_input_ids": (2, 48)}
    return model, lambda model, feeds: [model(**feeds).logits], shapes


def detr():
    config = transformers.DetrConfig(use_pretrained_backbone=False)
    model = transformers.DetrForObjectDetection(config)
    def run(model, feeds):
        out = model(feeds["pixel_values"])
        return [out.logits, out.pred_boxes]
    return model, run, {"pixel_values": (1, 3, 800, 1066)}


REFERENCES = {
    "resnet18": vision(torchvision.models.resnet18),
    "resnet50": vision(torchvision.models.resnet50),
    "mobilenet_v3_large": vision(torchvision.models.mobilenet_v3_large),
    "efficientnet_b0": vision(torchvision.models.efficientnet_b0),
    "vit_b_16": vision(torchvision.models.vit_b_16),
    "detr_resnet50": detr,
    "bert_base": bert,
    "gpt2": causal(lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config())),
    "llama_1b": causal(tiny_llama),
    "t5_small": t5,
    "clip_vit_b32": clip,
    "whisper_tiny": whisper,
}


def weights_of(path):
    graph = onnx.load(path, load_external_data=False)
    load_external_data_for_model(graph, path.rsplit("/", 1)[0])
    weights = {}
    for tensor in graph.graph.initializer:
        if tensor.name.startswith("constant_") or tensor.name in COMPUTED:
            continue
        values = torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy())
        if tensor.name.endswith(".T"):
            weights[tensor.name[:-2]] = values.T.contiguous()
        else:
            weights[tensor.name] = values
    return weights


def feeds_of(session, shapes, vocabulary, generator):
    feeds = {}
    for value in session.get_inputs():
        shape = shapes[value.name]
        if value.name.endswith("mask"):
            feeds[value.name] = np.ones(shape, np.int64)
        elif value.type == "tensor(int64)":
            most = 2 if value.name == "token_type_ids" else vocabulary
            feeds[value.name] = generator.integers(0, most, shape)
        else:
            feeds[value.name] = generator.random(shape, np.float32)
    return feeds


def compare(name, write, folder):
    path = subprocess.run([write, name, "fp32", folder], check=True, capture_output=True, text=True).stdout.strip()
    torch.manual_seed(0)
    model, run, shapes = REFERENCES[name]()
    model.eval()
    count = sum(parameter.numel() for parameter in model.parameters())
    weights = weights_of(path)
    named = dict(model.named_parameters())
    ours = sum(values.numel() for key, values in weights.items() if key in named)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    missing = [key for key in missing if not key.endswith(IGNORED)]
    if hasattr(model, "tie_weights"):
        model.tie_weights()
    if missing or unexpected or count != ours:
        sys.exit(f"{name}: missing {missing}, unexpected {unexpected}, {count} or {ours} parameters")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    vocabulary = getattr(getattr(model, "config", None), "vocab_size", None) or 49408
    feeds = feeds_of(session, shapes, vocabulary, np.random.default_rng(0))
    got = session.run(None, feeds)
    with torch.no_grad():
        expected = run(model, {key: torch.from_numpy(value) for key, value in feeds.items()})
    expected = [value.numpy() for value in expected]
    worst = max(float(np.abs(a - b).max()) / float(b.std()) for a, b in zip(got, expected, strict=True))
    spread = float(expected[0].std())
    print(f"| `{name}` | {count:,} | {worst:.1e} | {spread:.2f} |", flush=True)
    return worst < 1e-3 and np.isfinite(got[0]).all()


def main():
    write, *names = sys.argv[1:]
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, "
          f"transformers {transformers.__version__}, onnxruntime {onnxruntime.__version__}\n")
    print("| architecture | parameters | largest difference | deviation of the first output |")
    print("|---|---|---|---|")
    good = True
    for name in names or REFERENCES:
        with tempfile.TemporaryDirectory() as folder:
            good &= compare(name, write, folder)
    sys.exit(0 if good else "outputs differ")


main()
