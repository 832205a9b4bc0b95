# SPDX-License-Identifier: MIT OR Apache-2.0
"""Write models of the size and the operators of ResNet-50 and BERT-base, with random weights.

They are for timing, where weights do not matter: the values are drawn with a fixed seed and scaled so
that activations stay in range. What such a model answers means nothing.

    python3 -m venv /tmp/models
    /tmp/models/bin/pip install onnx==1.23.2 numpy==2.4.6
    /tmp/models/bin/python make_models.py /tmp/models

| file | input | parameters |
| --- | --- | ---: |
| `resnet50.onnx` | `image`, float32, `[batch, 3, 224, 224]` | 25.5 million |
| `bert-base.onnx` | `input_ids`, int64, `[batch, sequence]` | 109 million |

ResNet-50 is that of He et al., "Deep Residual Learning for Image Recognition" (2015), with the stride
in the 3x3 convolutions and batch normalisation folded into convolutions, as exporters leave it. BERT
is that of Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers" (2018), up to the last
hidden state, without a mask: every position attends to every other.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """Nodes and weights, in the order in which they are made."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes = []
        self.weights = []

    def constant(self, name, values):
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def drawn(self, name, shape, deviation):
        values = self.random.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
        return self.constant(name, values)

    def node(self, operator, inputs, name, **attributes):
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def save(self, path, name, inputs, outputs):
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.weights)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="tare-models"
        )
        model.ir_version = 8
        onnx.checker.check_model(model)
        onnx.save(model, path)


def resnet50(path):
    graph = Graph(seed=50)

    def convolution(source, name, channels_in, channels_out, size, stride):
        deviation = (2.0 / (channels_in * size * size)) ** 0.5
        weight = graph.drawn(f"{name}.w", (channels_out, channels_in, size, size), deviation)
        bias = graph.drawn(f"{name}.b", (channels_out,), 0.01)
        return graph.node(
            "Conv",
            [source, weight, bias],
            name,
            kernel_shape=[size, size],
            strides=[stride, stride],
            pads=[size // 2] * 4,
        )

    def relu(source):
        return graph.node("Relu", [source], f"{source}.relu")

    at = relu(convolution("image", "stem", 3, 64, 7, 2))
    at = graph.node("MaxPool", [at], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for block in range(blocks):
            name = f"stage{stage}.{block}"
            stride = 2 if block == 0 and stage > 0 else 1
            shortcut = at
            if block == 0:
                shortcut = convolution(at, f"{name}.shortcut", channels, 4 * width, 1, stride)
            at = relu(convolution(at, f"{name}.1", channels, width, 1, 1))
            at = relu(convolution(at, f"{name}.2", width, width, 3, stride))
            at = convolution(at, f"{name}.3", width, 4 * width, 1, 1)
            at = relu(graph.node("Add", [at, shortcut], f"{name}.add"))
            channels = 4 * width
    at = graph.node("GlobalAveragePool", [at], "average")
    at = graph.node("Flatten", [at], "flat")
    weight = graph.drawn("classifier.w", (channels, 1000), 0.01)
    bias = graph.drawn("classifier.b", (1000,), 0.01)
    graph.node("Gemm", [at, weight, bias], "logits")
    graph.save(
        path,
        "resnet50",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 224, 224])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1000])],
    )


def bert_base(path, layers=12, width=768, heads=12, inner=3072, words=30522, longest=512):
    graph = Graph(seed=110)
    half = graph.constant("half", np.float32(0.5))
    one = graph.constant("one", np.float32(1.0))
    root = graph.constant("root", np.float32(2.0**0.5))
    scale = graph.constant("scale", np.float32((width // heads) ** -0.5))
    split = graph.constant("split", np.array([0, 0, heads, width // heads], np.int64))
    merge = graph.constant("merge", np.array([0, 0, width], np.int64))
    zero = graph.constant("zero", np.array([0], np.int64))
    first = graph.constant("first", np.array([1], np.int64))

    def linear(source, name, size_in, size_out):
        weight = graph.drawn(f"{name}.w", (size_in, size_out), size_in**-0.5)
        product = graph.node("MatMul", [source, weight], f"{name}.product")
        return graph.node("Add", [product, graph.drawn(f"{name}.b", (size_out,), 0.01)], name)

    def normalise(source, name):
        gain = graph.constant(f"{name}.gain", np.ones(width, np.float32))
        shift = graph.constant(f"{name}.shift", np.zeros(width, np.float32))
        return graph.node("LayerNormalization", [source, gain, shift], name, epsilon=1e-12)

    def by_head(source, permutation):
        parts = graph.node("Reshape", [source, split], f"{source}.parts")
        return graph.node("Transpose", [parts], f"{source}.heads", perm=permutation)

    table = graph.drawn("words", (words, width), 0.02)
    at = graph.node("Gather", [table, "input_ids"], "embedded")
    places = graph.drawn("positions", (longest, width), 0.02)
    shape = graph.node("Shape", ["input_ids"], "shape")
    two = graph.constant("two", np.array([2], np.int64))
    length = graph.node("Slice", [shape, first, two], "length")
    taken = graph.node("Slice", [places, zero, length, zero], "places")
    at = normalise(graph.node("Add", [at, taken], "placed"), "start")
    for layer in range(layers):
        name = f"layer{layer}"
        query = by_head(linear(at, f"{name}.query", width, width), [0, 2, 1, 3])
        key = by_head(linear(at, f"{name}.key", width, width), [0, 2, 3, 1])
        value = by_head(linear(at, f"{name}.value", width, width), [0, 2, 1, 3])
        scores = graph.node("MatMul", [query, key], f"{name}.scores")
        scores = graph.node("Mul", [scores, scale], f"{name}.scaled")
        weights = graph.node("Softmax", [scores], f"{name}.weights", axis=-1)
        seen = graph.node("MatMul", [weights, value], f"{name}.seen")
        seen = graph.node("Transpose", [seen], f"{name}.turned", perm=[0, 2, 1, 3])
        seen = graph.node("Reshape", [seen, merge], f"{name}.merged")
        seen = linear(seen, f"{name}.output", width, width)
        at = normalise(graph.node("Add", [seen, at], f"{name}.add1"), f"{name}.norm1")
        wide = linear(at, f"{name}.wide", width, inner)
        erf = graph.node("Erf", [graph.node("Div", [wide, root], f"{name}.div")], f"{name}.erf")
        gate = graph.node("Mul", [graph.node("Add", [erf, one], f"{name}.up"), half], f"{name}.gate")
        gelu = graph.node("Mul", [wide, gate], f"{name}.gelu")
        narrow = linear(gelu, f"{name}.narrow", inner, width)
        at = normalise(graph.node("Add", [narrow, at], f"{name}.add2"), f"{name}.norm2")
    graph.node("Identity", [at], "last_hidden_state")
    graph.save(
        path,
        "bert_base",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])],
        [
            helper.make_tensor_value_info(
                "last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", width]
            )
        ],
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make_models.py FOLDER")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    resnet50(folder / "resnet50.onnx")
    bert_base(folder / "bert-base.onnx")
