# SPDX-License-Identifier: MIT OR Apache-2.0
"""Write the digits network before its training, and all images with the test's at the end.

    /tmp/digits/bin/python untrained_digits.py                    # Over the committed files.
    /tmp/digits/bin/python untrained_digits.py --output /tmp/new  # Into another folder.

The network, its drawn weights and the division of the images are those of `train_digits.py` beside this script.
"""

import argparse
from pathlib import Path

import numpy as np
from train_digits import FOLDER, build_model, initial_weights, load_split


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=FOLDER)
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    train_images, train_labels, test_images, test_labels = load_split()
    model = build_model(initial_weights())
    model.doc_string = (
        "Classifier of handwritten digits before its training: its weights are drawn. The input is a batch of 8x8 "
        "images with pixels from 0 to 1; the output has one logit for each of the digits 0 to 9."
    )
    (output / "digits-untrained.onnx").write_bytes(model.SerializeToString(deterministic=True))
    np.save(output / "digits-images.npy", np.concatenate([train_images, test_images]))
    np.save(output / "digits-labels.npy", np.concatenate([train_labels, test_labels]))


if __name__ == "__main__":
    main()
