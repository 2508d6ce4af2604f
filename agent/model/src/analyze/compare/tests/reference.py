"""Statistics that `compare` is held against, by other means than its own.

    python reference.py > reference.json

Run-level values of two platforms, drawn with a seed, from three to twelve runs a side, with equal and unequal spread; what
scipy says of their logarithms (Welch, its interval, two one-sided tests, the exact permutation test), statsmodels of the
family of probabilities (Holm), numpy of shifts and quantiles. Made with numpy 2.4.6, scipy 1.17.1, statsmodels 0.15.0.
"""

import json

import numpy as np
from scipy import stats
from statsmodels.stats.multitest import multipletests

random = np.random.default_rng(2026)
MARGIN = 0.02


def case(first, second, ratio, spread_first, spread_second):
    a = 5e7 * np.exp(random.normal(0, spread_first, first))
    b = 5e7 * ratio * np.exp(random.normal(0, spread_second, second))
    la, lb = np.log(a), np.log(b)
    welch = stats.ttest_ind(lb, la, equal_var=False)
    interval = welch.confidence_interval(0.95)
    low = stats.ttest_ind(lb + np.log1p(MARGIN), la, equal_var=False, alternative="greater")
    high = stats.ttest_ind(lb - np.log1p(MARGIN), la, equal_var=False, alternative="less")
    permutation = stats.permutation_test(
        (la, lb), lambda x, y: abs(np.mean(y) - np.mean(x)), alternative="greater", n_resamples=np.inf
    )
    return {
        "baseline": a.tolist(),
        "values": b.tolist(),
        "ratio": float(np.exp(lb.mean() - la.mean())),
        "low": float(np.exp(interval.low)),
        "high": float(np.exp(interval.high)),
        "p": float(welch.pvalue),
        "p_not_equivalent": float(max(low.pvalue, high.pvalue)),
        "p_permutation": float(permutation.pvalue),
        "shift": float(np.median(np.subtract.outer(b, a))),
    }


cases = [
    case(3, 3, 1.0, 0.01, 0.01),
    case(5, 5, 1.0, 0.02, 0.02),
    case(5, 7, 1.05, 0.02, 0.06),
    case(10, 10, 1.0, 0.002, 0.002),
    case(10, 10, 1.015, 0.005, 0.001),
    case(10, 6, 0.9, 0.03, 0.01),
    case(9, 9, 1.4, 0.05, 0.05),
    case(8, 8, 1.0, 0.3, 0.01),
]
latencies = sorted(int(x) for x in random.lognormal(17, 0.4, 137))
t = [(0.001, 1.0), (0.5, 1.7), (2.2281, 10.0), (4.0, 18.3), (12.0, 4.0), (40.0, 9.9), (1e-7, 3.3)]
print(
    json.dumps(
        {
            "margin": MARGIN,
            "cases": cases,
            "holm": multipletests([case["p"] for case in cases], method="holm")[1].tolist(),
            "t": [{"t": x, "df": df, "p": float(2 * stats.t.sf(x, df))} for x, df in t],
            "critical": [
                {"p": p, "df": df, "t": float(stats.t.isf(p / 2, df))}
                for p, df in [(0.05, 1.0), (0.05, 4.2), (0.1, 8.0), (0.05, 18.0), (0.01, 30.5), (1e-6, 9.0)]
            ],
            "latencies": latencies,
            "quantiles": [{"q": q, "value": float(np.quantile(latencies, q))} for q in [0.0, 0.5, 0.9, 0.99, 0.999, 1.0]],
        },
        indent=1,
    )
)
