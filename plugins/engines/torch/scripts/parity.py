"""Compares exported models here with ONNX Runtime, and their inference with PyTorch's in Python.

    parity.py TOOL OUTPUT [--models resnet50,bert_base] [--rounds 6] [--seconds 2] [--threads 1] [--parts parity,paired]

TOOL is a folder with the programs `host` and `host-worker`, their libraries, and `plugins/` with the engine. Models are those
of `torchvision` and `transformers` with drawn weights, as `host/architectures/tests/references.py` names them, exported to
ONNX at batch 1. Needs `torch` 2.11.0, `torchvision`, `transformers`, `onnx` and `onnxruntime`. OUTPUT gets the models,
`parity.json` and `parity.md`.

parity   the outputs of the backend `torch` beside those of ONNX Runtime, by the tool's own check before it measures.
paired   the median latency here and in Python (`torch.inference_mode`, the same threads), in turns, in processes of their
         own. The side that goes first changes from round to round.

`llama` is a decoder of this form with 8 layers of width 512; all others are as large as published.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "host" / "architectures" / "tests"))

MODELS = [
    "resnet50", "mobilenet_v3_large", "efficientnet_b0", "vit_b_16", "bert_base", "gpt2", "llama", "t5_small",
    "clip_vit_b32", "whisper_tiny", "detr_resnet50",
]
WARM_UP = 1.0

MANIFEST = """
schema = 1
experiment = {{ name = "parity", seed = 7 }}
[[model]]
id = "{model}"
path = "{path}"
[[backend]]
id = "torch"
version = "^0.1"
device = "cpu:0"
threads = {threads}
{reference}
[matrix]
scenario = ["single-stream"]
[measure]
warm-up = "{warm_up}ms"
duration = "{duration}ms"
minimum-queries = {queries}
timeout = "300s"
[[metric]]
plugin = "latency"
[[report]]
plugin = "csv"
"""

REFERENCE = """
[[backend]]
id = "onnxruntime"
plugin = "cpu"
version = "^0.1"
device = "cpu:0"
threads = {threads}
options = {{ engine = "onnxruntime" }}
"""


def network_of(name):
    """Returns a model with drawn weights, how it is called, and the shapes of its inputs at batch 1."""
    import torch
    import transformers
    from references import REFERENCES

    torch.manual_seed(7)
    if name == "llama":
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=32000, hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8,
            num_key_value_heads=4, max_position_embeddings=2048))
        shapes = {"input_ids": (1, 48)}
    else:
        model, run, shapes = REFERENCES[name]()
    if name in ["gpt2", "llama"]:
        # Without a mask, `transformers` looks for several texts in a row, by an operator that is not exported.
        def run(model, feeds):
            ids = feeds["input_ids"]
            return [model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits]
    if name == "whisper_tiny":
        def run(model, feeds):
            ids = feeds["decoder_input_ids"]
            return [model(**feeds, decoder_attention_mask=torch.ones_like(ids)).logits]
    if hasattr(model, "config"):
        model.config.use_cache = False
    if name == "vit_b_16":
        # The library begins with zeros here, and then all outputs are zero.
        torch.nn.init.normal_(model.heads.head.weight, std=0.02)
    norms = [one for one in model.modules() if isinstance(one, torch.nn.BatchNorm2d)]
    if norms:
        # With the statistics that a new model has, values vanish from layer to layer. These are those of a batch.
        for norm in norms:
            norm.momentum = 1.0
        with torch.no_grad():
            run(model.train(), {key: value.repeat(8, 1, 1, 1) + torch.rand(8, *value.shape[1:]) for key, value in feeds_of(
                {key: (1, *shape[1:]) for key, shape in shapes.items()}).items()})
    return model.eval(), run, {key: (1, *shape[1:]) for key, shape in shapes.items()}


def feeds_of(shapes, vocabulary=1000):
    import torch

    random = torch.Generator().manual_seed(7)
    feeds = {}
    for name, shape in shapes.items():
        if name.endswith("mask"):
            feeds[name] = torch.ones(shape, dtype=torch.int64)
        elif name.endswith("ids"):
            most = 2 if name == "token_type_ids" else vocabulary
            feeds[name] = torch.randint(0, most, shape, generator=random)
        else:
            feeds[name] = torch.rand(shape, generator=random)
    return feeds


def export(name, path):
    import torch

    model, run, shapes = network_of(name)
    names = list(shapes)

    class Called(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *inputs):
            return tuple(run(self.model, dict(zip(names, inputs))))

    feeds = feeds_of(shapes)
    torch.onnx.export(
        Called().eval(), tuple(feeds.values()), str(path), input_names=names, opset_version=17, dynamo=False,
    )


def python_side(name, seconds, threads):
    """Prints the median latency in nanoseconds."""
    import torch

    torch.set_num_threads(threads)
    model, run, shapes = network_of(name)
    feeds = feeds_of(shapes)

    def query():
        with torch.inference_mode():
            run(model, feeds)

    begun = time.perf_counter()
    while time.perf_counter() - begun < WARM_UP:
        query()
    times, begun = [], time.perf_counter()
    while time.perf_counter() - begun < seconds or len(times) < 12:
        before = time.perf_counter_ns()
        query()
        times.append(time.perf_counter_ns() - before)
    print(statistics.median(times))


def child(*words, threads):
    line = [sys.executable, __file__, "--child", *map(str, words), "--threads", str(threads)]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it ended")
    return done.stdout


class Tool:
    def __init__(self, folder):
        import onnxruntime
        import torch

        self.host = str(Path(folder).resolve() / "host")
        home = tempfile.mkdtemp(prefix="tare-home-")
        self.environment = dict(os.environ) | {
            "HOME": home, "XDG_CACHE_HOME": f"{home}/cache", "XDG_DATA_HOME": f"{home}/data",
            "XDG_CONFIG_HOME": f"{home}/config", "TARE_RUNTIME_TORCH": str(Path(torch.__file__).parent),
            "TARE_RUNTIME_CPU": str(Path(onnxruntime.__file__).parent / "capi"),
            "LD_LIBRARY_PATH": f"{Path(folder).resolve()}:{os.environ.get('LD_LIBRARY_PATH', '')}",
        }

    def run(self, text):
        """Returns the journal's cases by backend, each with its values."""
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (folder / "it.toml").write_text(text)
            line = [self.host, "run", "it.toml", "--results", "results"]
            done = subprocess.run(line, cwd=folder, env=self.environment, capture_output=True, text=True)
            runs = list((folder / "results" / "runs").glob("*")) if (folder / "results").exists() else []
            if not runs:
                raise RuntimeError(done.stderr[-2000:])
            cases, names = {}, {}
            for line in (runs[0] / "journal.jsonl").read_text().splitlines():
                record = json.loads(line)
                names[record["case-id"]] = record["key"]["backend"]
                cases[record["key"]["backend"]] = {"record": record, "values": {}}
            results = runs[0] / "results.jsonl"
            for line in results.read_text().splitlines() if results.exists() else []:
                record = json.loads(line)
                for value in record["values"]:
                    if "Ok" in value["value"]:
                        cases[names[record["case-id"]]]["values"][value["metric"]] = value["value"]["Ok"]
            return cases


