"""Makes loadgen.json: verdicts of MLPerf LoadGen's own C++ code, which the test beside it holds ours against.

The code is that of the source package mlcommons-loadgen 6.0.17 on PyPI, unpacked into a folder:

    pip download --no-deps --no-binary :all: mlcommons-loadgen==6.0.17
    tar xf mlcommons_loadgen-6.0.17.tar.gz
    python host/measure/tests/loadgen.py mlcommons_loadgen-6.0.17 > host/measure/tests/loadgen.json

It needs a C++ compiler, by default `c++`, or that of the variable CXX.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

SOURCES = ["early_stopping", "logging", "results", "test_settings_internal", "utils"]


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    here = pathlib.Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "loadgen")
        files = [str(here / "loadgen.cc")] + [str(source / f"{name}.cc") for name in SOURCES]
        compiler = os.environ.get("CXX", "c++")
        subprocess.run(
            [compiler, "-std=c++17", "-O1", "-w", "-pthread", f"-I{source}", *files, "-o", program],
            check=True,
        )
        sys.stdout.write(subprocess.run([program], check=True, capture_output=True, text=True).stdout)


main()
