"""A table in the making: the columns of one block after another, put together one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from llm_locust.analysis.csv_blocks import Block, Layout
from llm_locust.analysis.gaps import GAPS_AT, GAPS_N, Us, gap_places

BUFFERED_GAPS = 1 << 24

_TYPES = {"text": "str", "integer": "Int64", "float": "float64"}


class ColumnsInParts:
    """Columns by name, each an array per block read so far."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._parts: dict[str, list[Any]] = {name: [] for name in layout.columns if layout.kind(name) != "gaps"}
        self._counts: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
        self._gaps: list[Us] = [np.empty(0, np.uint32)]
        self._in_last = 0

    def add(self, block: Block) -> None:
        """Add the rows of a block."""
        for name, column in block.columns.items():
            # Times stay wide, for they are put in each other's place; the rest are counts.
            narrow = self.layout.kind(name) == "integer" and not name.endswith("_ns")
            self._parts[name].append(_narrow(column) if narrow else column)
        self._counts.append(block.gap_counts)
        self._add_gaps(block.gaps_us)

    def _add_gaps(self, gaps: Us) -> None:
        """Into large buffers: memory of many small ones, freed, would stay with this process."""
        if gaps.dtype != self._gaps[-1].dtype or self._in_last + len(gaps) > len(self._gaps[-1]):
            self._gaps[-1] = self._gaps[-1][: self._in_last]
            self._gaps.append(np.empty(max(BUFFERED_GAPS, len(gaps)), gaps.dtype))
            self._in_last = 0
        self._gaps[-1][self._in_last : self._in_last + len(gaps)] = gaps
        self._in_last += len(gaps)

    def together(self) -> tuple[dict[str, Any], Us]:
        """Each column whole, and all gaps; the parts are freed on the way, so that nothing is held twice."""
        found: dict[str, Any] = {}
        for name in list(self._parts):
            parts = self._parts.pop(name)
            if parts:
                found[name] = pd.concat([pd.Series(part) for part in parts], ignore_index=True).array
            else:
                found[name] = pd.Series([], dtype=_TYPES[self.layout.kind(name)]).array
        if self.layout.gaps is not None:
            counts = np.concatenate(self._counts)
            found[GAPS_AT], found[GAPS_N] = gap_places(counts), counts.astype(np.int32)
        return found, self._all_gaps()

    def _all_gaps(self) -> Us:
        self._gaps[-1] = self._gaps[-1][: self._in_last]
        n = sum(map(len, self._gaps))
        wide = any(part.dtype == np.int64 for part in self._gaps)
        whole: Us = np.empty(n, np.int64) if wide else np.empty(n, np.uint32)
        end = len(whole)
        while self._gaps:
            part = self._gaps.pop()
            whole[end - len(part) : end] = part
            end -= len(part)
        return whole


def _narrow(column: Any) -> Any:
    """The same integers in half the bytes where they fit: of a million rows that is 130 MB."""
    values = column.to_numpy(dtype=np.int64, na_value=0)
    bounds = np.iinfo(np.int32)
    if len(values) and (values.min() < bounds.min or values.max() > bounds.max):
        return column
    return pd.arrays.IntegerArray(values.astype(np.int32), np.asarray(column.isna()))
