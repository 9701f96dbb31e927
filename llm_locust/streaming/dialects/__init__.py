"""How engines stream a reply: one dialect a file, and their names."""

from llm_locust.streaming.dialects.base import Counts, Delta, Dialect, WrongDialect
from llm_locust.streaming.dialects.registered import DIALECTS, get_dialect, register_dialect

__all__ = ["DIALECTS", "Counts", "Delta", "Dialect", "WrongDialect", "get_dialect", "register_dialect"]
