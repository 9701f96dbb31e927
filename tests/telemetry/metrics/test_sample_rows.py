"""server.csv: what is written is what is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_locust.records import UsageError
from llm_locust.records.server_sample import (
    CumulativeHistogram,
    ServerSample,
    decode_server_rows,
    encode_server_rows,
    server_header_line,
)
from llm_locust.telemetry.metrics import read_page, server_sample

PAGES = Path(__file__).parent / "pages"


def test_a_row_by_hand() -> None:
    sample = ServerSample(
        at_ns=1_700_000_000_000_000_001,
        target="http://a:8000",
        engine="vllm",
        verified=True,
        scrape_ms=2.5,
        running=3.0,
        waiting=0.0,
        kv_usage={"0": 0.25, "1": 1.0},
        kv_usage_max=1.0,
        kv_usage_mean=0.625,
        ttft=CumulativeHistogram(le=(0.1, 1.0), n=(2.0, 3.0), count=4.0, sum=5.5),
    )
    row = encode_server_rows([sample])
    assert row == (
        "1700000000000000001,http://a:8000,vllm,1,,2.5,,3,0,"
        '"{""0"":0.25,""1"":1}",1,0.625,,,,,,,,,,"{""le"":[0.1,1],""n"":[2,3],""count"":4,""sum"":5.5}",,,,,,,,,\n'
    )
    assert decode_server_rows(server_header_line() + row, "server.csv") == [sample]


def test_pages_survive_the_file() -> None:
    samples = [
        server_sample(read_page((PAGES / name).read_bytes()), at_ns=k, target="a", scrape_ms=1.0)
        for k, name in enumerate(("vllm.txt", "llamacpp.txt"))
    ]
    samples.append(server_sample(read_page(b'<title>a, "b"\n</title>'), at_ns=2, target="a"))
    assert decode_server_rows(server_header_line() + encode_server_rows(samples), "server.csv") == samples


def test_a_torn_last_line_is_a_sample_lost() -> None:
    rows = encode_server_rows([ServerSample(at_ns=1, target="a"), ServerSample(at_ns=2, target="a")])
    assert [s.at_ns for s in decode_server_rows(server_header_line() + rows[:-4], "server.csv")] == [1]
    assert decode_server_rows("", "server.csv") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "server.csv: not a file of server samples: no column at_ns, target"),
        ("at_ns,target\nx,a\n", "server.csv, line 2: not a server sample: invalid literal"),
        ("at_ns,target,running\n1,a,3\n1,a\n", "server.csv, line 3: not a server sample: 2 cells"),
        ("at_ns,target,running\n1,a,nan\n", "server.csv, line 2: not a server sample: running is nan"),
        ("at_ns,target,ttft\n1,a,{\n", "server.csv, line 2: not a server sample: "),
    ],
)
def test_a_file_that_is_none_is_refused_by_line(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        decode_server_rows(text, "server.csv")
    assert str(refused.value).startswith(message)
