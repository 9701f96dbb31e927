"""A run from Locust's own UI in a real browser: form, tab, live page, stop after drain, report, downloads, workbench.

One run of a master and a worker under a base path, looked at from two windows. Every step waits for what it sees.
"""

from __future__ import annotations

import csv
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_locust.records import Manifest
from llm_locust.simulator.process import running
from tests.e2e.conftest import CHAT, LADDER, Locust, free_port, processes
from tests.e2e.waiting import rows_on_disk, until

pytest.importorskip("playwright")

from playwright.sync_api import Browser, Page, expect

from tests.web.browser import Visit, chromium

pytestmark = pytest.mark.process

BASE = "/lab"
LONG_MS = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def fill(page: Page, **fields: str) -> None:
    for name, value in fields.items():
        page.locator(f"input[name={name}]").fill(value)


def state_of(page: Page, *states: str) -> None:
    any_of = ",".join(f'.llm-strip[data-state="{state}"]' for state in states)
    page.wait_for_selector(any_of, timeout=LONG_MS)


def cell(page: Page, row: int, column: str) -> str:
    keys = page.locator("th").evaluate_all("heads => heads.map(head => head.dataset.sortkey)")
    return page.locator("tbody tr").nth(row).locator("td").nth(keys.index(column)).inner_text()


def number(text: str) -> float:
    found = re.search(r"[\d.]+", text)
    return float(found[0]) if found else 0.0


def test_a_run_is_started_watched_drained_and_read_from_the_browser(locust: Locust, browser: Browser) -> None:
    with running(slots=16, decode_ms=20) as server:
        port = free_port()
        arguments = ["--web-port", str(port), "--web-base-path", BASE, *processes(1)]
        locust.html = True
        process = locust.start(*arguments, files=f"{CHAT},{LADDER}")
        until(lambda: listens(port), "Locust's web UI listens")
        ui = Visit(browser, f"http://127.0.0.1:{port}{BASE}/", viewport={"width": 1400, "height": 900})
        page = ui.page
        page.set_default_timeout(LONG_MS)

        # What must be filled in stands open, the shape's own options and the limits first.
        expect(page.locator("label", has_text="Arrival rates of the ladder")).to_be_visible()  # the section is open
        names = page.locator("form .MuiAccordionDetails-root [name]").evaluate_all("all => all.map(one => one.name)")
        ours = names[names.index("rates") :]
        assert ours[:7] == ["rates", "requests", "arrivals", "stageTime", "slo", "model", "gate"]
        assert page.locator(".llm-strip").evaluate("strip => getComputedStyle(strip).position") == "static"

        # A wrong value is refused on the page, and nothing starts.
        assert page.locator("input[name=prompts], input[name=apiKeyEnv], input[name=header]").count() == 0
        fill(page, host=server.base_url, rates="3,x")
        expect(page.get_by_role("button", name="Start")).to_be_enabled(timeout=LONG_MS)
        page.get_by_role("button", name="Start").click()
        expect(page.get_by_role("alert").filter(has_text="--rates 'x': write requests per second")).to_be_visible()
        assert not (locust.home / "runs").exists()

        # Right ones start a run, though no host was given on the command line.
        fill(page, rates="3,4", stageTime="60", warmupTime="0", cooldown="1", maxTokens="150", slo="e2e=20000")
        page.get_by_role("button", name="Start").click()
        page.get_by_role("tab", name="LLM").click()
        state_of(page, "running")

        # Figures move in the tab and on the live page.
        expect(page.locator("tbody tr").first).to_contain_text("3/s", timeout=LONG_MS)
        page.wait_for_function(MEASURED, arg=2)
        measured = number(cell(page, 0, "measured"))
        page.wait_for_function(MEASURED, arg=measured + 1)
        assert cell(page, 0, "userClass") == "ChatUser"
        assert re.fullmatch(r"[\d.]+\s/ [\d.]+\s/ [\d.]+", cell(page, 0, "ttft"))
        with page.context.expect_page() as opened:
            page.get_by_role("link", name="Live charts, stop").click(modifiers=["ControlOrMeta"])
        live = opened.value
        live.on("console", lambda message: message.type == "error" and ui.complaints.append(message.text))
        live.on("pageerror", lambda error: ui.complaints.append(str(error)))
        expect(live.locator("#state")).to_have_text("running", ignore_case=True, timeout=LONG_MS)
        tiles = live.locator("#tiles").inner_text()
        live.wait_for_function("was => document.querySelector('#tiles').innerText !== was", arg=tiles)

        # Locust's own button stops after drain; the page says so and stays awake while requests land.
        page.bring_to_front()
        page.get_by_role("button", name="Stop", exact=True).click()
        page.locator('.llm-strip[data-state="draining"]', has_text="nothing more is sent").wait_for(timeout=LONG_MS)
        state_of(page, "judged")
        expect(page.get_by_role("button", name="New")).to_be_visible(timeout=LONG_MS)
        expect(page.locator("header")).to_contain_text("stopped", ignore_case=True)
        expect(page.locator("tbody tr").first).to_contain_text(re.compile("pass|fail|undetermined|invalid"))
        manifest = Manifest.load(locust.newest().manifest)
        assert (manifest.state, manifest.state_reason) == ("interrupted", "stopped from the web page")
        assert manifest.host == server.base_url

        # The report, and the files.
        expect(live.get_by_role("link", name="Open the report")).to_be_visible(timeout=LONG_MS)
        expect(live.locator("#when-judged")).to_have_text("Judged from its files: see the report.")
        live.get_by_role("link", name="Open the report").click()
        expect(live.locator("h1").first).to_be_visible(timeout=LONG_MS)
        assert live.url.endswith(f"{BASE}/llm/report/")
        page.get_by_role("tab", name="Download Data").click()
        table = download(page, "the table of the tab")
        assert table[0]["label"].startswith("open 3/s")
        requests = download(page, "every request")
        assert len(requests) == rows_on_disk(locust)
        ended = [row for row in requests if row["phase"] == "measure" and row["outcome"] != "not_sent"]
        assert int(table[0]["measured"]) == len(ended)

        # The workbench computes with our own code.
        page.get_by_role("link", name="Workbench", exact=True).click()
        page.wait_for_selector("#bench[data-ready]")
        assert page.url.endswith(f"{BASE}/llm/workbench")
        workbench(page)
        live.close()
        ui.close()
        process.terminate()
        locust.finish(process)


MEASURED = """least => {
    const at = [...document.querySelectorAll("th")].findIndex(head => head.dataset.sortkey === "measured");
    return Number(document.querySelector("tbody tr")?.children[at]?.textContent) >= least;
}"""


def workbench(page: Page) -> None:
    """Goodput from counts: 60 s, 100 measured, 90 ok, 80 good."""
    page.click("nav.parts a[href='#goodput']")
    for name, text in (("measured", "100"), ("successful", "90"), ("good", "80"), ("seconds", "60")):
        page.fill(f"#goodput-{name}", text)
    page.press("#goodput-seconds", "Enter")
    page.wait_for_selector("#goodput-result table")
    figures = page.locator("#goodput-result .figure").all_inner_texts()
    assert figures == ["1.5 req/s", "1.333 req/s", "80 %", "10 %"]


def download(page: Page, link: str) -> list[dict[str, str]]:
    with page.expect_download() as found:
        page.get_by_role("link", name=re.compile(link)).click()
    with Path(found.value.path()).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
