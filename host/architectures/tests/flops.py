"""Compares the operations that the tool counts with those that torch.utils.flop_counter counts.

    python flops.py PATH-OF-THE-PROGRAM-host [ARCHITECTURE...]

needs torch, torchvision, transformers and timm. It prints a table for docs/reference/architectures.md: operations here
and there, and their ratio, at batch 1 and 128 tokens (77 of CLIP). It ends with an error if they differ by more than
1 %. The references are those of compare.py; nothing is downloaded, and weights play no part.
"""

import json
import subprocess
import sys

import torch
import torchvision
import transformers
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from references import REFERENCES


def ours(host, name):
    command = [host, "--format", "json", "inspect", name]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found["cost"]["flops"]["Ok"]


def theirs(name):
    model, run, shapes = REFERENCES[name]()
    model.eval()
    feeds = {}
    for key, shape in shapes.items():
        if len(shape) == 2:
            length = 77 if name == "clip_vit_b32" else 128
            feeds[key] = torch.ones((1, length), dtype=torch.int64)
        else:
            feeds[key] = torch.zeros((1, *shape[1:]))
    # Attention is counted by its products, which the fused kernels of a processor hide.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
        run(model, feeds)
    return counter.get_total_flops()


def main():
    host, *names = sys.argv[1:]
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, "
          f"transformers {transformers.__version__}\n")
    print("| architecture | operations here | `flop_counter` | ratio |")
    print("|---|--:|--:|--:|")
    good = True
    for name in names or REFERENCES:
        here, there = ours(host, name), theirs(name)
        good &= abs(here / there - 1) < 0.01
        print(f"| `{name}` | {here:,} | {there:,} | {here / there:.4f} |", flush=True)
    sys.exit(0 if good else "operations differ")


main()