def find(value, name):
    """Returns the first value of this name, at any depth."""
    if isinstance(value, dict):
        if name in value:
            return value[name]
        value = list(value.values())
    for one in value if isinstance(value, list) else []:
        found = find(one, name)
        if found is not None:
            return found
    return None


def manifest(name, path, threads, seconds, queries, reference):
    return MANIFEST.format(
        model=name, path=path, threads=threads, queries=queries, duration=int(seconds * 1000),
        warm_up=int(WARM_UP * 1000) if not reference else 1,
        reference=REFERENCE.format(threads=threads) + '[check]\nreference = "onnxruntime"' if reference else "",
    )


def compared(tool, name, path, threads):
    """Returns what the tool found of the outputs."""
    cases = tool.run(manifest(name, path, threads, 0.01, 3, True))
    record = cases["torch"]["record"]
    parity = find(record, "parity")
    if not isinstance(parity, dict) or "outputs" not in parity:
        return {"failed": " ".join(json.dumps(find(record, "outcome") or parity).split())[:400]}
    outputs = parity["outputs"]
    return {
        "outputs": len(outputs), "values": sum(one["values"] for one in outputs),
        "beyond": sum(one["beyond"] for one in outputs),
        "absolute": max(one["max-absolute-error"] for one in outputs),
        "scale": [one["scale"] for one in outputs], "cosine": min(one["cosine"] or 1 for one in outputs),
    }


