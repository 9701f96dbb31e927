"""A question that hangs does not hang who asks it."""

from __future__ import annotations

import threading

import pytest

from llm_locust.telemetry.devices.patience import Patient


def test_an_answer_is_handed_on_and_so_is_an_error() -> None:
    patient = Patient(lambda a, b: a // b, patience_s=20)
    assert patient.ask(6, 3) == 2
    with pytest.raises(ZeroDivisionError):
        patient.ask(1, 0)
    assert patient.ask(9, 3) == 3


def test_while_a_call_hangs_no_other_is_made_and_its_late_answer_is_dropped() -> None:
    go_on, gone_on = threading.Event(), threading.Event()
    asked = []

    def question(number: int) -> int:
        asked.append(number)
        if number == 1:
            go_on.wait(20)
            gone_on.set()
        return number

    patient = Patient(question, patience_s=0.05)
    assert patient.ask(1) is None
    assert patient.hanging
    assert patient.ask(2) is None
    assert asked == [1]
    go_on.set()
    assert gone_on.wait(20)
    patient.patience_s = 20
    answer = None
    for number in range(3, 10_000):  # the late answer is on its way
        answer = patient.ask(number)
        if answer is not None:
            break
    assert answer == number
    assert asked == [1, number]
    assert not patient.hanging
