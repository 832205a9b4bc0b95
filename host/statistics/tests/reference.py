"""Makes reference.json: values of NumPy and SciPy that the tests compare with.

    python3 -m venv venv && venv/bin/pip install numpy==2.4.6 scipy==1.17.1
    venv/bin/python host/statistics/tests/reference.py > host/statistics/tests/reference.json
"""

import json
import sys
from fractions import Fraction

import numpy
import scipy
from scipy import stats

PERCENTILES = [(1, 2), (9, 10), (95, 100), (99, 100), (999, 1000), (1, 100)]


def samples():
    random = numpy.random.default_rng(20)
    yield "lognormal", numpy.rint(random.lognormal(12.0, 0.4, 5000)).astype(numpy.uint64)
    yield "one value", numpy.array([41], dtype=numpy.uint64)
    yield "even", numpy.array([4, 1, 3, 2], dtype=numpy.uint64)
    yield "ties", random.integers(100, 104, 1000).astype(numpy.uint64)
    outlier = random.integers(1_000_000, 1_010_000, 999).astype(numpy.uint64)
    yield "outlier", numpy.append(outlier, numpy.uint64(9_000_000_000_000))
    yield "far from zero", random.integers(0, 1000, 2000).astype(numpy.uint64) + 2**52


def describe(name, values):
    # Exact arithmetic where floating point would be the thing under test.
    exact = [Fraction(int(value)) for value in values]
    mean = sum(exact) / len(exact)
    deviation = None
    if len(exact) > 1:
        variance = sum((value - mean) ** 2 for value in exact) / (len(exact) - 1)
        deviation = float(numpy.sqrt(float(variance)))
    return {
        "name": name,
        "values": [int(value) for value in values],
        "quantiles": [
            {
                "quantile": [numerator, denominator],
                "value": int(numpy.quantile(values, numerator / denominator, method="inverted_cdf")),
            }
            for numerator, denominator in PERCENTILES
        ],
        "mean": float(mean),
        "deviation": deviation,
        "median": float(numpy.median(values.astype(numpy.float64))),
        "median_absolute_deviation": float(stats.median_abs_deviation(values.astype(numpy.float64))),
    }


def interval(count, numerator, denominator, confidence):
    """Ranks of the two-sided interval by the binomial quantile function."""
    probability = numerator / denominator
    tail = (1 - confidence) / 2
    binomial = stats.binom(count, probability)
    # The largest l with P(B <= l - 1) <= tail, the smallest u with P(B >= u) <= tail.
    low = int(binomial.ppf(tail))
    while binomial.cdf(low - 1) > tail:
        low -= 1
    while binomial.cdf(low) <= tail:
        low += 1
    high = int(binomial.isf(tail))
    while binomial.sf(high - 1) > tail:
        high += 1
    while high > 0 and binomial.sf(high - 2) <= tail:
        high -= 1
    ranks = [low, high] if low >= 1 and high <= count else None
    return {
        "count": count,
        "quantile": [numerator, denominator],
        "confidence": confidence,
        "ranks": ranks,
    }


def wilson(successes, trials):
    found = stats.binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    return {"successes": successes, "trials": trials, "interval": [found.low, found.high]}


json.dump(
    {
        "made_by": f"NumPy {numpy.__version__}, SciPy {scipy.__version__}",
        "samples": [describe(name, values) for name, values in samples()],
        "intervals": [
            interval(count, numerator, denominator, confidence)
            for numerator, denominator in PERCENTILES
            for count in [1, 5, 6, 35, 36, 71, 72, 100, 367, 368, 1000, 3687, 3688, 10**5, 10**7]
            for confidence in [0.9, 0.95, 0.99]
        ],
        "wilson": [wilson(*pair) for pair in [(0, 10), (10, 10), (1, 1), (7, 10), (353, 360), (5, 10**6)]],
    },
    sys.stdout,
    separators=(",", ":"),
)
print()
