"""What the tests share: folders of their own, and one small run."""

from pathlib import Path

import pytest

import tare

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "manifests/data/digits.onnx"


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory):
    """Keep the user's plugins, settings and results out."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(home / "data"))
        patch.setenv("XDG_CONFIG_HOME", str(home / "config"))
        patch.delenv("TARE_PLUGINS", raising=False)
        patch.chdir(home)
        yield


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """The results folder of the shared runs."""
    return tmp_path_factory.mktemp("results")


def small(results, **keywords):
    """Return an experiment that takes a second."""
    chosen = {
        "model": DIGITS,
        "backend": "cpu",
        "threads": 1,
        "batch": [1, 8],
        "duration": "20ms",
        "minimum_queries": 20,
        "warm_up": 2,
        "processes": 2,
        "metric": ["latency", "throughput"],
        "results": results,
    }
    return tare.Experiment(**{**chosen, **keywords})


@pytest.fixture(scope="session")
def run(results):
    """A run of two cases."""
    return small(results, name="shared").run()
