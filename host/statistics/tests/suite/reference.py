"""Makes reference.json: values of NumPy and SciPy that the tests compare with.

    python3 -m venv venv && venv/bin/pip install numpy==2.4.6 scipy==1.17.1 mpmath==1.3.0
    venv/bin/python host/statistics/tests/suite/reference.py > host/statistics/tests/suite/reference.json
"""

import json
import sys
from fractions import Fraction

import mpmath
import numpy
import scipy
from scipy import special, stats

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


def distributions():
    beta = [
        (x, a, b)
        for a, b in [(0.5, 0.5), (1, 3), (20, 0.5), (0.5, 20), (63, 2), (661, 2), (1e5, 30), (3e6, 0.5)]
        for x in [1e-9, 0.01, 0.3, 0.5, 0.9, 0.99, 0.9999]
    ]
    probabilities = [1e-12, 1e-5, 0.005, 0.025, 0.3, 0.5, 0.75, 0.975, 0.995, 0.9999]
    return {
        "incomplete_beta": [[x, a, b, special.betainc(a, b, x)] for x, a, b in beta],
        "normal_tail": [[z, stats.norm.sf(z)] for z in [-9, -3, -0.5, 0, 1e-9, 0.7, 1.9, 2.1, 4, 8, 30]],
        "normal_quantile": [[p, special.ndtri(p)] for p in probabilities],
        "student_quantile": [
            [p, degrees, float(mpmath_student_quantile(p, degrees))]
            for p in probabilities
            for degrees in [1, 2, 3.7, 9, 30, 333.3, 1e6]
        ],
    }


def mpmath_student_quantile(p, degrees):
    """SciPy's value, polished to 40 digits: some of its own are only good to 1e-11."""
    start = stats.t.ppf(p, degrees)
    if p == 0.5:
        return 0.0
    half = mpmath.mpf(degrees) / 2

    def excess(deviate):
        x = degrees / (degrees + deviate**2)
        tail = mpmath.betainc(half, 0.5, 0, x, regularized=True) / 2
        return tail - (p if p < 0.5 else 1 - mpmath.mpf(p))

    return mpmath.sign(start) * mpmath.findroot(excess, abs(start))


def series():
    random = numpy.random.default_rng(21)
    noise = random.normal(0, 1, 400)
    correlated = numpy.zeros(400)
    for index in range(1, 400):
        correlated[index] = 0.6 * correlated[index - 1] + noise[index]
    yield "independent", noise
    yield "correlated", 1000 + correlated
    yield "alternating", numpy.tile([1.0, 2.0, 4.0], 11)


def autocorrelation(name, values, lags=20):
    deviations = values - values.mean()
    products = numpy.correlate(deviations, deviations, "full")[len(values) - 1 :]
    return {"name": name, "values": list(values), "expected": list(products[: lags + 1] / products[0])}


def outliers(name, values):
    quartiles = numpy.quantile(values, [0.25, 0.75], method="inverted_cdf").astype(float)
    reach = quartiles[1] - quartiles[0]
    floats = values.astype(float)
    below, above = quartiles[0] - floats, floats - quartiles[1]
    deviation = stats.median_abs_deviation(floats)
    scores = 0.6745 * numpy.abs(floats - numpy.median(floats)) / deviation if deviation else None
    return {
        "name": name,
        "severe_low": int((below > 3 * reach).sum()),
        "mild_low": int(((below > 1.5 * reach) & (below <= 3 * reach)).sum()),
        "mild_high": int(((above > 1.5 * reach) & (above <= 3 * reach)).sum()),
        "severe_high": int((above > 3 * reach).sum()),
        "by_deviation": None if scores is None else [int(i) for i in numpy.flatnonzero(scores > 3.5)],
    }


