"""Smoke tests: does the whole chain work here, and does a server keep what a load test relies on? No performance.

Two subjects share their form. Against the synthetic engine every dialect is spoken and one short run goes through the chain
of evidence (:mod:`~llm_locust.smoke.simulated`). Against a server that is there its promises are checked one by one
(:mod:`~llm_locust.smoke.host`, :mod:`~llm_locust.smoke.checks`).
"""

from llm_locust.smoke.figures import SmokeFigures
from llm_locust.smoke.result import Check, SmokeResult

__all__ = ["Check", "SmokeFigures", "SmokeResult"]
