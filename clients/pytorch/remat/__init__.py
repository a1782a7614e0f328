"""remat: train a model within a memory budget, at the least cost in time.

model = remat.fit(model, example_inputs, budget="8GiB")

and nothing else changes. remat.profile measures only; remat.compare measures a table of budgets. Without torch there are remat.solve (a schedule of a
profile), remat.plan (a model on a device) and remat.Client."""

from typing import Any

from .client import Client
from .errors import BudgetError, CaptureError, CheckError, MismatchError, RematError, ServiceError
from .local import plan, solve

try:
    from . import pipelines
    from .backend import backend
    from .comparison import Comparison, compare
    from .fitting import fit, profile, remove, reserved
    from .selective import knapsack, policy
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise

__version__ = "0.2.0"

__all__ = ["__version__", "BudgetError", "CaptureError", "CheckError", "Client", "Comparison", "MismatchError", "RematError", "ServiceError",
           "TrainerCallback", "backend", "compare", "fit", "knapsack", "pipelines", "plan", "policy", "profile", "remove", "reserved", "solve"]


def __getattr__(name: str) -> Any:
    if name == "TrainerCallback":  # is transformers' own kind, and that takes seconds to load
        from .huggingface import TrainerCallback
        return TrainerCallback
    if name in __all__:
        raise ImportError(f"remat.{name} needs torch (2.4 or later), which is not installed")
    raise AttributeError(f"module 'remat' has no attribute {name!r}")
