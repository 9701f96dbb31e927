"""A JSONL trace, line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from llm_locust.arrivals.traces.builder import TraceBuilder
from llm_locust.arrivals.traces.cells import MOST_TOKENS
from llm_locust.arrivals.traces.lines import TraceFile, shown

Tokens: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]
"""A length that can be one."""

Row = TypeVar("Row")


class Place(NamedTuple):
    """Where a line is in its file."""

    line: int
    offset: int
    length: int


def json_rows(
    file: TraceFile, builder: TraceBuilder, decoder: msgspec.json.Decoder[Row], example: str
) -> Iterator[tuple[Place, Row]]:
    """Every line that is not blank, decoded; blank ones are counted.

    Args:
        example: What a line is like, for the message of one that is not.

    Raises:
        UsageError: a line is not JSON, lacks a field or holds a wrong one.
    """
    first = True
    for block in file.blocks():
        number, offset = block.first_line, block.offset
        for raw in block.data.split(b"\n")[:-1]:
            if raw and not raw.isspace():
                try:
                    yield Place(number, offset, len(raw)), decoder.decode(raw)
                except msgspec.ValidationError as error:
                    told = str(error).replace("`", "").removesuffix(" - at $")
                    what = f"{told}; a line is like {example}" if first else told
                    raise (file.wrong_format if first else file.bad)(number, what) from None
                except (msgspec.DecodeError, RecursionError) as error:
                    what = f"{shown(raw.strip())} is not JSON ({error}); a line is like {example}"
                    raise (file.wrong_format if first else file.bad)(number, what) from None
                first = False
            else:
                builder.blank()
            number += 1
            offset += len(raw) + 1


def has_keys(*names: str, without: str | None = None) -> Callable[[bytes], bool]:
    """Whether a first line is a JSON object with these keys, and without that one."""

    def recognises(line: bytes) -> bool:
        try:
            row = _OBJECT.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        return set(names) <= set(row) and without not in row

    return recognises


_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