def mann_whitney():
    random = numpy.random.default_rng(22)
    pairs = [
        ([1.0], [2.0]),
        ([3.0, 1.0], [2.0, 4.0, 5.0]),
        (random.normal(0, 1, 8), random.normal(1, 1, 30)),
        (random.normal(3, 1, 8), random.normal(0, 1, 8)),
        (random.normal(0, 1, 500), random.normal(0, 1, 3)),
        (random.normal(0, 1, 9), random.normal(0.5, 1, 9)),
        (random.normal(0, 1, 200), random.normal(0.2, 2, 300)),
        (random.integers(0, 5, 40).astype(float), random.integers(1, 6, 60).astype(float)),
        ([1.0, 2.0, 2.0], [2.0, 3.0]),
        ([7.0, 7.0], [7.0, 7.0, 7.0]),
    ]
    for first, second in pairs:
        found = stats.mannwhitneyu(first, second)
        tied = len({*first, *second}) < len(first) + len(second)
        exact = min(len(first), len(second)) <= 8 and not tied
        yield {
            "first": list(first),
            "second": list(second),
            "statistic": float(found.statistic),
            "probability": float(found.pvalue),
            "exact": exact,
        }


class Random:
    """xoshiro256++ seeded by SplitMix64, as random.rs has it: the same resamples."""

    WORD = 2**64 - 1

    def __init__(self, seed):
        self.state = []
        for step in range(1, 5):
            word = (seed + step * 0x9E3779B97F4A7C15) & self.WORD
            word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & self.WORD
            word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & self.WORD
            self.state.append(word ^ (word >> 31))

    def rotate(self, word, by):
        return ((word << by) | (word >> (64 - by))) & self.WORD

    def bits(self):
        a, b, c, d = self.state
        bits = (self.rotate((a + d) & self.WORD, 23) + a) & self.WORD
        c ^= a
        d ^= b
        self.state = [a ^ d, b ^ c, c ^ ((b << 17) & self.WORD), self.rotate(d, 45)]
        return bits

    def below(self, bound):
        while True:
            product = self.bits() * bound
            if product & self.WORD >= 2**64 % bound:
                return product >> 64


def bootstrap(name, values, statistic, confidence, resamples=1000, seed=5):
    """Intervals by SciPy's formulas from the very resamples that the crate draws."""
    random = Random(seed)
    values = numpy.array(values)
    indices = [[random.below(len(values)) for _ in values] for _ in range(resamples)]
    drawn = numpy.array([statistic(values[row]) for row in indices])
    tail = (1 - confidence) / 2

    def percentiles(probabilities):
        return [float(one) for one in numpy.quantile(drawn, probabilities, method="inverted_cdf")]

    # scipy.stats._resampling, _bca_interval and _percentile_of_score.
    estimate = statistic(values)
    bias = special.ndtri(((drawn < estimate).sum() + (drawn <= estimate).sum()) / (2 * resamples))
    without = numpy.array([statistic(numpy.delete(values, index)) for index in range(len(values))])
    distances = without.mean() - without
    acceleration = (distances**3).sum() / (6 * (distances**2).sum() ** 1.5)
    deviates = bias + special.ndtri([tail, 1 - tail])
    corrected = special.ndtr(bias + deviates / (1 - acceleration * deviates))
    return {
        "statistic": name,
        "values": list(values),
        "confidence": confidence,
        "resamples": resamples,
        "seed": seed,
        "percentile": percentiles([tail, 1 - tail]),
        "bias": float(bias),
        "acceleration": float(acceleration),
        "bca": percentiles(corrected),
    }


def bootstraps():
    values = numpy.random.default_rng(23).lognormal(3, 0.8, 25)
    mean = lambda sample: float(numpy.mean(sample))
    deviation = lambda sample: float(numpy.std(sample, ddof=1))
    for confidence in [0.9, 0.95]:
        yield bootstrap("mean", values, mean, confidence)
        yield bootstrap("deviation", values, deviation, confidence)


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
        "distributions": distributions(),
        "series": [autocorrelation(name, values) for name, values in series()],
        "outliers": [outliers(name, values) for name, values in samples()],
        "mann_whitney": list(mann_whitney()),
        "bootstrap": list(bootstraps()),
    },
    sys.stdout,
    separators=(",", ":"),
)
print()
