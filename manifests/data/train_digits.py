# SPDX-License-Identifier: MIT OR Apache-2.0
"""Train the handwritten-digit classifier in this folder, or check the committed copy.

How to run it (Python 3.11 is what was used; the training takes about half a minute):

    python3 -m venv /tmp/digits
    /tmp/digits/bin/pip install -r requirements.txt
    /tmp/digits/bin/python train_digits.py --check           # Verify the committed files.
    /tmp/digits/bin/python train_digits.py --output /tmp/new # Train again, into another folder.
    /tmp/digits/bin/python train_digits.py                   # Train again, over the committed files.

The data are the 1797 images of 8x8 pixels that scikit-learn ships, so nothing is downloaded.
The script writes three files: `digits.onnx`, `digits-test-images.npy` and
`digits-test-labels.npy`. README.md beside it describes them and gives the licence of the data.

Every random choice comes from a NumPy generator with a fixed seed. The number of epochs and
the learning rate are fixed in advance: the held-out images choose nothing, and they are
looked at only once, after the last step of the training.
"""

import argparse
import hashlib
import os
import re
import sys
from pathlib import Path

# XLA splits a sum over as many threads as NPROC says, or else over one for each core. One thread
# gives one order of summation, so that the weights do not depend on the number of cores. The
# variables must be set before JAX is imported.
os.environ["NPROC"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

FOLDER = Path(__file__).resolve().parent
MODEL_FILE = "digits.onnx"
IMAGES_FILE = "digits-test-images.npy"
LABELS_FILE = "digits-test-labels.npy"
FILES = (MODEL_FILE, IMAGES_FILE, LABELS_FILE)

SPLIT_SEED = 20240
WEIGHTS_SEED = 1
SHUFFLE_SEED = 2

# 384 is a multiple of 1, 8 and 64, so that these batch sizes leave no partial batch.
TEST_IMAGES = 384

EPOCHS = 40
BATCH = 32
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-4

OPSET = 17
IR_VERSION = 8

# The largest difference that the check allows between the logits of two batch sizes.
LOGIT_TOLERANCE = 1e-4


# ------------------------------------------------------------------------------------------
# The data.
# ------------------------------------------------------------------------------------------


def load_split():
    """Return the training images and labels, then the held-out images and labels."""
    digits = load_digits()
    # A pixel of the data set is an integer from 0 to 16. The network gets it divided by 16.
    images = (digits.images / 16.0).astype(np.float32).reshape(-1, 1, 8, 8)
    labels = digits.target.astype(np.int64)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=TEST_IMAGES, stratify=labels, random_state=SPLIT_SEED
    )
    return (
        np.ascontiguousarray(train_images),
        np.ascontiguousarray(train_labels),
        np.ascontiguousarray(test_images),
        np.ascontiguousarray(test_labels),
    )


# ------------------------------------------------------------------------------------------
# The network and its training.
# ------------------------------------------------------------------------------------------


def initial_weights():
    """Return the weights before training: He-normal kernels and zero biases."""
    generator = np.random.default_rng(WEIGHTS_SEED)
    weights = {}

    def layer(name, shape):
        fan_in = int(np.prod(shape[1:]))
        kernel = generator.standard_normal(shape) * np.sqrt(2.0 / fan_in)
        weights[f"{name}.weight"] = kernel.astype(np.float32)
        weights[f"{name}.bias"] = np.zeros(shape[0], dtype=np.float32)

    layer("conv1", (24, 1, 3, 3))
    layer("conv2", (48, 24, 3, 3))
    layer("conv3", (96, 48, 3, 3))
    # After the two poolings, each of the 96 channels has 2x2 pixels left.
    layer("classifier", (10, 96 * 2 * 2))
    return weights


