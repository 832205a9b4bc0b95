"""Writes models that are as large as ResNet-50 and BERT-base, as ONNX files.

The weights are drawn from a seed: what is measured is the work, and the work does not depend on what
was learned. They are scaled so that activations neither vanish nor overflow in half precision.

    python models.py FOLDER [fp32|fp16|bf16 ...]

K. He, X. Zhang, S. Ren and J. Sun, "Deep Residual Learning for Image Recognition", 2015, table 1;
J. Devlin, M.-W. Chang, K. Lee and K. Toutanova, "BERT", 2018, section 3.
"""

import pathlib
import sys

import ml_dtypes
import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {
    "fp32": (numpy.float32, TensorProto.FLOAT),
    "fp16": (numpy.float16, TensorProto.FLOAT16),
    "bf16": (ml_dtypes.bfloat16, TensorProto.BFLOAT16),
}


class Builder:
    """Collects the nodes and weights of a graph."""

    def __init__(self, precision, seed):
        self.numpy_type, self.onnx_type = TYPES[precision]
        self.random = numpy.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def node(self, operator, inputs, **attributes):
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def constant(self, values):
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def number(self, value):
        return self.constant(numpy.array(value, self.numpy_type))

    def normal(self, shape, deviation):
        drawn = self.random.standard_normal(shape, numpy.float32) * numpy.float32(deviation)
        return self.constant(drawn.astype(self.numpy_type))

    def zeros(self, size):
        return self.constant(numpy.zeros(size, self.numpy_type))

    def ones(self, size):
        return self.constant(numpy.ones(size, self.numpy_type))

    def save(self, path, name, inputs, outputs):
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.weights)
        # Convolutions know bf16 from 22 on.
        opset, version = (22, 10) if self.onnx_type == TensorProto.BFLOAT16 else (17, 8)
        opsets = [helper.make_opsetid("", opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=version)
        onnx.save(model, path)


def resnet50(path, precision):
    """Image [batch, 3, 224, 224] to logits [batch, 1000]; batch normalisation is folded in."""
    build = Builder(precision, 50)

    def convolution(x, inputs, outputs, size, stride=1, gain=1.0):
        deviation = gain * (2.0 / (inputs * size * size)) ** 0.5
        weights = build.normal((outputs, inputs, size, size), deviation)
        pads = [size // 2] * 4
        shape = {"kernel_shape": [size] * 2, "dilations": [1, 1]}
        inputs = [x, weights, build.zeros(outputs)]
        return build.node("Conv", inputs, strides=[stride] * 2, pads=pads, **shape)

    x = build.node("Relu", [convolution("image", 3, 64, 7, 2)])
    x = build.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for width, blocks, first_stride in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            y = build.node("Relu", [convolution(x, channels, width, 1)])
            y = build.node("Relu", [convolution(y, width, width, 3, stride)])
            # Residual branches are small beside what they are added to.
            y = convolution(y, width, 4 * width, 1, gain=0.2)
            if block == 0:
                x = convolution(x, channels, 4 * width, 1, stride)
            x = build.node("Relu", [build.node("Add", [x, y])])
            channels = 4 * width
    x = build.node("Flatten", [build.node("GlobalAveragePool", [x])])
    x = build.node("Gemm", [x, build.normal((2048, 1000), 2048**-0.5), build.zeros(1000)])
    output = build.node("Identity", [x])
    build.nodes[-1].output[0] = output = "logits"
    kind = build.onnx_type
    inputs = [helper.make_tensor_value_info("image", kind, ["batch", 3, 224, 224])]
    build.save(path, "resnet50", inputs, [helper.make_tensor_value_info(output, kind, ["batch", 1000])])


def bert_base(path, precision):
    """Token ids and mask [batch, sequence] to logits [batch, 2]: 12 layers, 768 wide, 12 heads."""
    build = Builder(precision, 12)
    width, heads, inner, layers = 768, 12, 3072, 12
    head = width // heads

    def linear(x, inputs, outputs):
        product = build.node("MatMul", [x, build.normal((inputs, outputs), inputs**-0.5)])
        return build.node("Add", [product, build.zeros(outputs)])

    def normalised(x):
        weights = [build.ones(width), build.zeros(width)]
        return build.node("LayerNormalization", [x, *weights], axis=-1, epsilon=1e-5)

    def split(x, order):
        shape = build.constant(numpy.array([0, 0, heads, head], numpy.int64))
        return build.node("Transpose", [build.node("Reshape", [x, shape])], perm=order)

    def gelu(x):
        error = build.node("Erf", [build.node("Mul", [x, build.number(0.5**0.5)])])
        half = build.node("Mul", [x, build.number(0.5)])
        return build.node("Mul", [half, build.node("Add", [error, build.number(1.0)])])

    words = build.node("Gather", [build.normal((30522, width), 0.5), "input_ids"])
    sequence = build.node("Shape", ["input_ids"], start=1, end=2)
    start, one = (build.constant(numpy.array([value], numpy.int64)) for value in (0, 1))
    places = build.node("Slice", [build.normal((512, width), 0.5), start, sequence, start, one])
    x = normalised(build.node("Add", [words, places]))
    mask = build.node("Cast", ["attention_mask"], to=build.onnx_type)
    axes = build.constant(numpy.array([1, 2], numpy.int64))
    mask = build.node("Unsqueeze", [build.node("Sub", [build.number(1.0), mask]), axes])
    mask = build.node("Mul", [mask, build.number(-1e4)])
    for _ in range(layers):
        query = split(linear(x, width, width), [0, 2, 1, 3])
        key = split(linear(x, width, width), [0, 2, 3, 1])
        value = split(linear(x, width, width), [0, 2, 1, 3])
        scores = build.node("Mul", [build.node("MatMul", [query, key]), build.number(head**-0.5)])
        weights = build.node("Softmax", [build.node("Add", [scores, mask])], axis=-1)
        together = build.node("Transpose", [build.node("MatMul", [weights, value])], perm=[0, 2, 1, 3])
        shape = build.constant(numpy.array([0, 0, width], numpy.int64))
        attended = linear(build.node("Reshape", [together, shape]), width, width)
        x = normalised(build.node("Add", [x, attended]))
        fed = linear(gelu(linear(x, width, inner)), inner, width)
        x = normalised(build.node("Add", [x, fed]))
    first = build.node("Gather", [x, build.constant(numpy.array(0, numpy.int64))], axis=1)
    build.node("Gemm", [first, build.normal((width, 2), width**-0.5), build.zeros(2)])
    build.nodes[-1].output[0] = "logits"
    whole = TensorProto.INT64
    inputs = [
        helper.make_tensor_value_info(name, whole, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask")
    ]
    logits = helper.make_tensor_value_info("logits", build.onnx_type, ["batch", 2])
    build.save(path, "bert_base", inputs, [logits])


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for precision in sys.argv[2:] or ["fp32"]:
        for name, make in [("resnet50", resnet50), ("bert-base", bert_base)]:
            make(folder / f"{name}-{precision}.onnx", precision)


main()
