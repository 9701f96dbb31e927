"""From symptom to place: what a run's own figures say about where its time went, with what shows it.

A rule is a pure function from a :class:`Case` to findings; :data:`RULES` names them. One that lacks what it needs says
nothing: there is no advice without evidence.
"""

from llm_locust.analysis.diagnosis.case import Case, StageCase, case_of
from llm_locust.analysis.diagnosis.table import RULES, diagnose

__all__ = ["RULES", "Case", "StageCase", "case_of", "diagnose"]
