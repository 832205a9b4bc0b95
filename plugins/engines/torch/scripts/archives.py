"""Writes TorchScript archives: `archives.py FOLDER`.

`nested.pt` is the one of this crate's tests, in `tests/`. `digits.pt` is the network of `manifests/data/digits.onnx`, traced.
"""

import sys
from pathlib import Path

import onnx
import torch
from onnx import numpy_helper

DIGITS = Path(__file__).parents[4] / "manifests" / "data" / "digits.onnx"


class Nested(torch.nn.Module):
    """Answers with a tuple of a tensor and a dictionary."""

    def forward(self, x: torch.Tensor, keep: torch.Tensor):
        kept = torch.where(keep, x, torch.zeros_like(x))
        return 2.0 * kept + 1.0, {"sum": kept.sum(dim=1)}


class Digits(torch.nn.Module):
    """The digits network with the weights of an ONNX file."""

    def __init__(self, path):
        super().__init__()
        layers = {"conv1": (1, 24), "conv2": (24, 48), "conv3": (48, 96)}
        for name, (before, after) in layers.items():
            setattr(self, name, torch.nn.Conv2d(before, after, 3, padding=1))
        self.classifier = torch.nn.Linear(384, 10)
        self.relu, self.pool = torch.nn.ReLU(), torch.nn.MaxPool2d(2)
        tensors = onnx.load(path).graph.initializer
        weights = {tensor.name: torch.tensor(numpy_helper.to_array(tensor)) for tensor in tensors}
        self.load_state_dict(weights)

    def forward(self, image):
        x = self.relu(self.conv1(image))
        x = self.pool(self.relu(self.conv2(x)))
        x = self.pool(self.relu(self.conv3(x)))
        return self.classifier(torch.flatten(x, 1))


def main(folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    torch.jit.script(Nested()).save(str(folder / "nested.pt"))
    digits = Digits(DIGITS).eval()
    torch.jit.trace(digits, torch.zeros(2, 1, 8, 8)).save(str(folder / "digits.pt"))


if __name__ == "__main__":
    main(sys.argv[1])