def interval(values):
    """Returns the narrowest interval of ranks that holds the median with 95 % or more, if there is one."""
    values, count = sorted(values), len(values)
    for low in range(count // 2, 0, -1):
        tail = sum(math.comb(count, below) for below in range(low)) / 2**count
        if 1 - 2 * tail >= 0.95:
            return values[low - 1], values[count - low]
    return None


def report(found):
    lines = [
        "| model | outputs | values | beyond the tolerance | largest error | mean size | cosine |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, one in found["parity"].items():
        if "failed" in one:
            lines.append(f"| {name} | {one['failed']} | | | | | |")
            continue
        scale = " / ".join(f"{value:.2g}" for value in one["scale"])
        lines.append(
            f"| {name} | {one['outputs']} | {one['values']:,} | {one['beyond']} | {one['absolute']:.1e} | {scale} | {one['cosine']:.9f} |"
        )
    lines += ["", "| model | Python | here | difference | interval | rounds |", "|---|--:|--:|--:|---|--:|"]
    for name, rounds in found["paired"].items():
        if not rounds:
            continue
        ratios = [(ours / theirs - 1) * 100 for ours, theirs in rounds]
        here, python = (statistics.median(side) / 1e6 for side in zip(*rounds))
        bounds = interval(ratios)
        shown = f"{bounds[0]:+.1f} to {bounds[1]:+.1f} %" if bounds else f"all rounds: {min(ratios):+.1f} to {max(ratios):+.1f} %"
        lines.append(f"| {name} | {python:.2f} ms | {here:.2f} ms | {statistics.median(ratios):+.1f} % | {shown} | {len(rounds)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", nargs="?")
    parser.add_argument("output", nargs="?")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--parts", default="parity,paired")
    parser.add_argument("--child", nargs="+")
    arguments = parser.parse_args()
    if arguments.child:
        what, name, last = arguments.child
        return export(name, last) if what == "export" else python_side(name, float(last), arguments.threads)
    output = Path(arguments.output).resolve()
    (output / "models").mkdir(parents=True, exist_ok=True)
    tool, models, parts = Tool(arguments.tool), arguments.models.split(","), arguments.parts.split(",")
    kept = output / "parity.json"
    found = json.loads(kept.read_text()) if kept.exists() else {"parity": {}, "paired": {}}

    def said(what):
        kept.write_text(json.dumps(found, indent=1))
        (output / "parity.md").write_text(report(found))
        print(what, file=sys.stderr, flush=True)

    paths = {}
    for name in models:
        paths[name] = output / "models" / f"{name}.onnx"
        try:
            if not paths[name].exists():
                child("export", name, paths[name], threads=2)
            if "parity" in parts and name not in found["parity"]:
                found["parity"][name] = compared(tool, name, paths[name], arguments.threads)
            said(f"{name}: {found['parity'].get(name)}")
        except RuntimeError as error:
            found["parity"][name] = {"failed": str(error)[:400]}
            said(f"{name}: {error}")
    good = [name for name in models if "failed" not in found["parity"].get(name, {})]
    for number in range(arguments.rounds if "paired" in parts else 0):
        for name in good:
            sides = {
                "ours": lambda: tool.run(manifest(name, paths[name], arguments.threads, arguments.seconds, 12, False))["torch"]["values"]["latency.p50"],
                "theirs": lambda: float(child("python", name, arguments.seconds, threads=arguments.threads)),
            }
            order = ["ours", "theirs"] if number % 2 == 0 else ["theirs", "ours"]
            measured = {side: sides[side]() for side in order}
            found["paired"].setdefault(name, []).append((measured["ours"], measured["theirs"]))
        said(f"round {number + 1}, load {os.getloadavg()[0]:.1f}")
    print(report(found))


if __name__ == "__main__":
    main()
