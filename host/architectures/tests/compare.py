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

from references import REFERENCES

# Tables that the other side computes when it needs them.
COMPUTED = {"positions", "rotary.cos", "rotary.sin"}
# What the other side keeps and does not compute with, or keeps a second time.
IGNORED = ("num_batches_tracked", "position_ids", "lm_head.weight", "proj_out.weight", "inv_freq",
           "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", ".attn.bias", ".attn.masked_bias")


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
