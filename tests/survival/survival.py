#!/usr/bin/env python3
"""What survives: kills at random moments, a full disk, a jumping clock, hosts side by side.

    python3 tests/survival/survival.py TOOL [--kills N] [--jobs N] [--seed N] [--page FILE]

TOOL is the folder of a built tool, such as target/release. Each round checks that nothing that was finished
is lost or changed, that the run can be resumed to its end, that run folder and database agree, and that no
process is left. Faults are printed with the folder, which is kept; the exit code is 1 if there are any.
Needs Linux and nothing beyond Python's standard library and a C compiler.
"""

import argparse
import concurrent.futures
import ctypes
import json
import os
import pathlib
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parent.parent / "manifests" / "data" / "digits.onnx"
CASES = 6
MANIFEST = f"""schema = 1
experiment = {{ name = "survival" }}
[[model]]
id = "digits"
path = "{MODEL}"
[[backend]]
id = "null"
[matrix]
batch = {json.dumps([2**power for power in range(CASES)])}
[measure]
warm-up = "1ms"
duration = "20ms"
minimum-queries = 10
[[metric]]
plugin = "latency"
[[report]]
plugin = "json"
"""
LIMIT = 60  # seconds for any command: only a hang takes longer


class Fault(Exception):
    """Something that must not happen."""


class Place:
    """A folder with a manifest and its results."""

    def __init__(self, tool, folder):
        self.tool, self.folder = tool, pathlib.Path(folder)
        self.results = self.folder / "results"
        self.manifest = self.folder / "survival.toml"
        self.manifest.write_text(MANIFEST)

    def command(self, *arguments):
        return [str(self.tool / "host"), "--results", str(self.results), "--color", "never", *arguments]

    def start(self, *arguments, **options):
        """Starts a command in a session of its own, so that what it leaves can be told from others."""
        output = open(self.folder / "output", "ab")
        return subprocess.Popen(self.command(*arguments), stdin=subprocess.DEVNULL, stdout=output,
                                stderr=output, start_new_session=True, **options)

    def do(self, *arguments, may=(0,), **options):
        """Runs a command to its end, and returns its standard output."""
        ended = subprocess.run(self.command(*arguments), stdin=subprocess.DEVNULL, capture_output=True,
                               text=True, timeout=LIMIT, **options)
        if ended.returncode not in may:
            raise Fault(f"`host {' '.join(arguments)}` ended with {ended.returncode}: {ended.stderr[-2000:]}")
        return ended.stdout

    def query(self, sql):
        """Returns the rows of a query over all runs."""
        self.do("results", "sync")
        return json.loads(self.do("results", "query", "--format", "json", sql))

    def runs(self):
        """Returns the run folders that have a header."""
        folder = self.results / "runs"
        found = sorted(folder.iterdir()) if folder.is_dir() else []
        return [run for run in found if (run / "run.json").exists()]

    def check(self, run):
        """Checks a run that has ended: all cases are there, with their samples, values and report."""
        shown = json.loads(self.do("results", "show", run.name, "--format", "json"))
        if shown.get("lost-files"):
            raise Fault(f"files are lost: {shown['lost-files']}")
        lines = (run / "journal.jsonl").read_text().splitlines()
        ids = [json.loads(line)["case-id"] for line in lines]
        if len(ids) != CASES or len(set(ids)) != CASES:
            raise Fault(f"{len(ids)} cases in the journal, {len(set(ids))} different, of {CASES}")
        if len((run / "results.jsonl").read_text().splitlines()) != CASES:
            raise Fault("values of some cases are missing")
        if not any((run / "reports").rglob("*.json")):
            raise Fault("the report is missing")
        queries = self.query("SELECT count(DISTINCT case_id) AS cases, max(latency_ns) AS longest "
                             f"FROM raw_benchmark_data WHERE run_id = '{run.name}'")[0]
        if queries["cases"] != CASES:
            raise Fault(f"samples of some cases are missing: {queries}")
        if not 0 <= queries["longest"] < 10**10:
            raise Fault(f"latencies have jumped: {queries}")

    def check_database(self, runs):
        """Checks that the database knows exactly these runs, each with all its cases."""
        rows = self.query("SELECT run_id, count(*) AS cases FROM benchmark_cases GROUP BY run_id")
        found = {row["run_id"]: row["cases"] for row in rows}
        wanted = {run.name: CASES for run in runs}
        if found != wanted:
            raise Fault(f"the database has {found}, the folder {wanted}")


