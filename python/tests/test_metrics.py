"""Metrics that are Python functions."""

import json
import math
import shutil

import pytest

import tare
from tare import _tare
from conftest import small


@tare.metric(unit="ns", direction="lower")
def spread(samples, case):
    """The interquartile range."""
    latency = samples.to_polars()["latency_ns"]
    assert set(samples.to_polars()["phase"]) == {"measured"} and case["outcome"] == "finished"
    return latency.quantile(0.75) - latency.quantile(0.25)


def test_values_are_kept_in_the_run_and_marked_as_not_sandboxed(tmp_path):
    run = small(tmp_path, metric=["latency", spread]).run()
    rows = [row for row in run.results.rows() if row["metric"] == "python:spread"]
    assert len(rows) == 2 and all(row["value"] >= 0 for row in rows)
    assert {(row["sandboxed"], row["unit"], row["direction"]) for row in rows} == {(False, "ns", "lower")}
    assert all(row["sandboxed"] for row in run.results.rows() if row["metric"] == "latency.p50")
    kept = tare.results(tmp_path).sql(
        "SELECT value, attributes FROM benchmark_results WHERE metric = 'python:spread' ORDER BY value"
    ).rows()
    assert [row["value"] for row in kept] == sorted(row["value"] for row in rows)
    assert json.loads(kept[0]["attributes"])["sandbox"] == "none"


def test_several_numbers_have_names_and_a_new_function_replaces_the_old(tmp_path):
    run = small(tmp_path, batch=1).run()

    def ends(samples, case):
        latency = samples.to_arrow()["latency_ns"].to_pylist()
        return {"first": latency[0], "last": latency[-1]}

    run.compute(ends)
    names = [row["metric"] for row in run.results.rows()]
    assert names.count("python:ends.first") == names.count("python:ends.last") == 1

    @tare.metric("ends")
    def other(samples, case):
        return 1.0

    run.compute(other)
    names = [row["metric"] for row in run.results.rows()]
    assert "python:ends" in names and "python:ends.first" not in names


def test_a_metric_that_raises_costs_its_own_value_only(tmp_path):
    def picky(samples, case):
        if case["batch"] == 8:
            raise LookupError("there is no batch of 8")
        return 1.0

    def infinite(samples, case):
        return math.inf

    with pytest.raises(tare.PluginError, match="`picky`.*LookupError: there is no batch of 8") as raised:
        small(tmp_path, metric=["latency", picky, infinite, spread]).run()
    error = raised.value
    assert isinstance(error.__cause__, LookupError) and "2 more such errors" in str(error)
    rows = error.run.results.rows()
    picked = {row["batch"]: row for row in rows if row["metric"] == "python:picky"}
    assert picked[1]["value"] == 1.0 and picked[8]["value"] is None
    assert "there is no batch of 8" in picked[8]["gap_reason"]
    assert len([row for row in rows if row["metric"] == "python:spread"]) == 2
    assert error.run.is_finished
    assert {row["value"] for row in rows if row["metric"] == "python:infinite"} == {None}


def test_wrong_descriptions_are_refused_before_anything_is_measured(tmp_path):
    with pytest.raises(tare.UsageError, match="did you mean `lower`"):
        tare.metric(direction="lowr")
    with pytest.raises(tare.UsageError, match="cannot be the name"):
        small(tmp_path, metric=[lambda samples, case: 1.0])
    assert not list(tmp_path.iterdir())


def test_names_of_values_are_checked(tmp_path):
    with pytest.raises(tare.PluginError, match="'a b.n' cannot be the name of a value"):
        small(tmp_path / "named", batch=1).run().compute(odd)


def odd(samples, case):
    return {"a b\n": 1}


def test_each_case_gets_its_own_samples_and_the_run_is_opened_once(run, monkeypatch):
    opened = []
    once = _tare.measured_samples
    monkeypatch.setattr(_tare, "measured_samples", lambda folder: opened.append(folder) or once(folder))
    monkeypatch.setattr(_tare, "samples", None)
    seen = {}

    def collect(samples, case):
        seen[case["case_id"]] = samples.rows()

    run.compute(collect, tare.metric("again")(collect))
    monkeypatch.undo()
    assert len(opened) == 1 and len(seen) == 2
    for case, rows in seen.items():
        assert rows and rows == tare.Table(_tare.samples(run.folder, case, "measured")).rows()


def test_a_case_with_lost_samples_is_named_and_the_others_are_computed(tmp_path):
    run = small(tmp_path).run()
    first, second = [row["case_id"] for row in run.cases.rows()]
    for file in (run.folder / "samples").glob(f"*{second}*"):
        file.unlink()
    assert list(_tare.measured_samples(run.folder)) == [first]
    with pytest.raises(tare.ResultsError, match=second):
        run.compute(spread)
    assert [row["case_id"] for row in run.results.rows() if row["metric"] == "python:spread"] == [first]


def test_an_interrupt_while_metrics_are_computed_has_the_run(tmp_path):
    calls = []

    def slow(samples, case):
        calls.append(case["case_id"])
        if len(calls) == 1:
            raise KeyboardInterrupt
        return 1.0

    with pytest.raises(tare.Interrupted, match="not computed for all cases: `slow`\n.*compute.slow.") as raised:
        small(tmp_path, metric=["latency", spread, slow]).run()
    run = raised.value.run

    def kept():
        names = [row["metric"] for row in run.results.rows()]
        return names.count("python:spread"), names.count("python:slow")

    assert kept() == (2, 0)
    run.resume()
    assert kept() == (2, 2)


def test_a_run_that_was_copied_elsewhere_gets_values_and_no_database(run, tmp_path):
    copy = tmp_path / "above" / "elsewhere" / run.id
    shutil.copytree(run.folder, copy)
    tare.Run(copy).compute(spread)
    assert [path.name for path in (tmp_path / "above").iterdir()] == ["elsewhere"]
    assert "python:spread" in [row["metric"] for row in tare.Run(copy).results.rows()]


def test_values_are_kept_if_the_database_is_damaged(tmp_path):
    run = small(tmp_path, batch=1).run()
    (tmp_path / "tare.duckdb").write_bytes(b"no database" * 1000)
    run.compute(spread)
    assert any("`spread` are in the run folder" in notice for notice in run.notices), run.notices
    assert "python:spread" in [row["metric"] for row in run.results.rows()]