def train(images, labels):
    """Train with Adam, decoupled weight decay and a cosine schedule; return the weights."""
    import jax
    import jax.numpy as jnp

    def convolve(x, weights, name):
        x = jax.lax.conv_general_dilated(
            x,
            weights[f"{name}.weight"],
            window_strides=(1, 1),
            padding=((1, 1), (1, 1)),
            dimension_numbers=("NCHW", "OIHW", "NCHW"),
        )
        return jax.nn.relu(x + weights[f"{name}.bias"][None, :, None, None])

    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def forward(weights, x):
        x = convolve(x, weights, "conv1")
        x = pool(convolve(x, weights, "conv2"))
        x = pool(convolve(x, weights, "conv3"))
        x = x.reshape(x.shape[0], -1)
        return x @ weights["classifier.weight"].T + weights["classifier.bias"]

    def loss_of(weights, x, y):
        log_probabilities = jax.nn.log_softmax(forward(weights, x))
        return -jnp.mean(jnp.take_along_axis(log_probabilities, y[:, None], axis=1))

    @jax.jit
    def step(weights, mean, square, number, rate, x, y):
        loss, gradient = jax.value_and_grad(loss_of)(weights, x, y)
        tree = jax.tree_util.tree_map
        mean = tree(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
        square = tree(lambda s, g: 0.999 * s + 0.001 * g * g, square, gradient)
        mean_scale = 1.0 / (1.0 - 0.9**number)
        square_scale = 1.0 / (1.0 - 0.999**number)
        weights = tree(
            lambda w, m, s: w
            - rate * (m * mean_scale / (jnp.sqrt(s * square_scale) + 1e-8) + WEIGHT_DECAY * w),
            weights,
            mean,
            square,
        )
        return weights, mean, square, loss

    weights = initial_weights()
    mean = {name: np.zeros_like(value) for name, value in weights.items()}
    square = {name: np.zeros_like(value) for name, value in weights.items()}
    generator = np.random.default_rng(SHUFFLE_SEED)
    # The images of an epoch that do not fill a last batch are left out of that epoch.
    steps_per_epoch = len(images) // BATCH
    steps = EPOCHS * steps_per_epoch
    number = 0
    for epoch in range(EPOCHS):
        order = generator.permutation(len(images))
        total = 0.0
        for start in range(0, steps_per_epoch * BATCH, BATCH):
            chosen = order[start : start + BATCH]
            rate = LEARNING_RATE * 0.5 * (1.0 + np.cos(np.pi * number / steps))
            number += 1
            weights, mean, square, loss = step(
                weights,
                mean,
                square,
                np.float32(number),
                np.float32(rate),
                images[chosen],
                labels[chosen],
            )
            total += float(loss)
        print(f"epoch {epoch + 1:2} of {EPOCHS}: training loss {total / steps_per_epoch:.6f}")
    return {name: np.asarray(value, dtype=np.float32) for name, value in weights.items()}


# ------------------------------------------------------------------------------------------
# The ONNX file.
# ------------------------------------------------------------------------------------------


def build_model(weights):
    """Return the ONNX model of the trained network, with a free batch axis."""

    def convolution(name, source):
        return [
            helper.make_node(
                "Conv",
                [source, f"{name}.weight", f"{name}.bias"],
                [f"{name}.output"],
                name=name,
                kernel_shape=[3, 3],
                pads=[1, 1, 1, 1],
                strides=[1, 1],
            ),
            helper.make_node(
                "Relu",
                [f"{name}.output"],
                [f"{name}.activation"],
                name=name.replace("conv", "relu"),
            ),
        ]

    def pooling(name, source):
        return helper.make_node(
            "MaxPool",
            [source],
            [f"{name}.output"],
            name=name,
            kernel_shape=[2, 2],
            strides=[2, 2],
        )

    nodes = [
        *convolution("conv1", "image"),
        *convolution("conv2", "conv1.activation"),
        pooling("pool1", "conv2.activation"),
        *convolution("conv3", "pool1.output"),
        pooling("pool2", "conv3.activation"),
        helper.make_node("Flatten", ["pool2.output"], ["features"], name="flatten", axis=1),
        helper.make_node(
            "Gemm",
            ["features", "classifier.weight", "classifier.bias"],
            ["logits"],
            name="classifier",
            transB=1,
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "digits_classifier",
        inputs=[helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        outputs=[helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])],
        initializer=[numpy_helper.from_array(value, name) for name, value in weights.items()],
        doc_string="Three 3x3 convolutions, two 2x2 max poolings and one linear layer.",
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="tare-digits",
        producer_version="1",
        model_version=1,
        doc_string=(
            "Classifier of handwritten digits. The input is a batch of 8x8 images with pixels "
            "from 0 to 1; the output has one logit for each of the digits 0 to 9. Trained on the "
            "copy of the UCI data set 'Optical Recognition of Handwritten Digits' "
            "(DOI 10.24432/C50P49) that scikit-learn ships."
        ),
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def count_parameters(model):
    """Return the number of trained values in the model."""
    return sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer)


def count_flop(model):
    """Return the floating-point operations for one image, from the shapes of the graph.

    A multiplication and the addition that follows it count as two. Only the kernels of Conv
    and Gemm count: the biases, Relu and MaxPool do not.
    """
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    kernels = {tensor.name: list(tensor.dims) for tensor in inferred.graph.initializer}
    shapes = {
        value.name: [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
        for value in [*inferred.graph.value_info, *inferred.graph.output]
    }
    flop = 0
    for node in inferred.graph.node:
        if node.op_type in ("Conv", "Gemm"):
            # Each place of the output takes part in one product per value of the kernel.
            places = int(np.prod(shapes[node.output[0]][2:]))
            flop += 2 * places * int(np.prod(kernels[node.input[1]]))
    return flop


# ------------------------------------------------------------------------------------------
# The measurement and the check.
# ------------------------------------------------------------------------------------------


def run_model(model_bytes, images, batch):
    """Return the logits that ONNX Runtime gives for all images, `batch` at a time."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model_bytes, options, providers=["CPUExecutionProvider"]
    )
    return np.concatenate(
        [
            session.run(["logits"], {"image": images[start : start + batch]})[0]
            for start in range(0, len(images), batch)
        ]
    )


def sha256(path):
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def measure(folder):
    """Return what can be measured of the three files in `folder`."""
    model = onnx.load(folder / MODEL_FILE)
    onnx.checker.check_model(model, full_check=True)
    images = np.load(folder / IMAGES_FILE)
    labels = np.load(folder / LABELS_FILE)
    model_bytes = (folder / MODEL_FILE).read_bytes()
    logits = {batch: run_model(model_bytes, images, batch) for batch in (1, 8, 64)}
    return {
        "images": images,
        "labels": labels,
        "logits": logits,
        "correct": {b: int(np.sum(np.argmax(l, axis=1) == labels)) for b, l in logits.items()},
        "spread": max(float(np.max(np.abs(logits[b] - logits[1]))) for b in (8, 64)),
        "parameters": count_parameters(model),
        "flop": count_flop(model),
        "size": {name: (folder / name).stat().st_size for name in FILES},
        "sha256": {name: sha256(folder / name) for name in FILES},
    }


def report(found):
    """Print a measurement."""
    count = len(found["labels"])
    for batch, correct in found["correct"].items():
        print(f"batch {batch:2}: {correct} of {count} correct ({100.0 * correct / count:.2f} %)")
    print(f"largest difference of a logit between batch sizes: {found['spread']:.3g}")
    print(f"parameters: {found['parameters']}")
    print(f"FLOP per image: {found['flop']}")
    for name in FILES:
        print(f"{name}: {found['size'][name]} bytes, SHA-256 {found['sha256'][name]}")


def check():
    """Compare the committed files with README.md; return 0 when all agrees, else 1."""
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    found = measure(FOLDER)
    report(found)
    failures = []

    def expect(holds, sentence):
        print(f"{'pass' if holds else 'FAIL'}: {sentence}")
        if not holds:
            failures.append(sentence)

    images, labels = found["images"], found["labels"]
    expect(
        images.dtype == np.float32
        and images.shape == (TEST_IMAGES, 1, 8, 8)
        and images.flags.c_contiguous
        and labels.dtype == np.int64
        and labels.shape == (TEST_IMAGES,),
        "The test set has the types and the shapes that README.md gives.",
    )
    _, _, split_images, split_labels = load_split()
    expect(
        np.array_equal(images, split_images) and np.array_equal(labels, split_labels),
        "The test set equals the split made again from the data of scikit-learn.",
    )
    stated = re.search(r"(\d+) correct of (\d+)", readme)
    expect(
        stated is not None
        and all(c == int(stated[1]) for c in found["correct"].values())
        and len(labels) == int(stated[2]),
        "The accuracy at batch sizes 1, 8 and 64 equals the one that README.md states.",
    )
    expect(
        found["spread"] <= LOGIT_TOLERANCE,
        f"The logits of the three batch sizes differ by no more than {LOGIT_TOLERANCE:g}.",
    )
    expect(
        f"Parameters: {found['parameters']:,}." in readme
        and f"FLOP per image: {found['flop']:,}." in readme,
        "README.md states the number of parameters and the FLOP per image.",
    )
    for name in FILES:
        row = f"| `{name}` | {found['size'][name]:,} | `{found['sha256'][name]}` |"
        expect(row in readme, f"README.md states the size and the SHA-256 of {name}.")
    print("All checks passed." if not failures else f"Checks that failed: {len(failures)}.")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description="Train the digit classifier, or check it.")
    parser.add_argument(
        "--check",
        action="store_true",
        help="Compare the committed files with README.md instead of training.",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=FOLDER,
        help="The folder to write the three files to (default: the folder of this script).",
    )
    arguments = parser.parse_args()
    if arguments.check:
        return check()

    train_images, train_labels, test_images, test_labels = load_split()
    weights = train(train_images, train_labels)
    model = build_model(weights)
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / MODEL_FILE).write_bytes(model.SerializeToString(deterministic=True))
    np.save(arguments.output / IMAGES_FILE, test_images)
    np.save(arguments.output / LABELS_FILE, test_labels)
    report(measure(arguments.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
