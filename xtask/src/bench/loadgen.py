"""What MLPerf LoadGen costs a query, with a system under test that does nothing.

Runs `mlcommons-loadgen` from PyPI, which is the C++ library behind a Python binding, so that each query
passes through Python twice: what is measured is what a harness written in Python pays. Prints one line
of JSON. Arguments: seconds for each measurement, and the rates of the server scenario.
"""

import importlib.metadata
import json
import os
import re
import sys
import tempfile

import mlperf_loadgen as lg

# LoadGen issues from a thread of its own and keeps it for itself, so its seeds are all that it needs.
SEEDS = (1, 2, 3)


def issue(samples):
    lg.QuerySamplesComplete([lg.QuerySampleResponse(sample.id, 0, 0) for sample in samples])


def nothing(*_):
    pass


def measure(scenario, seconds, rate=None):
    """Runs a scenario and reads what LoadGen says of it."""
    settings = lg.TestSettings()
    settings.scenario = scenario
    settings.mode = lg.TestMode.PerformanceOnly
    settings.min_duration_ms = settings.max_duration_ms = int(1000 * seconds)
    settings.min_query_count = 1
    settings.qsl_rng_seed, settings.sample_index_rng_seed, settings.schedule_rng_seed = SEEDS
    if rate is None:
        settings.single_stream_expected_latency_ns = 10_000
    else:
        settings.server_target_qps = rate
        settings.server_target_latency_ns = 10_000_000
        settings.server_coalesce_queries = False

    with tempfile.TemporaryDirectory() as folder:
        output = lg.LogOutputSettings()
        output.outdir = folder
        output.copy_summary_to_stdout = False
        log = lg.LogSettings()
        log.enable_trace = False
        log.log_output = output
        system = lg.ConstructSUT(issue, nothing)
        library = lg.ConstructQSL(1024, 1024, nothing, nothing)
        lg.StartTestWithLogSettings(system, library, settings, log)
        lg.DestroyQSL(library)
        lg.DestroySUT(system)
        with open(os.path.join(folder, "mlperf_log_summary.txt"), encoding="utf-8") as file:
            text = file.read()

    def number(name):
        found = re.search(rf"^\s*{re.escape(name)}\s*:\s*([0-9.e+]+)\s*$", text, re.MULTILINE)
        return float(found.group(1)) if found else None

    if rate is None:
        # The median, which other work on the machine does not move; LoadGen's own work between queries is
        # not in it.
        return number("50.00 percentile latency (ns)")
    return {
        "asked": rate,
        "offered": number("Scheduled samples per second"),
        "achieved": number("Completed samples per second"),
        "p50_ns": number("50.00 percentile latency (ns)"),
        "p99_ns": number("99.00 percentile latency (ns)"),
        "maximum_ns": number("Max latency (ns)"),
    }


def main():
    seconds = float(sys.argv[1])
    rates = [float(rate) for rate in sys.argv[2:]]
    single = measure(lg.TestScenario.SingleStream, seconds)
    print(json.dumps({
        "version": importlib.metadata.version("mlcommons-loadgen"),
        "single_stream_ns": single,
        "server": [measure(lg.TestScenario.Server, seconds, rate) for rate in rates],
    }))


main()
