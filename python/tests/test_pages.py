"""The guide and the examples do what they say."""

import importlib.util
import re
import shutil

import pandas

import tare
from conftest import DIGITS, ROOT


def test_the_guide_runs_from_nothing_to_a_plot(tmp_path, monkeypatch, capsys):
    shutil.copy(DIGITS, tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/guide/python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 6
    names = {}
    for block in blocks:
        exec(compile(block, "docs/guide/python.md", "exec"), names)
    assert (tmp_path / "latency.png").stat().st_size > 5000
    assert {row["sandboxed"] for row in names["run"].results.rows() if row["metric"] == "python:spread"} == {False}
    assert len(names["slowest"]) == 3 and len(names["old"]) == 3
    printed = capsys.readouterr().out
    assert "openvino" in printed and "fp33" in printed and "verdict" in printed


def test_the_guide_names_every_exception_with_its_exit_code():
    page = (ROOT / "docs/guide/python.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `tare\.(\w+)` \| (\d+) \|", page, re.MULTILINE))
    kinds = [kind for kind in vars(tare).values() if isinstance(kind, type) and issubclass(kind, BaseException)]
    assert rows == {kind.__name__: str(kind.exit_code) for kind in kinds}


def test_the_suite_ends_with_a_frame_and_a_plot(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    path = ROOT / "python/examples/suite.py"
    spec = importlib.util.spec_from_file_location("suite", path)
    suite = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, "suite", suite)
    spec.loader.exec_module(suite)
    plot = suite.main(tmp_path)
    assert plot.read_bytes().startswith(b"\x89PNG") and plot.stat().st_size > 10_000
    captured = capsys.readouterr()
    assert captured.err.count("on openvino") == 6 and "not installed" in captured.err
    cases = suite.frame(tare.results(tmp_path)["latest"])
    assert isinstance(cases, pandas.DataFrame) and len(cases) == 6
    assert set(cases["model"]) == {"digits", "resnet18"}
    assert (cases["value", "latency.p50"] > 0).all()


def test_the_types_cover_every_function_of_the_compiled_part():
    from tare import _tare

    stub = (ROOT / "python/tare/_tare.pyi").read_text(encoding="utf-8")
    described = set(re.findall(r"^def (\w+)\(", stub, re.MULTILINE))
    assert described == {name for name, value in vars(_tare).items() if callable(value) and name != "Table"}
    names = set(re.findall(r"    def (\w+)\(", stub))
    assert names == {name for name in vars(_tare.Table) if name not in ("__new__", "__doc__", "__module__")}


def test_everything_public_has_a_docstring():
    for name in tare.__all__:
        value = getattr(tare, name)
        if not callable(value):
            continue
        assert value.__doc__, name
        if isinstance(value, type):
            for member, function in vars(value).items():
                if not member.startswith("_") and (callable(function) or isinstance(function, property)):
                    assert function.__doc__, f"{name}.{member}"
