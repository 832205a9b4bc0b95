"""Wrong input: one clear error each, and nothing lost."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import tare
from tare import _tare
from conftest import DIGITS, ROOT, small


def test_an_error_of_a_manifest_has_the_text_and_place_of_the_command_line(tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text('schema = 1\n[experiment]\nname = "w"\nsede = 7\n[[model]]\nid = "m"\npath = "absent.onnx"\n[[backend]]\nid = "cpu"\n')
    with pytest.raises(tare.ManifestError) as raised:
        tare.Experiment(path).check()
    error = raised.value
    places = [problem.place for problem in error.problems]
    assert (places[0].name, places[0].line, places[0].column) == (str(path), 4, 1)
    assert error.problems[0].help == "did you mean `seed`?"
    assert any("absent.onnx" in problem.message for problem in error.problems)
    environment = {**os.environ, "COLUMNS": "100"}
    command = subprocess.run(
        [sys.executable, "-m", "tare", "validate", path], capture_output=True, text=True, env=environment
    )
    assert command.returncode == error.exit_code == 3
    assert str(error).strip() in command.stderr
    for run in (tare.Experiment(path).plan, tare.Experiment(path).run):
        with pytest.raises(tare.ManifestError):
            run()


def test_a_wrong_value_among_keywords_is_shown_in_the_manifest_that_they_make(results):
    with pytest.raises(tare.ManifestError, match="<keyword arguments>:.*\n(.*\n)*.*fp33"):
        small(results, precision="fp33").run()


def test_unknown_keywords_suggest_the_nearest(results):
    with pytest.raises(tare.UsageError, match="unknown keyword `durration`\n  help: did you mean `duration`?"):
        small(results, durration="1s")
    with pytest.raises(tare.UsageError, match="did you mean `batch`"):
        tare.bench(DIGITS, bach=[1])


def test_every_key_of_a_manifest_has_a_keyword():
    import inspect

    keywords = inspect.signature(tare.Experiment).parameters
    of_models = {"model", "backend"}
    for table in ("matrix", "measure", "experiment"):
        keys = {key.replace("-", "_") for key in _tare.keywords(table)}
        assert len(keys) > 4 and keys - of_models <= set(keywords), table


def test_a_manifest_and_keywords_of_one_do_not_mix():
    with pytest.raises(tare.UsageError, match="`batch` is given beside a manifest"):
        tare.Experiment(ROOT / "manifests/quickstart.toml", batch=2)
    with pytest.raises(tare.UsageError, match="nothing to measure"):
        tare.Experiment(batch=2)
    with pytest.raises(tare.UsageError, match="`resnet5` is neither.*\n(.*\n)*.*did you mean"):
        tare.bench("resnet5")
    with pytest.raises(tare.UsageError, match="cannot be a value"):
        tare.Experiment(model=DIGITS, batch=object())


def test_a_package_without_its_worker_says_so(results, tmp_path, monkeypatch):
    package = Path(tare.__file__).parent
    broken = tmp_path / "tare"
    broken.mkdir()
    (broken / "plugins").symlink_to(package / "plugins")
    monkeypatch.setattr("tare._experiment.FOLDER", str(broken))
    with pytest.raises(tare.Error, match="host-worker") as raised:
        small(results).run()
    assert raised.value.exit_code == 1 and raised.value.help


def test_a_backend_that_is_not_there_is_a_gap_and_can_be_raised(results):
    run = small(results, backend=["nowhere"]).run()
    assert run.counts["gaps"] == 2 and any("nowhere" in notice for notice in run.notices)
    [row, _] = run.results.rows()
    assert row["outcome"] == "gap" and "nowhere" in row["reason"] and row["value"] is None
    with pytest.raises(tare.NothingToRun, match="nothing could be measured\n.*nowhere"):
        run.raise_for_failures()


def test_a_case_that_fails_is_a_result_with_a_reason(results):
    fault = {"id": "fault", "options": {"fault": "error", "fault-message": "it is tired"}}
    run = small(results, backend=[fault], processes=1).run()
    assert run.counts["failed"] == 2 and run.is_finished
    assert all("it is tired" in row["reason"] for row in run.results.rows())
    with pytest.raises(tare.CasesFailed, match="2 of 2 cases failed\n.*it is tired") as raised:
        run.raise_for_failures()
    assert raised.value.exit_code == 6


def interrupted(results, **keywords):
    """Start a run of several seconds, interrupt it after its first case, and return what it raised."""
    experiment = small(results, name="long", batch=[1, 2, 4, 8], duration="700ms", processes=1, **keywords)

    def interrupt():
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            journals = list(Path(results).glob("runs/*long*/journal.jsonl"))
            if any(journal.stat().st_size > 0 for journal in journals):
                os.kill(os.getpid(), signal.SIGINT)
                return
            time.sleep(0.05)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(tare.Interrupted) as raised:
            experiment.run()
    finally:
        thread.join()
    return raised.value


def test_an_interrupt_keeps_what_is_done_and_the_rest_can_be_done_later(tmp_path):
    error = interrupted(tmp_path)
    assert isinstance(error, KeyboardInterrupt) and not isinstance(error, Exception)
    kept = error.run.counts
    assert kept["finished"] >= 1 and kept["unreached"] >= 1, kept
    assert not error.run.is_finished
    assert str(error.run.folder) in str(error) and "resume()" in str(error)
    first = {row["case_id"]: row["elapsed_ns"] for row in error.run.cases.rows() if row["outcome"] == "finished"}
    whole = error.run.resume()
    assert whole.is_finished and whole.counts["finished"] == 4
    after = {row["case_id"]: row["elapsed_ns"] for row in whole.cases.rows()}
    assert {id: after[id] for id in first} == first
    assert whole.resume().counts["finished"] == 4


def test_other_threads_of_python_go_on(results):
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.wait(0.01):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    small(results, batch=1, duration="500ms", processes=1).run()
    stop.set()
    thread.join()
    assert len(ticks) > 20


def test_a_missing_library_is_named_with_its_remedy(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises((tare.UsageError, ModuleNotFoundError), match="polars"):
        run.results.to_polars()


def test_an_unknown_table_suggests_the_nearest(run):
    with pytest.raises(tare.ResultsError, match="did you mean `timeline`"):
        run.table("timelines")


def test_a_damaged_run_is_named(run, tmp_path):
    copy = tmp_path / "runs" / run.id
    shutil.copytree(run.folder, copy)
    for file in (copy / "samples").glob("*.parquet"):
        file.unlink()
    with pytest.raises(tare.ResultsError, match="(?i)lost|missing|gone"):
        tare.Run(copy).samples()
    (copy / "run.json").write_text("{}")
    with pytest.raises(tare.ResultsError, match="run.json"):
        tare.Run(copy).results


@pytest.mark.parametrize(
    "keywords, text",
    [
        ({"rate": float("nan")}, "`matrix.rate` is nan, which is not a finite number"),
        ({"seed": 2**70}, f"`experiment.seed` is {2**70}, which is too large"),
        ({"backend": {"id": "cpu", "options": {"x": [1, None]}}}, r"`backend\[0\].options.x\[1\]` is None"),
        ({"confidence": {1: 2}}, "1 cannot be a key of a manifest in `measure.confidence`"),
        ({"model": b"x"}, "which is no model"),
    ],
)
def test_values_that_a_manifest_cannot_have_are_named(tmp_path, keywords, text):
    with pytest.raises(tare.UsageError, match=text):
        small(tmp_path, **keywords)


def test_an_interrupted_run_computes_its_functions_when_it_is_resumed(tmp_path):
    def count(samples, case):
        return float(len(samples))

    error = interrupted(tmp_path, metric=["latency", count])
    assert "not computed: `count`" in str(error)
    whole = error.run.resume()
    rows = [row for row in whole.results.rows() if row["metric"] == "python:count"]
    assert whole.counts["finished"] == len(rows) == 4


def test_a_bar_that_cannot_be_drawn_does_not_stop_the_run(tmp_path, monkeypatch):
    class Closed:
        encoding = "utf-8"

        def write(self, text):
            raise OSError("the terminal is closed")

        def flush(self):
            raise OSError("the terminal is closed")

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", Closed())
        run = small(tmp_path, batch=1).run(progress=True)
    assert run.is_finished and run.counts["finished"] == 1
    assert sum("OSError: the terminal is closed" in notice for notice in run.notices) == 1
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", None)
        assert small(tmp_path, batch=1).run(progress=True).is_finished


def test_rows_show_times_with_a_zone_and_refuse_names_that_are_there_twice(run):
    [row] = run.sql("SELECT '2026-03-01 12:00:00+02:00'::timestamptz AS at, NULL::timestamptz AS never").rows()
    assert row["at"].startswith("2026-03-01T10:00:00") and row["never"] is None
    with pytest.raises(tare.ResultsError, match="two columns are named `a`"):
        run.sql("SELECT 1 AS a, 2 AS a").rows()


def test_a_package_without_its_libraries_says_to_reinstall_it(tmp_path):
    package = Path(tare.__file__).parent
    broken = tmp_path / "tare"
    broken.mkdir()
    for file in package.glob("*.py"):
        shutil.copy(file, broken)
    shutil.copy(package / "_tare.abi3.so", broken)
    ended = subprocess.run(
        [sys.executable, "-c", "import tare"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert ended.returncode == 1
    assert "libduckdb.so" in ended.stderr and "help: reinstall the package" in ended.stderr
