"""Measures ResNet-50 and BERT-base here and in Python on one device, in turns, within a limit of time.

    gpu_proof.py TOOL OUTPUT [--device cuda:0] [--deadline 440] [--parts phases,sweep,paired] [--size full]

TOOL is a folder with the programs `host` and `host-worker`, their libraries, and `plugins/`. OUTPUT gets `proof.md`,
`proof.json` and the run folders without their samples. The models are architectures of the tool, whose weights it draws.
Python's side is `torchvision`'s ResNet-50 and `transformers`' BERT with drawn weights, in a process of its own, with
the PyTorch that the tool opens.

paired   inference in fp32, fp16 and bf16, and training in fp32 and with autocast in bf16: both sides take turns, and
         the side that goes first changes. Rounds are made until the time is up.
phases   training once more with marks: phases, the cost of looking, and the peak of memory by phase.
sweep    training with larger and larger batches until memory runs out.
scaling  training on 1, 2 and 4 devices together, or on as many groups of threads of a processor, each with the same
         part of the batch, here and by Python's `DistributedDataParallel`. Not among the parts by default.
graphs   inference at batch 1 with and without graphs of CUDA, here and in Python. Not among the parts by default.

Both sides wait for the device after each query. TF32 is off on both. `--size small` tries the script out on a
processor, and `--size medium` compares both sides there, with `--threads 1`.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

START = time.monotonic()
# Dense peaks of NVIDIA's H200 data sheet in FLOP/s, without TF32.
PEAKS = {"NVIDIA H200": {"fp32": 67e12, "fp16": 989.5e12, "bf16": 989.5e12}}


class Sizes:
    def __init__(self, size):
        self.size, is_full = size, size == "full"
        self.image, self.length, self.layers = {
            "small": (64, 16, 2), "medium": (128, 64, 4), "full": (224, 128, 12),
        }[size]
        resnet50, bert = {"small": (2, 2), "medium": (4, 4), "full": (64, 32)}[size]
        self.batch = {"resnet50": resnet50, "bert": bert}
        self.warm_up, self.seconds = {"small": (0.2, 0.5), "medium": (1.0, 4.0), "full": (1.0, 1.5)}[size]
        self.least = 20 if is_full else 5
        self.sweep = {
            "resnet50": [256, 1024, 2048] if is_full else [4, 8],
            "bert": [128, 512, 2048] if is_full else [4, 8],
        }
        # A processor without instructions for them computes these in software.
        self.precisions = ["fp32", "fp16", "bf16"] if is_full else ["fp32"]
        # Of a pass over one example, for the utilisation: `host inspect` counts the same.
        self.names = {
            "resnet50": f"resnet50:image={self.image}",
            "bert": f"bert_base:layers={self.layers}",
        }


def kinds(sizes):
    """Returns what is compared: name, model, mode, precision of the products."""
    found = []
    for model in ["resnet50", "bert"]:
        for precision in sizes.precisions:
            found.append((f"{model} inference {precision}", model, "inference", precision))
        for precision in [one for one in sizes.precisions if one != "fp16"]:
            found.append((f"{model} training {precision}", model, "training", precision))
    return found


def sizes_of(arguments):
    sizes = Sizes(arguments.size)
    sizes.threads = arguments.threads
    return sizes


# ---- The tool ----------------------------------------------------------------------------------------------------

HEAD = """
schema = 1
experiment = {{ name = "{name}", seed = 7 }}
[[model]]
id = "{model}"
architecture = "{architecture}"
"""

BACKEND = """
[[backend]]
id = "{id}"
plugin = "torch"
version = "^0.1"
device = "{device}"
{threads}
options = {{ loss = "output", optimiser = "{optimiser}", phases = "{phases}", autocast = "{autocast}", replicas = {replicas}{more} }}
"""

TAIL = """
[matrix]
batch = {batch}
precision = {precisions}
mode = ["{mode}"]
scenario = ["single-stream"]
{length}
[measure]
warm-up = "{warm_up}ms"
duration = "{duration}ms"
minimum-queries = {queries}
timeout = "120s"
[[metric]]
plugin = "latency"
[[metric]]
plugin = "throughput"
[[metric]]
plugin = "training"
options = {{ phases = ["copy", "forward", "loss", "backward", "exchange", "optimiser", "zeroing"] }}
[[metric]]
plugin = "memory"
[[metric]]
plugin = "model"
[[report]]
plugin = "csv"
"""


def manifest(sizes, device, name, model, mode, precisions, autocasts, batch, phases, queries=None, replicas=1, more=""):
    optimiser = "sgd" if model == "resnet50" else "adamw"
    text = HEAD.format(name=name, model=model, architecture=sizes.names[model])
    for autocast in autocasts:
        text += BACKEND.format(
            id="torch" if autocast == "none" else f"autocast-{autocast}", device=device,
            optimiser=optimiser, phases=phases, autocast=autocast, replicas=replicas, more=more,
            threads=f"threads = {sizes.threads}" if sizes.threads else "",
        )
    length = f"sequence-length = [{sizes.length}]" if model == "bert" else ""
    return text + TAIL.format(
        batch=batch, precisions=json.dumps(precisions), mode=mode, length=length, queries=queries or sizes.least,
        warm_up=int(sizes.warm_up * 1000), duration=int(sizes.seconds * 1000),
    )


class Tool:
    def __init__(self, folder, output):
        import torch

        self.folder, self.output = Path(folder).resolve(), Path(output).resolve()
        self.environment = dict(os.environ)
        home = tempfile.mkdtemp(prefix="tare-home-")
        self.environment.update(
            HOME=home, XDG_CACHE_HOME=f"{home}/cache", XDG_DATA_HOME=f"{home}/data",
            XDG_CONFIG_HOME=f"{home}/config",
            TARE_RUNTIME_TORCH=str(Path(torch.__file__).parent),
            LD_LIBRARY_PATH=f"{self.folder}:{os.environ.get('LD_LIBRARY_PATH', '')}",
        )

    def run(self, name, text, limit):
        """Runs a manifest, and returns its cases: a list of records with their values."""
        folder = Path(tempfile.mkdtemp(prefix="tare-run-"))
        (folder / "it.toml").write_text(text)
        line = [str(self.folder / "host"), "run", "it.toml", "--results", "results"]
        done = subprocess.run(
            line, cwd=folder, env=self.environment, capture_output=True, text=True,
            timeout=max(limit, 10),
        )
        runs = sorted((folder / "results" / "runs").glob("*")) if (folder / "results").exists() else []
        if not runs:
            raise RuntimeError(f"{name}: {done.stderr[-3000:]}")
        cases = {}
        for line in (runs[-1] / "journal.jsonl").read_text().splitlines():
            record = json.loads(line)
            if "case-id" in record:
                cases[record["case-id"]] = {"record": record, "values": {}}
        results = runs[-1] / "results.jsonl"
        for line in results.read_text().splitlines() if results.exists() else []:
            record = json.loads(line)
            for value in record.get("values", []):
                if record["case-id"] in cases and "Ok" in value["value"]:
                    cases[record["case-id"]]["values"][value["metric"]] = value["value"]["Ok"]
        # What NCCL or libtorch said, with the first cases that failed.
        for case in cases.values():
            if failure(case):
                print(f"{name}: {json.dumps(case['record'].get('outcome'))[:1500]}", flush=True)
        kept = self.output / "runs" / name
        kept.mkdir(parents=True, exist_ok=True)
        for file in ["journal.jsonl", "results.jsonl", "manifest.toml", "run.json", "finished.json"]:
            if (runs[-1] / file).exists():
                shutil.copy(runs[-1] / file, kept / file)
        (kept / "stderr.txt").write_text(done.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        return list(cases.values())


def find(value, name):
    """Returns the first value of this name, at any depth."""
    if isinstance(value, dict):
        if name in value:
            return value[name]
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            found = find(one, name)
            if found is not None:
                return found
    return None


def failure(case):
    """Returns why a case has no result, in one line."""
    outcome = json.dumps(case["record"].get("outcome"))
    if '"finished"' in outcome or '"Finished"' in outcome:
        return None
    message = find(case["record"].get("outcome"), "message") or outcome
    return " ".join(str(message).split())[:200]


def median(case):
    """Returns the median time of a query; that of a step needs no number of them."""
    for name in ["latency.p50", "training.step", "latency.mean"]:
        if name in case["values"]:
            return case["values"][name]
    return None


def ours(tool, sizes, device, limit):
    """Returns latency, throughput and peak of each kind, by the tool."""
    found = {}
    for model in ["resnet50", "bert"]:
        batch = [sizes.batch[model]]
        precisions = sizes.precisions
        casts = ["none", "bf16"] if "bf16" in precisions else ["none"]
        plans = [
            ("inference", manifest(sizes, device, f"{model}-inference", model, "inference", precisions, ["none"], batch, "none")),
            ("training", manifest(sizes, device, f"{model}-training", model, "training", ["fp32"], casts, batch, "none")),
        ]
        for mode, text in plans:
            for case in tool.run(f"{model}-{mode}", text, limit()):
                key = case["record"]["key"]
                precision = "bf16" if key["backend"] == "autocast-bf16" else key["precision"]
                name = f"{model} {mode} {precision}"
                reason = failure(case) or (median(case) is None and "it has no median")
                if reason:
                    print(f"{name}: {reason}", file=sys.stderr)
                    continue
                allocator = find(case["record"], "allocator") or {}
                found[name] = {
                    "median_ns": median(case),
                    "peak_bytes": find(allocator, "peak-bytes"),
                    "device_ns": find(find(case["record"], "device-time"), "device-ns"),
                    "flops": case["values"].get("model.operations"),
                    "utilisation": case["values"].get("model.flops-utilisation"),
                }
    return found


# ---- Python ------------------------------------------------------------------------------------------------------


def theirs_child(arguments):
    """Prints a line of JSON for each kind."""
    import torch

    sizes, device = sizes_of(arguments), torch.device(arguments.device)
    if sizes.threads:
        torch.set_num_threads(sizes.threads)
    is_cuda = device.type == "cuda"
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False

    def wait():
        if is_cuda:
            torch.cuda.synchronize()

    def batches(model, dtype):
        size, made = sizes.batch[model], []
        # As many as the tool keeps: 64, in at most 256 MiB.
        each = size * (3 * sizes.image**2 * 4 if model == "resnet50" else 3 * sizes.length * 8)
        for seed in range(max(1, min(64, 2**28 // each))):
            # `transformers` leaves out a mask that hides nothing; the graph does not.
            made.append(inputs_of(sizes, model, size, dtype, seed))
        return made

    for name, model, mode, precision in kinds(sizes):
        network = network_of(sizes, model)
        dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]
        if mode == "inference":
            network = network.to(device=device, dtype=dtype).eval()
            data = [tuple(one.to(device) for one in batch) for batch in batches(model, dtype)]

            def query(batch):
                with torch.inference_mode():
                    network(*batch)
                wait()

        else:
            network = network.to(device).train()
            data = batches(model, torch.float32)
            weights = [one for one in network.parameters() if one.requires_grad]
            if model == "resnet50":
                update = torch.optim.SGD(weights, lr=0.01, momentum=0.9, fused=True)
            else:
                update = torch.optim.AdamW(weights, lr=0.001, weight_decay=0.01, fused=True)

            def query(batch):
                batch = tuple(one.to(device) for one in batch)
                with torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16"):
                    output = network(*batch)
                loss = output.float().mean()
                loss.backward()
                update.step()
                update.zero_grad()
                wait()

        if is_cuda:
            torch.cuda.reset_peak_memory_stats()
        times, at = [], 0
        begun = time.perf_counter()
        while time.perf_counter() - begun < sizes.warm_up:
            query(data[at % len(data)])
            at += 1
        begun = time.perf_counter()
        while time.perf_counter() - begun < sizes.seconds or len(times) < sizes.least:
            before = time.perf_counter_ns()
            query(data[at % len(data)])
            times.append(time.perf_counter_ns() - before)
            at += 1
        peak = torch.cuda.max_memory_allocated() if is_cuda else None
        print(json.dumps({"name": name, "median_ns": statistics.median(times), "peak_bytes": peak}), flush=True)
        network = update = weights = data = query = None
        if is_cuda:
            torch.cuda.empty_cache()


def network_of(sizes, model, pooled=True):
    """Returns the network of Python's side, with drawn weights."""
    import torch
    import torchvision
    from transformers import BertConfig, BertModel

    class Bert(torch.nn.Module):
        def __init__(self):
            super().__init__()
            config = BertConfig(num_hidden_layers=sizes.layers, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
            config._attn_implementation = "sdpa"
            self.bert = BertModel(config, add_pooling_layer=pooled)

        def forward(self, ids, mask, kinds):
            return self.bert(input_ids=ids, attention_mask=mask, token_type_ids=kinds).last_hidden_state

    torch.manual_seed(7)
    return torchvision.models.resnet50() if model == "resnet50" else Bert()


def inputs_of(sizes, model, size, dtype, seed=0):
    import torch

    random = torch.Generator().manual_seed(seed)
    if model == "resnet50":
        return (torch.rand(size, 3, sizes.image, sizes.image, generator=random).to(dtype),)
    ids = torch.randint(0, 30522, (size, sizes.length), generator=random)
    mask = torch.ones_like(ids)
    mask[0, -1] = 0
    return ids, mask, torch.zeros_like(ids)


def rank_child(arguments):
    """Trains as one of several processes with `DistributedDataParallel`; the first prints a line for each kind."""
    import torch
    import torch.distributed as dist

    rank, world = arguments.rank, arguments.world
    sizes = sizes_of(arguments)
    is_cuda = arguments.device.startswith("cuda")
    device = torch.device("cuda", rank) if is_cuda else torch.device("cpu")
    if is_cuda:
        torch.cuda.set_device(device)
    if sizes.threads:
        torch.set_num_threads(sizes.threads)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    dist.init_process_group(
        "nccl" if is_cuda else "gloo", init_method=f"file://{arguments.meeting}", rank=rank, world_size=world,
    )
    for model in ["resnet50", "bert"]:
        for cast in [False, True] if "bf16" in sizes.precisions else [False]:
            # A layer without a gradient, which the loss does not use, stops `DistributedDataParallel`.
            network = network_of(sizes, model, pooled=False).to(device).train()
            network = torch.nn.parallel.DistributedDataParallel(network, device_ids=[rank] if is_cuda else None)
            weights = [one for one in network.parameters() if one.requires_grad]
            if model == "resnet50":
                update = torch.optim.SGD(weights, lr=0.01, momentum=0.9, fused=True)
            else:
                update = torch.optim.AdamW(weights, lr=0.001, weight_decay=0.01, fused=True)
            data = [inputs_of(sizes, model, sizes.batch[model], torch.float32, seed) for seed in range(4)]

            def step(batch):
                batch = tuple(one.to(device) for one in batch)
                with torch.autocast(device.type, dtype=torch.bfloat16, enabled=cast):
                    output = network(*batch)
                output.float().mean().backward()
                update.step()
                update.zero_grad()
                if is_cuda:
                    torch.cuda.synchronize()

            # All ranks make the same number of steps.
            for at in range(5):
                step(data[at % len(data)])
            dist.barrier()
            times = []
            for at in range(max(sizes.least, 40 if is_cuda else 5)):
                before = time.perf_counter_ns()
                step(data[at % len(data)])
                times.append(time.perf_counter_ns() - before)
            dist.barrier()
            if rank == 0:
                name = f"{model}, {'autocast-bf16' if cast else 'torch'}"
                rate = sizes.batch[model] * world / statistics.median(times) * 1e9
                print(json.dumps({"model": name, "replicas": world, "throughput": rate}), flush=True)
            network = update = weights = data = step = None
            if is_cuda:
                torch.cuda.empty_cache()
    dist.destroy_process_group()


def ranks(arguments, world, limit):
    """Starts a process for each rank, and returns what the first one measured."""
    folder = tempfile.mkdtemp(prefix="tare-ranks-")
    line = [sys.executable, __file__, "--child", "--device", arguments.device, "--size", arguments.size]
    line += ["--threads", str(arguments.threads), "--world", str(world), "--meeting", f"{folder}/meeting"]
    started = []
    for rank in range(world):
        errors = open(f"{folder}/{rank}.txt", "w")
        started.append(subprocess.Popen([*line, "--rank", str(rank)], stdout=subprocess.PIPE, stderr=errors, text=True))
    until = time.monotonic() + max(limit, 30)
    found, failed = [], []
    try:
        for rank, process in enumerate(started):
            text, _ = process.communicate(timeout=max(until - time.monotonic(), 1))
            found += map(json.loads, text.splitlines())
            if process.returncode != 0:
                failed.append(f"rank {rank}: {Path(f'{folder}/{rank}.txt').read_text()[-1500:]}")
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
    if failed:
        raise RuntimeError(f"Python's ranks: {failed}")
    return found


def graphs_child(arguments):
    """Prints a line for each kind of inference at batch 1, with and without graphs of CUDA."""
    import torch

    sizes, device = sizes_of(arguments), torch.device(arguments.device)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    for model in ["resnet50", "bert"]:
        for precision in ["fp32", "bf16"]:
            dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
            network = network_of(sizes, model).to(device=device, dtype=dtype).eval()
            given = tuple(one.to(device) for one in inputs_of(sizes, model, 1, dtype))
            with torch.inference_mode():
                side = torch.cuda.Stream()
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    for _ in range(3):
                        network(*given)
                torch.cuda.current_stream().wait_stream(side)
                kinds = {"false": lambda: network(*given)}
                try:
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph):
                        network(*given)
                    kinds["true"] = graph.replay
                except RuntimeError as error:
                    print(json.dumps({"model": model, "precision": precision, "graphs": "true", "failed": str(error)[:200]}))
                for graphs, query in kinds.items():
                    times = []
                    for at in range(220):
                        before = time.perf_counter_ns()
                        query()
                        torch.cuda.synchronize()
                        times.append(time.perf_counter_ns() - before)
                    one = {"model": model, "precision": precision, "graphs": graphs, "median_ns": statistics.median(times[20:])}
                    print(json.dumps(one), flush=True)