def children(parent):
    """Returns the processes below one, youngest last."""
    found, frontier = [], [parent]
    while frontier:
        process = frontier.pop()
        try:
            text = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text()
        except OSError:
            continue
        below = [int(child) for child in text.split()]
        found += below
        frontier += below
    return found


def left_of(session):
    """Returns living processes of a session, whoever their parent is now."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def nothing_left(session):
    """Waits until a session has no process, for at most some seconds."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if not left_of(session):
            return
        time.sleep(0.02)
    left = left_of(session)
    for process in left:
        os.kill(process, signal.SIGKILL)
    raise Fault(f"{len(left)} processes were left")


def kill_round(tool, whole, seed):
    """Kills at a random moment of a run, then resumes it. Returns the place in the run that was hit."""
    chance = random.Random(seed)
    folder = tempfile.mkdtemp(prefix="survival-")
    place = Place(tool, folder)
    victim = chance.choice(["host", "worker", "both"])
    host = place.start("run", str(place.manifest))
    time.sleep(chance.uniform(0, 1.1 * whole))
    workers = children(host.pid)
    hit = "before or after"
    if victim in ("worker", "both"):
        for worker in workers:
            hit = "a case"
            try:
                os.kill(worker, signal.SIGKILL)
            except ProcessLookupError:
                pass
    if victim in ("host", "both"):
        hit = "a case" if workers else hit
        try:
            os.kill(host.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    try:
        status = host.wait(timeout=LIMIT)
        nothing_left(host.pid)
        runs = place.runs()
        if not runs:
            place.do("results", "list")
            shutil.rmtree(folder)
            return victim, "before there was a run"
        run = runs[0]
        journal = run / "journal.jsonl"
        before = journal.read_bytes() if journal.exists() else b""
        kept = before[: before.rfind(b"\n") + 1]
        finished = (run / "finished.json").exists()
        place.do("results", "list")
        place.do("results", "show", run.name, "--format", "json")
        if victim == "worker" and status != -signal.SIGKILL:
            # Its case has failed, and the run went on to its end.
            if not finished:
                raise Fault(f"the host ended with {status} and left the run unfinished")
            if len(kept.splitlines()) != CASES:
                raise Fault("cases are missing")
        else:
            place.do("run", "--resume", run.name)
            if not journal.read_bytes().startswith(kept):
                raise Fault("a finished case was lost or changed")
            place.check(run)
        place.do("results", "sync")
    except (Fault, subprocess.TimeoutExpired) as fault:
        raise Fault(f"{folder} (seed {seed}, {victim}): {fault}") from None
    if finished:
        hit = "after the end"
    shutil.rmtree(folder)
    return victim, hit


def kills(tool, count, jobs, seed):
    """Kills `count` runs."""
    with tempfile.TemporaryDirectory(prefix="survival-") as folder:
        place = Place(tool, folder)
        place.do("run", str(place.manifest))
        started = time.monotonic()
        place.do("run", str(place.manifest))
        whole = time.monotonic() - started
        place.check(place.runs()[-1])
    faults, hits = [], {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        rounds = [pool.submit(kill_round, tool, whole, seed + number) for number in range(count)]
        for done in concurrent.futures.as_completed(rounds):
            try:
                hit = done.result()
                hits[hit] = hits.get(hit, 0) + 1
            except Fault as fault:
                faults.append(str(fault))
    words = "; ".join(f"{victim}, {hit}: {number}" for (victim, hit), number in sorted(hits.items()))
    return f"{count} kills at random moments of a run of {whole:.2f} s", words, faults


def full_disk(tool):
    """Runs on disks that are full after so many kilobytes, then resumes with room."""
    if os.environ.get("SURVIVAL_NAMESPACE") is None:
        line = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, __file__, str(tool),
                "--only-full-disk"]
        ended = subprocess.run(line, env={**os.environ, "SURVIVAL_NAMESPACE": "1"}, capture_output=True, text=True)
        if ended.returncode != 0 or not ended.stdout:
            return "a disk that fills", f"not measured: {ended.stderr.strip()[-300:]}", []
        return tuple(json.loads(ended.stdout))
    faults, ends = [], {}
    sizes = [64 * 2**step + extra for step in range(8) for extra in (0, 40 * step)]
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="survival-") as folder:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", folder], check=True)
            try:
                place = Place(tool, folder)
                ended = subprocess.run(place.command("run", str(place.manifest)), stdin=subprocess.DEVNULL,
                                       capture_output=True, text=True, timeout=LIMIT)
                ends[ended.returncode] = ends.get(ended.returncode, 0) + 1
                if ended.returncode < 0 or "panicked" in ended.stderr:
                    raise Fault(f"ended with {ended.returncode}: {ended.stderr[-1000:]}")
                if ended.returncode != 0 and "space" not in ended.stderr:
                    raise Fault(f"does not say that the disk is full: {ended.stderr[-1000:]}")
                subprocess.run(["mount", "-o", "remount,size=256m", folder], check=True)
                for run in place.runs():
                    journal = run / "journal.jsonl"
                    before = journal.read_bytes() if journal.exists() else b""
                    place.do("run", "--resume", run.name)
                    if not journal.read_bytes().startswith(before[: before.rfind(b"\n") + 1]):
                        raise Fault("a finished case was lost or changed")
                    place.check(run)
                place.check_database(place.runs())
            except (Fault, subprocess.TimeoutExpired) as fault:
                faults.append(f"{size} KiB: {fault}")
            finally:
                subprocess.run(["umount", "--lazy", folder], check=True)
    words = "; ".join(f"exit code {code}: {number}" for code, number in sorted(ends.items()))
    return f"{len(sizes)} disks of {sizes[0]} to {sizes[-1]} KiB that fill, then get room", words, faults


