"""A peak belongs to an order of backwards: what is asked, and asked again. The service is played by the tests."""

import types

import pytest

import remat
from remat import planning

PLAIN, OTHER, THIRD = (2, 1, 0), (2, 0, 1), (1, 2, 0)
MEASURED = types.SimpleNamespace(profile=PLAIN, for_order=lambda order: order and tuple(order))  # named by their order


class Service:
    """answers: what order of backwards the schedule of a profile has; peaks: of an order, in its own profile."""

    def __init__(self, answers, peaks, minimum=0):
        self.answers, self.peaks, self.minimum, self.asked = answers, peaks, minimum, []

    def schedule(self, profile, budget, solver, **question):
        self.asked.append(profile)
        if profile not in self.answers or budget < self.minimum:
            raise remat.BudgetError("too small", self.minimum or None)
        order = self.answers[profile]
        return {"profile_id": profile, "budget": budget, "peak": budget, "operations": [["B", v] for v in order]}

    def peak(self, profile, operations, link):
        return self.peaks[profile]


@pytest.fixture(autouse=True)
def named_by_their_order(monkeypatch):
    monkeypatch.setattr(planning, "profile_id", lambda profile: profile)


@pytest.mark.parametrize("answers,peaks,asked,profile,peak", [
    ({PLAIN: PLAIN}, {}, [PLAIN], PLAIN, 10),
    ({PLAIN: OTHER}, {OTHER: 9}, [PLAIN], OTHER, 9),
    ({PLAIN: OTHER, OTHER: OTHER}, {OTHER: 11}, [PLAIN, OTHER], OTHER, 10),
    ({PLAIN: OTHER, OTHER: THIRD}, {OTHER: 11, THIRD: 8}, [PLAIN, OTHER], THIRD, 8),
    ({PLAIN: OTHER, OTHER: THIRD, THIRD: OTHER, None: PLAIN}, {OTHER: 11, THIRD: 12, PLAIN: 7},  # they take turns
     [PLAIN, OTHER, THIRD, None], PLAIN, 7),
    ({PLAIN: OTHER, None: THIRD}, {OTHER: 11, THIRD: 7}, [PLAIN, OTHER, None], THIRD, 7),
])
def test_the_peak_is_that_of_the_own_order(answers, peaks, asked, profile, peak):
    service = Service(answers, peaks)
    found, schedule = planning.ask(service, MEASURED, 10)
    assert (found, schedule["peak"], service.asked) == (profile, peak, asked)


@pytest.mark.parametrize("peaks,asked", [({OTHER: 20}, [PLAIN, PLAIN]), ({OTHER: 21}, [PLAIN, PLAIN, OTHER, None, PLAIN])])
def test_the_least_budget_is_one_that_fits_in_its_own_order(peaks, asked):
    service = Service({PLAIN: OTHER}, peaks, minimum=20)
    with pytest.raises(remat.BudgetError) as caught:
        planning.ask(service, MEASURED, 10)
    assert service.asked == asked
    assert caught.value.minimum_budget == 20


class OfLess(Service):
    """Schedules of 30 and more have an order of backwards that takes 50, those of less one that takes 15."""

    def schedule(self, profile, budget, solver, **question):
        if profile != PLAIN and budget < 50:
            raise remat.BudgetError("too small", 50)
        self.answers = {profile: OTHER if budget >= 30 else PLAIN}
        return super().schedule(profile, budget, solver, **question)


@pytest.mark.parametrize("budget,reserved", [(40, 0), (45, 5)])
def test_a_budget_is_served_where_a_smaller_one_is(budget, reserved):
    service = OfLess({}, {OTHER: 50, PLAIN: 15}, minimum=15)
    given, service.schedule = service.schedule, lambda p, budget, solver, reserved=0: given(p, budget - reserved, solver)
    found, schedule = planning.ask(service, MEASURED, budget, reserved=reserved)
    assert (found, schedule["budget"]) == (PLAIN, 40)
    assert schedule["peak"] < 30
