"""Why one request failed and what to do about it: a failed reply in, cause and remedy out, without I/O.

The outcome says what kind of failure it was; within a kind, the server's own words and the shape of the URL tell more.
"""

from llm_locust.telemetry.diagnosis.cases import diagnose
from llm_locust.telemetry.diagnosis.model_names import is_listed, models_named

__all__ = ["diagnose", "is_listed", "models_named"]