def child(arguments, limit, *more):
    line = [sys.executable, __file__, "--child", "--device", arguments.device]
    line += ["--size", arguments.size, "--threads", str(arguments.threads), *more]
    done = subprocess.run(line, capture_output=True, text=True, timeout=max(limit, 10))
    if done.returncode != 0:
        raise RuntimeError(f"Python's side: {done.stderr[-3000:]}")
    return list(map(json.loads, done.stdout.splitlines()))


def theirs(arguments, limit):
    return {found["name"]: found for found in child(arguments, limit)}


# ---- Results -----------------------------------------------------------------------------------------------------


def interval(values):
    """Returns the narrowest interval of ranks that holds the median with 95 % or more, if there is one."""
    values, count = sorted(values), len(values)
    for low in range(count // 2, 0, -1):
        tail = sum(math.comb(count, below) for below in range(low)) / 2**count
        if 1 - 2 * tail >= 0.95:
            return values[low - 1], values[count - low]
    return None


def mebibytes(value):
    return "" if value is None else f"{value / 2**20:,.0f}"


def report(arguments, sizes, name, found):
    peaks = PEAKS.get(name, {})
    lines = [f"# {name}", "", f"{found['python']}, TF32 off. Times in ms; memory in MiB.", ""]
    rounds = found["rounds"]
    if rounds:
        lines += [
            f"## Here and in Python, {len(rounds)} rounds in turns", "",
            "*difference* is the median over rounds of the ratio of both medians, less one, with all rounds' range or "
            "(from 6 rounds on) its interval by the sign test. *utilisation*: operations of a pass, times three in "
            "training, by the peak of the device for the precision of the products.", "",
            "| what | batch | Python | here | difference | range | samples/s | utilisation | peak, Python | peak, here |",
            "|---|--:|--:|--:|--:|---|--:|--:|--:|--:|",
        ]
        for kind, model, mode, precision in kinds(sizes):
            pairs = [(one["ours"][kind], one["theirs"][kind]) for one in rounds if kind in one["ours"] and kind in one["theirs"]]
            if not pairs:
                lines.append(f"| {kind} | | | no result | | | | | | |")
                continue
            ratios = [(left["median_ns"] / right["median_ns"] - 1) * 100 for left, right in pairs]
            low, high = interval(ratios) or (min(ratios), max(ratios))
            here = statistics.median(left["median_ns"] for left, _ in pairs)
            python = statistics.median(right["median_ns"] for _, right in pairs)
            batch = sizes.batch[model]
            flops = next((one["ours"][f"{model} inference fp32"]["flops"] for one in rounds if f"{model} inference fp32" in one["ours"]), None)
            use = ""
            if flops and precision in peaks:
                use = f"{flops * (3 if mode == 'training' else 1) / (here / 1e9) / peaks[precision] * 100:.1f} %"
            lines.append(
                f"| {kind} | {batch} | {python / 1e6:.3f} | {here / 1e6:.3f} | {statistics.median(ratios):+.1f} % | "
                f"{low:+.1f} to {high:+.1f} % | {batch / here * 1e9:,.0f} | {use} | "
                f"{mebibytes(pairs[-1][1]['peak_bytes'])} | {mebibytes(pairs[-1][0]['peak_bytes'])} |"
            )
    if found["phases"]:
        lines += ["", "## Phases of a step", ""]
        for kind, values in found["phases"].items():
            lines.append(f"- {kind}: " + ", ".join(f"{name} {value}" for name, value in values.items()))
    if found["sweep"]:
        lines += ["", "## Batches until memory runs out (training, fp32)", "", "| model | batch | step | samples/s | peak | result |", "|---|--:|--:|--:|--:|---|"]
        for one in found["sweep"]:
            step = one.get("median_ns")
            shown = ("", "") if step is None else (f"{step / 1e6:.1f}", f"{one['batch'] / step * 1e9:,.0f}")
            lines.append(f"| {one['model']} | {one['batch']} | {shown[0]} | {shown[1]} | {mebibytes(one.get('peak_bytes'))} | {one['result']} |")
    if found["scaling"]:
        lines += [
            "", "## Several devices", "",
            "*efficiency*: samples/s by those of one device, by the number of devices; each has the same part of the batch. "
            "*samples/s* are those of steps without marks, *exchange* is its share of steps with marks. Python's side is "
            "`DistributedDataParallel`, a process for each device, whose exchange overlaps with the backward pass.", "",
            "| model | devices | batch | samples/s, Python | efficiency, Python | samples/s, here | efficiency, here | exchange | by |",
            "|---|--:|--:|--:|--:|--:|--:|--:|---|",
        ]
        python = {(one["model"], one["replicas"]): one["throughput"] for one in found["ranks"]}
        for one in found["scaling"]:
            alone = next((other["throughput"] for other in found["scaling"] if other["model"] == one["model"] and other["replicas"] == 1), None)
            rate = one["throughput"]
            count = one["replicas"]
            theirs, first = python.get((one["model"], count)), python.get((one["model"], 1))
            shown = f"{theirs:,.1f} | {theirs / first / count * 100:.1f} %" if theirs and first else " | "
            if not rate:
                lines.append(f"| {one['model']} | {count} | {one['batch']} | {shown} | {one['failed'] or 'no throughput'} | | | |")
                continue
            efficiency = f"{rate / alone / count * 100:.1f} %" if alone else ""
            exchange = "" if one["exchange"] is None else f"{one['exchange']:.1f} %"
            lines.append(
                f"| {one['model']} | {count} | {one['batch']} | {shown} | {rate:,.1f} | {efficiency} | {exchange} | {one['by'] or ''} |"
            )
    if found["graphs"]:
        lines += [
            "", "## Graphs of CUDA", "", "Inference at batch 1: medians, without and with `cuda-graphs`.", "",
            "| model | precision | Python | Python, graph | here | here, graph |", "|---|---|--:|--:|--:|--:|",
        ]
        def cell(side, model, precision, graphs):
            for one in found["graphs"]:
                if [one["side"], one["model"], one["precision"], one["graphs"]] == [side, model, precision, graphs]:
                    return one.get("failed") or f"{one['median_ns'] / 1e6:.3f} ms"
            return ""
        for model in ["resnet50", "bert"]:
            for precision in ["fp32", "bf16"]:
                cells = [cell(side, model, precision, graphs) for side in ["python", "here"] for graphs in ["false", "true"]]
                lines.append(f"| {model} | {precision} | " + " | ".join(cells) + " |")
    text = "\n".join(lines) + "\n"
    output = Path(arguments.output)
    (output / "proof.md").write_text(text)
    (output / "proof.json").write_text(json.dumps(found, indent=1))
    return text


def of_phases(arguments, tool, sizes, device, found, left, said):
    """Measures training with marks."""
    casts = ["none", "bf16"] if "bf16" in sizes.precisions else ["none"]
    for model in ["resnet50", "bert"]:
        text = manifest(sizes, device, f"{model}-phases", model, "training", ["fp32"], casts, [sizes.batch[model]], "each")
        for case in tool.run(f"{model}-phases", text, left() + 60):
            kind = f"{model} {case['record']['key']['backend']}"
            values = case["values"]
            shown = {"failed": failure(case)} if failure(case) else {
                key.removeprefix("training.share."): f"{value:.1f} %"
                for key, value in values.items() if key.startswith("training.share.")
            }
            for key in ["training.explained", "training.cost-of-looking"]:
                if key in values:
                    shown[key.removeprefix("training.")] = f"{values[key]:.2f} %"
            memory = find(case["record"], "phase-memory") or {}
            for phase in memory.get("Ok", []):
                shown[f"peak in {phase['phase']}"] = f"{mebibytes(phase['peak-bytes'])} MiB"
            found["phases"][kind] = shown
        said(f"phases of {model}")


def of_sweep(arguments, tool, sizes, device, found, left, said):
    """Measures larger and larger batches."""
    for model in ["resnet50", "bert"]:
        if left() < 60:
            said("no time for more of the sweep")
            break
        text = manifest(sizes, device, f"{model}-sweep", model, "training", ["fp32"], ["none"], sizes.sweep[model], "none", 3)
        for case in tool.run(f"{model}-sweep", text, left() + 60):
            reason = failure(case)
            one = {"model": model, "batch": case["record"]["key"]["batch"], "result": reason or "measured"}
            if not reason:
                one["median_ns"] = median(case)
                one["peak_bytes"] = find(find(case["record"], "allocator"), "peak-bytes")
            found["sweep"].append(one)
        said(f"sweep of {model}")


def of_scaling(arguments, tool, sizes, device, found, left, said):
    """Measures several devices together."""
    import torch

    there = torch.cuda.device_count() if arguments.device.startswith("cuda") else 4
    casts = ["none", "bf16"] if "bf16" in sizes.precisions else ["none"]
    for model in ["resnet50", "bert"]:
        for replicas in [one for one in [1, 2, 4, 8] if one <= there]:
            batch = [sizes.batch[model] * replicas]
            text = manifest(sizes, device, f"{model}-{replicas}", model, "training", ["fp32"], casts, batch, "each", None, replicas)
            for case in tool.run(f"{model}-{replicas}", text, left() + 60):
                one = {"model": f"{model}, {case['record']['key']['backend']}", "replicas": replicas, "batch": batch[0]}
                one["failed"] = failure(case)
                one["throughput"] = case["values"].get("training.throughput")
                one["exchange"] = case["values"].get("training.share.exchange")
                used = find(case["record"], "used")
                one["by"] = dict(used).get("exchange") if isinstance(used, (list, dict)) and used else None
                found["scaling"].append(one)
            said(f"{replicas} replicas of {model}")
    for world in [one for one in [1, 2, 4, 8] if one <= there]:
        found["ranks"] += ranks(arguments, world, left() + 60)
        said(f"{world} ranks in Python")


def of_graphs(arguments, tool, sizes, device, found, left, said):
    """Measures inference at batch 1 with and without graphs of CUDA."""
    for model in ["resnet50", "bert"]:
        for graphs in ["false", "true"]:
            more = f', cuda-graphs = "{graphs}"'
            text = manifest(sizes, device, f"{model}-graphs", model, "inference", ["fp32", "bf16"], ["none"], [1], "none", more=more)
            for case in tool.run(f"{model}-graphs-{graphs}", text, left() + 60):
                one = {"side": "here", "model": model, "precision": case["record"]["key"]["precision"], "graphs": graphs}
                reason = failure(case)
                found["graphs"].append(one | ({"failed": reason} if reason else {"median_ns": median(case)}))
            said(f"graphs {graphs} of {model}")
    if not arguments.device.startswith("cuda"):
        return
    for one in child(arguments, left() + 60, "--graphs"):
        found["graphs"].append({"side": "python"} | one)
    said("graphs in Python")


def in_turns(arguments, tool, sizes, device, found, left, said):
    """Measures here and in Python until the time is up."""
    longest = 0.0
    while not found["rounds"] or left() > longest * 1.1:
        begun, number = time.monotonic(), len(found["rounds"])
        if number % 2 == 0:
            here = ours(tool, sizes, device, lambda: left() + 60)
            python = theirs(arguments, left() + 60)
        else:
            python = theirs(arguments, left() + 60)
            here = ours(tool, sizes, device, lambda: left() + 60)
        found["rounds"].append({"ours": here, "theirs": python})
        longest = max(longest, time.monotonic() - begun)
        said(f"round {number + 1}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", nargs="?")
    parser.add_argument("output", nargs="?")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--deadline", type=float, default=440, help="seconds after which nothing new begins")
    parser.add_argument("--parts", default="phases,sweep,paired")
    parser.add_argument("--size", default="full", choices=["small", "medium", "full"])
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--child", action="store_true")
    parser.add_argument("--graphs", action="store_true")
    parser.add_argument("--world", type=int, default=0)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--meeting")
    arguments = parser.parse_args()
    if arguments.child:
        return (rank_child if arguments.world else graphs_child if arguments.graphs else theirs_child)(arguments)
    import torch

    sizes, parts = sizes_of(arguments), arguments.parts.split(",")
    Path(arguments.output).mkdir(parents=True, exist_ok=True)
    tool = Tool(arguments.tool, arguments.output)
    device = arguments.device if arguments.device != "cpu" else "cpu:0"
    name = torch.cuda.get_device_name(0) if arguments.device.startswith("cuda") else "processor"
    python = f"PyTorch {torch.__version__}, Python {sys.version.split()[0]}"
    found = {"python": python, "rounds": [], "phases": {}, "sweep": [], "scaling": [], "ranks": [], "graphs": []}

    def left():
        return arguments.deadline - (time.monotonic() - START)

    def said(what):
        print(f"{time.monotonic() - START:6.1f} s: {what}", flush=True)
        report(arguments, sizes, name, found)

    measures = {"phases": of_phases, "sweep": of_sweep, "scaling": of_scaling, "graphs": of_graphs, "paired": in_turns}
    for part in parts:
        try:
            measures[part](arguments, tool, sizes, device, found, left, said)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            # What was measured before is kept, and the next part may do better.
            said(f"{part}: {error}")
    print(report(arguments, sizes, name, found))
    # In one file, which is easier to bring back.
    runs = Path(arguments.output) / "runs"
    runs.mkdir(exist_ok=True)
    shutil.make_archive(str(runs), "gztar", runs)
    shutil.rmtree(runs)


if __name__ == "__main__":
    main()
