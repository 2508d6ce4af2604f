"""The coefficients that `guestscope-workloads h2o glm` is held against, by other means than its own.

    guestscope-workloads h2o generate --rows 3000 --seed 7 flights.csv
    python glm_reference.py flights.csv 1e-4 > glm_reference_l2.json
    guestscope-workloads h2o generate --rows 12000 --seed 7 flights.csv
    python glm_reference.py flights.csv 0 > glm_reference.json

Without a penalty statsmodels fits it; with one scipy minimises the penalised deviance (trust-exact, which
knows nothing of weights and working responses). Made with numpy 2.4.6, pandas 3.1.1, scipy 1.17.1,
statsmodels 0.15.0.
"""

import json
import sys

import numpy as np
import pandas as pd
import scipy.optimize
import statsmodels.api as sm

path, l2 = sys.argv[1], float(sys.argv[2])
flights = pd.read_csv(path, keep_default_na=False, na_values=["NA"])
flights = flights[flights["DepDelay"].notna()]
late = (flights["DepDelay"] > 0).to_numpy(float)
flights["CRSDepTime"] = flights["CRSDepTime"] // 100 * 60 + flights["CRSDepTime"] % 100
quantities = flights[["Year", "CRSDepTime", "Distance"]].astype(float)
quantities = (quantities - quantities.mean()) / quantities.std(ddof=0)
levels = ["Month", "DayofMonth", "DayOfWeek", "UniqueCarrier", "Origin", "Dest"]
dummies = pd.get_dummies(flights[levels], columns=levels, prefix_sep=".", drop_first=True, dtype=float)
design = pd.concat([quantities, dummies], axis=1)
design.insert(0, "Intercept", 1.0)
x = design.to_numpy()


def objective(beta):
    eta = x @ beta
    deviance = 2 * np.sum(np.logaddexp(0, eta) - late * eta)
    return deviance + l2 * len(late) * np.sum(beta[1:] ** 2)


def gradient(beta):
    penalty = 2 * l2 * len(late) * beta
    penalty[0] = 0
    return 2 * x.T @ (1 / (1 + np.exp(-x @ beta)) - late) + penalty


def hessian(beta):
    mean = 1 / (1 + np.exp(-x @ beta))
    penalty = np.full(len(beta), 2 * l2 * len(late))
    penalty[0] = 0
    return 2 * (x * (mean * (1 - mean))[:, None]).T @ x + np.diag(penalty)


if l2 == 0:
    beta = sm.GLM(late, x, family=sm.families.Binomial()).fit(tol=1e-14, maxiter=100).params
else:
    start = np.zeros(x.shape[1])
    found = scipy.optimize.minimize(
        objective, start, method="trust-exact", jac=gradient, hess=hessian, options={"gtol": 1e-10, "maxiter": 500}
    )
    beta = found.x
print(f"{len(late)} flights, largest gradient {np.abs(gradient(beta)).max():.1e}", file=sys.stderr)
deviance = objective(beta) - l2 * len(late) * np.sum(beta[1:] ** 2)
coefficients = dict(zip(design.columns, beta.tolist()))
print(json.dumps({"rows": len(late), "deviance": deviance, "coefficients": coefficients}, indent=0))
