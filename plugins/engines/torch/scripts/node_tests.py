"""Writes the backend node tests of the package `onnx` as files: `node_tests.py FOLDER`."""

import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def tensors(values, folder, kind):
    """Writes inputs or outputs. Returns whether all of them are tensors."""
    for index, value in enumerate(values):
        if isinstance(value, onnx.TensorProto):
            tensor = value
        elif isinstance(value, (np.ndarray, np.generic)):
            tensor = numpy_helper.from_array(np.asarray(value))
        else:
            return False
        with open(os.path.join(folder, f"{kind}_{index}.pb"), "wb") as file:
            file.write(tensor.SerializeToString())
    return True


def main(target):
    skipped = 0
    for case in collect_testcases(None):
        folder = os.path.join(target, case.name)
        data = os.path.join(folder, "test_data_set_0")
        os.makedirs(data, exist_ok=True)
        inputs, outputs = case.data_sets[0]
        if not (tensors(inputs, data, "input") and tensors(outputs, data, "output")):
            # The runner counts a test without outputs as not run.
            skipped += 1
            for name in os.listdir(data):
                os.remove(os.path.join(data, name))
        onnx.save(case.model, os.path.join(folder, "model.onnx"))
    print(f"onnx {onnx.__version__}: {skipped} tests have values that are not tensors")


main(sys.argv[1])
