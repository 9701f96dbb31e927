"""The matrix spread out: variants of the engine, units of work (one locust run each), and scenarios, with their names.

A *variant* is one combination of engine settings: its engine is started once. A *unit* is a variant with one kind of
prompts: one run of ``shapes/concurrency_ladder.py`` over all concurrencies and rounds. A *scenario* is one concurrency of a
unit: its rounds are that run's stages.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from llm_locust.matrix.config import MatrixConfig, Prompts, Setting
from llm_locust.records import UsageError
from llm_locust.records.facts import FactValue


class Variant(NamedTuple):
    """One combination of engine settings."""

    name: str
    settings: tuple[Setting, ...]

    @property
    def flags(self) -> list[str]:
        """Of the engine."""
        return [flag for setting in self.settings for flag in setting.flags]

    @property
    def simulator(self) -> list[str]:
        """Of the simulator in its place."""
        return [flag for setting in self.settings for flag in setting.simulator]

    @property
    def facts(self) -> dict[str, FactValue]:
        """What follows from the settings."""
        return {name: value for setting in self.settings for name, value in setting.facts.items()}


class Unit(NamedTuple):
    """One locust run."""

    variant: Variant
    prompts: Prompts
    place: int
    """Of its prompts among all; they have a seed of their own."""

    @property
    def name(self) -> str:
        """Also of its files."""
        return f"{self.variant.name}.{self.prompts.name}"


class Scenario(NamedTuple):
    """One row of the results."""

    unit: Unit
    concurrency: int

    @property
    def name(self) -> str:
        """``baseline.512.c4``."""
        return f"{self.unit.name}.c{self.concurrency}"


def variants(config: MatrixConfig) -> list[Variant]:
    """Every combination of settings; the first is what the others are compared with.

    Raises:
        UsageError: an engine's URL is given for none of them.
    """
    found = [
        Variant("-".join(setting.name for setting in settings), settings)
        for settings in product(*(axis.settings for axis in config.axis))
    ]
    names = [variant.name for variant in found]
    for name in config.engine.urls:
        if name not in names:
            raise UsageError(f"engine.urls.{name}: no settings are called so: there are {', '.join(names)}")
    return found


def units(config: MatrixConfig) -> list[Unit]:
    """Every locust run, one variant's after the other's."""
    return [
        Unit(variant, prompts, place) for variant in variants(config) for place, prompts in enumerate(config.prompts)
    ]


def scenarios(config: MatrixConfig) -> list[Scenario]:
    """Every scenario, in the order of the units."""
    return [Scenario(unit, concurrency) for unit in units(config) for concurrency in config.load.concurrency]
