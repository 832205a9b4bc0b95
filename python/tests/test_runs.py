"""From keywords or a manifest to runs, tables, comparisons and reports."""

import json
import subprocess
import sys

import pandas
import polars
import pyarrow
import pytest

import tare
from conftest import DIGITS, ROOT, small


def test_a_plan_has_a_row_for_each_case(results):
    plan = small(results, precision=["fp32", "int8"]).plan()
    rows = plan.cases.rows()
    assert len(plan) == 4
    assert [(row["batch"], row["precision"]) for row in rows if row["gap"] is None] == [(1, "fp32"), (8, "fp32")]
    assert all("int8" in row["gap"] or "precision" in row["gap"] for row in rows if row["gap"])
    assert plan.at_least > 0
    assert "2 cases and 2 gaps" in repr(plan)


def test_a_manifest_is_a_path_a_text_or_a_dictionary(tmp_path):
    path = ROOT / "manifests/quickstart.toml"
    of_path = tare.Experiment(path)
    assert len(of_path.plan()) == 6
    text = f'schema = 1\n[experiment]\nname = "t"\n[[model]]\nid = "m"\npath = {json.dumps(str(DIGITS))}\n[[backend]]\nid = "cpu"\n'
    assert len(tare.Experiment(text).plan()) == 1
    tables = {
        "schema": 1,
        "experiment": {"name": "d"},
        "model": [{"id": "m", "path": DIGITS}],
        "backend": [{"id": "cpu"}],
        "matrix": {"batch": (1, 2)},
    }
    assert len(tare.Experiment(tables).check().plan()) == 2


def test_results_have_every_case_with_its_coordinates(run):
    assert run.is_finished
    assert run.counts == {"finished": 2, "failed": 0, "gaps": 0, "unreached": 0}
    rows = run.results.rows()
    medians = {row["batch"]: row["value"] for row in rows if row["metric"] == "latency.p50"}
    assert set(medians) == {1, 8}
    assert all(value > 1000 for value in medians.values()), medians
    assert {row["sandboxed"] for row in rows} == {True}
    assert {row["model"] for row in rows} == {"digits"}
    assert {row["outcome"] for row in run.cases.rows()} == {"finished"}


def test_all_libraries_read_the_same_values_from_arrow(run):
    table = run.results
    rows = table.rows()
    arrow, frame, lazy = table.to_arrow(), table.to_pandas(), table.to_polars()
    assert isinstance(arrow, pyarrow.Table) and isinstance(frame, pandas.DataFrame)
    assert isinstance(lazy, polars.DataFrame)
    values = [row["value"] for row in rows]
    assert arrow["value"].to_pylist() == values
    assert [None if pandas.isna(value) else value for value in frame["value"]] == values
    assert lazy["value"].to_list() == values
    assert pyarrow.schema(table).names == table.column_names


def test_arrow_shares_the_memory(run):
    table = run.samples()

    def addresses():
        column = pyarrow.table(table)["latency_ns"]
        return [chunk.buffers()[1].address for chunk in column.chunks]

    first = pyarrow.table(table)["latency_ns"]
    shared = polars.DataFrame(table)["latency_ns"].to_arrow()
    assert addresses() == [chunk.buffers()[1].address for chunk in first.chunks]
    if first.num_chunks == 1:
        assert shared.buffers()[1].address == first.chunks[0].buffers()[1].address


def test_samples_are_those_of_the_case(run):
    cases = {row["case_id"]: row for row in run.cases.rows()}
    for id, case in cases.items():
        samples = run.samples(id).to_polars()
        measured = samples.filter(polars.col("phase") == "measured")
        assert samples["case_id"].unique().to_list() == [id]
        assert len(measured) == case["queries"] >= 40
        assert set(measured["process"]) == {0, 1}
    assert len(run.samples()) > len(run.samples(id))
    with pytest.raises(tare.ResultsError, match="no case `nothing`"):
        run.samples("nothing")


def test_sql_reads_one_run_or_all_and_writes_nothing(run, results):
    [row] = run.sql("SELECT count(*) AS n, max(value) AS most FROM results").rows()
    assert row["n"] == len(run.results)
    old = tare.results(results)
    rows = old.sql("SELECT DISTINCT run_id FROM benchmark_results").rows()
    assert run.id in [row["run_id"] for row in rows]
    for query in ("DROP TABLE benchmark_results", "COPY (SELECT 1) TO 'x.csv'"):
        with pytest.raises(tare.ResultsError, match="only queries that read"):
            old.sql(query)
        with pytest.raises(tare.ResultsError, match="only queries that read"):
            run.sql(query)
    with pytest.raises(tare.ResultsError, match="(?i)referenced column|not found|does not exist"):
        old.sql("SELECT valu FROM benchmark_results")


def test_old_runs_are_found_by_part_of_their_name(run, results):
    old = tare.results(results)
    assert run.id in [one.id for one in old]
    assert old["shared"].folder.samefile(run.folder)
    assert run.id in [row["run_id"] for row in old.runs.rows()]
    with pytest.raises(tare.ResultsError, match="no run.*`nothing`") as raised:
        old["nothing"]
    assert raised.value.exit_code == 7 and raised.value.help
    with pytest.raises(tare.ResultsError, match="no results folder"):
        tare.results("nowhere")


def test_two_runs_are_compared_case_by_case(run, results):
    again = small(results, name="again").run()
    comparison = tare.compare(run, again)
    rows = comparison.changes.rows()
    mains = [row for row in rows if row["is_main"]]
    assert {row["batch"] for row in mains} == {"1", "8"}
    assert all(row["ratio_low"] <= row["ratio"] <= row["ratio_high"] for row in mains)
    assert comparison.runs == (run.id, again.id)
    page = comparison._repr_html_()
    assert page.startswith("<iframe sandbox=") and run.id in page
    named = tare.results(results).compare(run.id, again.id)
    assert named.changes.rows() == rows


def test_a_report_is_shown_in_a_notebook(run):
    report = run.report()
    assert report.path.is_file() and report.path.suffix == ".html"
    shown = report._repr_html_()
    assert shown.startswith("<iframe sandbox=") and "&lt;" in shown and "<script" not in shown
    assert run.report("markdown")._repr_html_().startswith("<pre>")


def test_bench_takes_architectures_and_files(results):
    run = tare.bench(
        [DIGITS, "resnet18:image=32,width=8"],
        batch=[1, 2],
        duration="5ms",
        minimum_queries=5,
        warm_up=1,
        results=results,
    )
    keys = {(row["model"], row["batch"]) for row in run.cases.rows()}
    assert len(keys) == 4 and ("digits", 2) in keys
    assert run.raise_for_failures() is run


def test_nothing_is_printed_unless_it_is_asked_for(results, capfd):
    small(results, batch=1, processes=1).run()
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
    small(results, batch=1, processes=1).run(progress=True)
    captured = capfd.readouterr()
    assert captured.out == "" and "Measuring" in captured.err and "1/1" in captured.err


def test_the_package_has_the_command():
    answer = subprocess.run([sys.executable, "-m", "tare", "--version"], capture_output=True, text=True, check=True)
    assert tare.__version__ in answer.stdout


def test_it_lives_in_one_process_with_other_libraries_of_its_kind(run):
    # Their symbols must not mix.
    table = pyarrow.compute.mean(run.results.to_arrow()["value"])
    assert table.as_py() > 0
