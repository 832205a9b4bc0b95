"""Tare measures machine-learning models on hardware, and says how sure it is.

    import tare

    run = tare.bench("resnet50", backend="cpu", batch=[1, 8], progress=True)
    frame = run.results.to_pandas()

Nothing is printed unless it is asked for with `progress=True`.
"""

try:
    from . import _tare
except ImportError as error:
    raise ImportError(
        f"the compiled part of `tare` cannot be loaded: {error}\n"
        "  help: reinstall the package: `pip install --force-reinstall` with its wheel for this system",
        name=error.name,
        path=error.path,
    ) from error

from ._errors import (
    CasesFailed,
    Error,
    Interrupted,
    ManifestError,
    NothingToRun,
    Place,
    PluginError,
    Problem,
    ResultsError,
    UsageError,
)
from ._experiment import Experiment, Plan, bench
from ._metrics import metric
from ._run import Comparison, Report, Results, Run, compare, results
from ._table import Table

__version__ = _tare.__version__

__all__ = [
    "CasesFailed",
    "Comparison",
    "Error",
    "Experiment",
    "Interrupted",
    "ManifestError",
    "NothingToRun",
    "Place",
    "Plan",
    "PluginError",
    "Problem",
    "Report",
    "Results",
    "ResultsError",
    "Run",
    "Table",
    "UsageError",
    "__version__",
    "bench",
    "compare",
    "metric",
    "results",
]
