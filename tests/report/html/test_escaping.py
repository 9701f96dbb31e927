"""Text from servers, workloads and command lines is text in ``report.html``, whatever it holds."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from llm_locust.records import WorkloadFacts
from llm_locust.report import merge_run
from llm_locust.report.inert import one_line
from tests.analysis.run_builder import RunBuilder
from tests.report.html.page_reader import Element, read_page

HOSTILE = {
    "a script": "<script>alert(1)</script>",
    "an end of what it stands in": "</title></style></td></table></svg></details>--> ]]>",
    "attributes": '" onload="x" \' onclick=\'y\' style="position:fixed"',
    "entities": "&lt;script&gt; &#60;b&#62; &amp; &",
    "templates": "{{ 7 * 7 }} {% raw %} ${7*7} #{7*7}",
    "a formula of plots": "$\\frac{1}{0}$ $x",
    "Markdown": "[l](javascript:x) ![i](http://x/y.png) <http://a> `c` **b**",
    "addresses": "http://example.com/x?y=<z> javascript:alert(1)",
    "escapes": "\x1b[31mred\x1b[2J \x00 \x08 \x9b31m",
    "reversed": "\u202efail\u2066\u200b\ufeff\u2028x\u2029y\x85z",
    "letters without a font": "模型 \U0001f680 \U000e0001 \ud7ff",
    "a formula": '=HYPERLINK("http://x","y")',
    "long": "x" * 10_000,
}


def of_run(parent: Path, text: str) -> Path:
    """A run that has this text wherever a server, a workload or a person can put it."""
    run = RunBuilder(
        parent,
        slo={"ttft": 500},
        model=text,
        host=text,
        state="interrupted",
        state_reason=text,
        command=["locust", "-f", text],
        facts={"accelerator": text, "owner": text},
        server_facts_start={"chat_template_sha256": text},
        versions={text: text},
        machine={"host": text},
        quality=text,
        workload=WorkloadFacts(
            name=text, kind="representative", source=text, sha256="ab" * 32, notes=[text], slices=[text]
        ),
    )
    stage = run.stage(rate=2, arrivals=text)
    stage.requests(30, ttft=300, user=text, slice=text, max_tokens=20)
    stage.requests(30, outcome="http_error", status=500, error=text, finish_reason=text)
    run.stage(rate=4, interrupted=text).requests(30, ttft=300, slice=text)
    reported = merge_run(run.write(), html=True)
    assert reported.html is not None
    return reported.html


def shape(page: Element) -> list[tuple[str, tuple[str, ...]]]:
    """The elements of the page but for those of the drawings, whose curves are no text."""
    return [
        (tag, names)
        for tag, names in page.outline()
        if tag not in ("g", "path", "use", "defs", "clippath", "rect", "text")
    ]


@pytest.fixture(scope="module")
def harmless(tmp_path_factory: pytest.TempPathFactory) -> Element:
    return read_page(of_run(tmp_path_factory.mktemp("harmless"), "harmless").read_text())


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_text_changes_the_elements_of_the_page(text: str, harmless: Element, tmp_path: Path) -> None:
    html = of_run(tmp_path, text).read_text()
    page = read_page(html)
    if len(text) < 200:
        assert shape(page) == shape(harmless)
    assert {char for char in html if not char.isprintable() and char != "\n"} == set()
    if len(text) < 200:
        shown = "".join(page.text.split())
        assert shown.count("".join(one_line(text).split())) >= 10
    else:
        assert len(html) < 500_000


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "<b>"])
def test_no_cell_of_the_data_is_a_formula(text: str, tmp_path: Path) -> None:
    html = of_run(tmp_path, text)
    texts = set()
    for path in (html.parent / "charts").iterdir():
        with path.open(newline="", encoding="utf-8") as file:
            texts |= {cell for row in csv.reader(file) for cell in row}
    numbers = {cell for cell in texts if cell.removeprefix("-").replace(".", "").replace("e-", "").isdigit()}
    assert not [cell for cell in texts - numbers if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert any(text.strip() in cell for cell in texts)
