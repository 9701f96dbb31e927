"""A matrix of scenarios: engine settings x prompts x requests in flight, planned, run, resumed and graded as one thing.

The steps are files and can be read alone: a TOML file (``config``) is spread out (``scenarios``) into commands
(``commands``), which are written down (``plan_files``) or run (``running``) with engines started and stopped (``engine``),
what was done so far kept (``ledger``), and at last one row per scenario read from the run folders (``results``).
"""

from llm_locust.matrix.config import MatrixConfig, read_config, shipped_configs
from llm_locust.matrix.plan_files import write_plan
from llm_locust.matrix.running import run_matrix

__all__ = ["MatrixConfig", "read_config", "run_matrix", "shipped_configs", "write_plan"]
