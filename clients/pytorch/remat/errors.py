"""What can go wrong, each with the names and numbers that belong to it."""

from typing import Optional


class RematError(Exception):
    """The base of all errors of this package."""


class CaptureError(RematError):
    """A module cannot be turned into a graph; the message names it."""


class CheckError(CaptureError):
    """A step under the schedule was not the plain step, in the check with which fit ends."""


class MismatchError(RematError):
    """The model or its inputs are not those that were captured."""


class BudgetError(RematError):
    """The budget is not an amount, or no schedule fits it. minimum_budget: the least, in bytes, that the solver could use; None: not known."""

    def __init__(self, message: str, minimum_budget: Optional[int] = None) -> None:
        super().__init__(message)
        self.minimum_budget = minimum_budget


class ServiceError(RematError):
    """The service refused or could not be reached. status: of HTTP, 0 when there was no answer; field: the one of the request at fault, or None."""

    def __init__(self, message: str, status: int = 0, field: Optional[str] = None) -> None:
        super().__init__(message)
        self.status, self.field = status, field
