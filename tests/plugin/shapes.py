"""The shapes that come along, found as Locust finds them, and the stages that they make of options."""

from __future__ import annotations

import importlib.util
import inspect
from argparse import Namespace
from itertools import islice
from pathlib import Path

from locust.env import Environment

from llm_locust.plugin.before_load import stages_of
from llm_locust.plugin.options import RunOptions, read_options
from llm_locust.plugin.shape import StageShape
from llm_locust.records import StageSpec

ROOT = Path(__file__).parents[2]
SHAPES = sorted(path.stem for path in (ROOT / "shapes").glob("*.py"))
AZURE = str(ROOT / "tests" / "arrivals" / "traces" / "samples" / "azure_code.csv")


def shape(name: str) -> StageShape:
    """The one shape of a file, found as Locust finds it."""
    spec = importlib.util.spec_from_file_location(f"shape_{name}", ROOT / "shapes" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (found,) = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, StageShape) and value.__module__ == module.__name__
    ]
    made: StageShape = found()
    return made


def options(**given: str | bool) -> RunOptions:
    return read_options(Namespace(**given))


def stages(name: str, **given: str | bool) -> list[StageSpec]:
    return list(islice(shape(name).stages(options(**given)), 1000))


def listed(name: str, **given: str | bool) -> list[StageSpec]:
    """As the plugin lists them before load, for a preview and to refuse what cannot be run."""
    environment = Environment()
    environment.shape_class = shape(name)
    return stages_of(environment, options(**given), users=1)
