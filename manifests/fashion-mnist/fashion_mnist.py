# SPDX-License-Identifier: MIT OR Apache-2.0
"""Write Fashion-MNIST as `fashion-mnist.toml` beside this script reads it.

    python3 fashion_mnist.py                          # From Debian's package `dataset-fashion-mnist`.
    python3 fashion_mnist.py --source FOLDER          # From another folder with the four `.gz` files.
    python3 fashion_mnist.py --model                  # The untrained network; needs `numpy` and `onnx`.

The data need nothing but Python: an IDX file is a header before the bytes, and so is a file of NumPy. Pixels stay whole
numbers from 0 to 255, which the network divides by 255. The 60,000 examples of the training come first, then the 10,000
of the test.
"""

import argparse
import gzip
import struct
import sys
from array import array
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PACKAGE = Path("/usr/share/datasets/fashion-mnist")
PARTS = {"train": 60_000, "t10k": 10_000}
SEED = 20


def idx(path, count, axes):
    """Returns the bytes of an IDX file of whole numbers from 0 to 255, without its header."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError) as error:
        sys.exit(
            f"{path}: {error}\n"
            "help: `apt-get install dataset-fashion-mnist`, or name the folder with `--source`"
        )
    expected = struct.pack(f">BBBB{1 + len(axes)}I", 0, 0, 8, 1 + len(axes), count, *axes)
    header, values = content[: len(expected)], content[len(expected) :]
    size = count
    for axis in axes:
        size *= axis
    if header != expected or len(values) != size:
        sys.exit(f"{path} does not hold {count} arrays of the shape {axes} of bytes")
    return values


def write_npy(path, descr, shape, values):
    """Writes an array in NumPy's format 1.0."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("ascii")
    path.write_bytes(head + values)


def write_data(source, output):
    images, labels = [], []
    for part, count in PARTS.items():
        images.append(idx(source / f"{part}-images-idx3-ubyte.gz", count, (28, 28)))
        labels.append(idx(source / f"{part}-labels-idx1-ubyte.gz", count, ()))
    total = sum(PARTS.values())
    write_npy(output / "images.npy", "|u1", (total, 1, 28, 28), b"".join(images))
    classes = array("q", list(b"".join(labels)))
    if sys.byteorder != "little":
        classes.byteswap()
    write_npy(output / "labels.npy", "<i8", (total,), classes.tobytes())


def write_model(output):
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(SEED)
    weights, nodes = {}, []

    def node(operator, inputs, name, **attributes):
        nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def kernel(name, shape):
        # He et al. 2015.
        deviation = (2.0 / np.prod(shape[1:])) ** 0.5
        weights[name] = random.normal(0.0, deviation, shape).astype(np.float32)
        return name

    def constant(name, shape, value):
        weights[name] = np.full(shape, value, np.float32)
        return name

    x = node("Cast", ["image"], "pixels", to=TensorProto.FLOAT)
    x = node("Mul", [x, constant("scale", [], 1 / 255)], "scaled")
    channels = 1
    for block, width in enumerate([16, 32, 64], 1):
        x = node(
            "Conv", [x, kernel(f"conv{block}.weight", [width, channels, 3, 3])], f"conv{block}",
            kernel_shape=[3, 3], pads=[1] * 4,
        )
        statistics = [("weight", 1.0), ("bias", 0.0), ("mean", 0.0), ("variance", 1.0)]
        names = [constant(f"norm{block}.{of}", [width], value) for of, value in statistics]
        x = node("BatchNormalization", [x, *names], f"norm{block}")
        x = node("Relu", [x], f"relu{block}")
        x = node("MaxPool", [x], f"pool{block}", kernel_shape=[2, 2], strides=[2, 2])
        channels = width
    x = node("Flatten", [x], "flatten")
    kernel("classifier.weight", [10, channels * 3 * 3])
    constant("classifier.bias", [10], 0.0)
    node("Gemm", [x, "classifier.weight", "classifier.bias"], "logits", transB=1)
    graph = helper.make_graph(
        nodes,
        "fashion_classifier",
        [helper.make_tensor_value_info("image", TensorProto.UINT8, ["batch", 1, 28, 28])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(
        graph, producer_name="tare", ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
    )
    model.doc_string = (
        "Classifier of Fashion-MNIST before its training: its weights are drawn. The input is a batch of 28x28 images "
        "with pixels from 0 to 255; the output has one logit for each of the ten kinds of clothing."
    )
    onnx.checker.check_model(model)
    (output / "untrained.onnx").write_bytes(model.SerializeToString(deterministic=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=PACKAGE)
    parser.add_argument("--output", type=Path, default=FOLDER)
    parser.add_argument("--model", action="store_true")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    if arguments.model:
        write_model(arguments.output)
    else:
        write_data(arguments.source, arguments.output)


if __name__ == "__main__":
    main()
