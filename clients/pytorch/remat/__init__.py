"""remat: train a model within a memory budget, at the least cost in time.

    model = remat.fit(model, example_inputs, budget="8GiB", server="http://127.0.0.1:7070")

and nothing else changes. remat.profile measures only; remat.compare measures a table of budgets.
"""

from .backend import backend
from .calibration import calibrate
from .comparison import Comparison, compare
from .errors import BudgetError, CaptureError, CheckError, MismatchError, RematError, ServiceError
from .fitting import fit, profile, remove, reserved
from .selective import knapsack, policy

__version__ = "0.1.0"

__all__ = ["__version__", "BudgetError", "CaptureError", "CheckError", "Comparison", "MismatchError", "RematError", "ServiceError",
           "backend", "calibrate", "compare", "fit", "knapsack", "policy", "profile", "remove", "reserved"]