def jumping_clock(tool):
    """Runs while the wall clock jumps by two hours at each look."""
    faults, rounds = [], 5
    with tempfile.TemporaryDirectory(prefix="survival-") as folder:
        shim = pathlib.Path(folder) / "clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, HERE / "clock.c", "-ldl"], check=True)
        place = Place(tool, folder)
        try:
            for _ in range(rounds):
                place.do("run", str(place.manifest), env={**os.environ, "LD_PRELOAD": str(shim)})
            runs = place.runs()
            if len(runs) != rounds:
                raise Fault(f"{len(runs)} runs of {rounds}")
            for run in runs:
                place.check(run)
            place.check_database(runs)
        except (Fault, subprocess.TimeoutExpired) as fault:
            faults.append(str(fault))
    return f"{rounds} runs while the wall clock jumps by two hours at each look", "", faults


def side_by_side(tool, hosts):
    """Several hosts run at once, with one results folder and one database."""
    faults = []
    with tempfile.TemporaryDirectory(prefix="survival-") as folder:
        place = Place(tool, folder)
        started = [place.start("run", str(place.manifest)) for _ in range(hosts)]
        try:
            for host in started:
                status = host.wait(timeout=LIMIT * hosts)
                if status != 0:
                    raise Fault(f"a host ended with {status}: {(place.folder / 'output').read_text()[-1000:]}")
                nothing_left(host.pid)
            runs = place.runs()
            if len(runs) != hosts:
                raise Fault(f"{len(runs)} runs of {hosts}")
            for run in runs:
                place.check(run)
            rows = json.loads(place.do("results", "query", "--format", "json",
                                       "SELECT count(DISTINCT run_id) AS runs FROM benchmark_cases"))
            if rows[0]["runs"] != hosts:
                raise Fault(f"{rows[0]['runs']} runs in the database without a sync")
            place.check_database(runs)
        except (Fault, subprocess.TimeoutExpired) as fault:
            faults.append(str(fault))
    return f"{hosts} hosts at once in one results folder, writing one database", "", faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--only-full-disk", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    tool = arguments.tool.resolve()
    if arguments.only_full_disk:
        print(json.dumps(full_disk(tool)))
        return 0
    # Orphans come to this process, and do not vanish to the system's first one.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    rows = []
    for trial in (lambda: kills(tool, arguments.kills, arguments.jobs, arguments.seed),
                  lambda: full_disk(tool),
                  lambda: jumping_clock(tool),
                  lambda: side_by_side(tool, 2),
                  lambda: side_by_side(tool, 16)):
        name, words, faults = trial()
        rows.append((name, words, faults))
        print(f"{name}: {len(faults)} faults. {words}", flush=True)
        for fault in faults:
            print(f"  {fault}", flush=True)
    if arguments.page:
        write(arguments.page, rows)
    return 1 if any(faults for _, _, faults in rows) else 0


def write(page, rows):
    """Writes the page of the reference."""
    text = (HERE / "head.md").read_text()
    for name, words, faults in rows:
        text += f"| {name} | {words or '–'} | {len(faults)} |\n"
    text += f"\nMeasured on {os.cpu_count()} processors, {platform.system()} {platform.release()}, {time.strftime('%Y-%m-%d')}.\n"
    page.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
