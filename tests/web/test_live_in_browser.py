"""``/llm`` in a real browser over a made-up run that moves only when it is told to."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import requests

pytest.importorskip("playwright")

from playwright.sync_api import Browser, Locator, expect

from tests.live.made_up import T0
from tests.web.browser import Visit
from tests.web.scripted_run import values_at

pytestmark = pytest.mark.process

PREFIX = "/lab"


class Script:
    """The server with the made-up run, as a process of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.web.scripted_run", PREFIX],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TZ": "UTC"},
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:")

    def tell(self, name: str, seconds: int = 0) -> None:
        requests.post(f"{self.url}/script/{name}", params={"seconds": seconds}, timeout=10).raise_for_status()

    def data(self) -> Any:
        return requests.get(f"{self.url}{PREFIX}/llm/data", timeout=10).json()["run"]


@pytest.fixture(scope="module")
def script() -> Iterator[Script]:
    script = Script()
    try:
        yield script
    finally:
        script.process.terminate()
        script.process.wait(10)


class Page(Visit):
    """The live page, with a new run of so many seconds."""

    def __init__(self, browser: Browser, script: Script, seconds: int, **options: Any) -> None:
        self.script = script
        script.tell("another")
        script.tell("advance", seconds - 1)
        super().__init__(browser, f"{script.url}{PREFIX}/llm", **options)
        self.looks(seconds)

    def advance(self, seconds: int) -> None:
        self.script.tell("advance", seconds)

    def looks(self, seconds: int) -> None:
        """Wait until the page has the picture of that second of the run; it is made to look at once."""
        self.look()
        expect(self.page.locator("#connection")).to_have_text(f"as of {clock(seconds)}", timeout=15_000)

    def look(self) -> None:
        self.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    def value(self, chart: str, at: int) -> Locator:
        return self.page.locator(f"#chart-{chart} .legend .value").nth(at)

    def hover(self, chart: str, share: float) -> int:
        """Point at that share of the chart's width; returns the second of the run that the page names."""
        over = self.page.locator(f"#chart-{chart} .u-over")
        over.scroll_into_view_if_needed()
        box = over.bounding_box()
        assert box is not None
        self.page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
        expect(self.page.locator("#hover")).to_contain_text(re.compile(r"at \d\d:\d\d:\d\d"))
        return self.pointed()

    def pointed(self) -> int:
        found = re.search(r"at (\d\d):(\d\d):(\d\d)", self.page.locator("#hover").inner_text())
        assert found is not None
        hours, minutes, seconds = map(int, found.groups())
        return (3600 * hours + 60 * minutes + seconds - int(T0)) % 86_400

    def drag(self, chart: str, from_: float, to: float) -> None:
        over = self.page.locator(f"#chart-{chart} .u-over")
        over.scroll_into_view_if_needed()
        box = over.bounding_box()
        assert box is not None
        height = box["y"] + box["height"] / 2
        self.page.mouse.move(box["x"] + from_ * box["width"], height)
        self.page.mouse.down()
        self.page.mouse.move(box["x"] + (from_ + to) / 2 * box["width"], height)
        self.page.mouse.move(box["x"] + to * box["width"], height)
        self.page.mouse.up()


def clock(second: int) -> str:
    at = (int(T0) + second) % 86_400
    return f"{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}"


def figure(value: float | None) -> str:
    """Three significant digits, as the page writes them."""
    assert value is not None
    return f"{value:,.0f}" if value >= 999.5 else f"{float(f'{value:.3g}'):g}"


def test_values_and_charts_follow_the_run(browser: Browser, script: Script) -> None:
    visit = Page(browser, script, 60)
    page = visit.page
    expect(page.locator("#run")).to_have_text(re.compile(r"^Run 20231114-221320-run\d+$"))
    expect(page.locator("#state")).to_have_text("running")
    expect(page.locator("#banners")).to_contain_text("never performance")
    expect(page.locator("#now-left")).to_have_text("0:20 left of the window")
    tile = page.locator("#tiles .tile").first
    expect(tile).to_contain_text("1 req/s")
    expect(tile).to_contain_text("60 of 60 sent")
    expect(visit.value("ttft", 1)).to_have_text(figure(values_at(59)["ttft_p95_ms"]))
    expect(page.locator("#chart-ttft .legend")).to_contain_text("limit 400")
    expect(page.locator("#chart-gpu")).to_be_hidden()
    expect(page.locator(".undrawn").nth(2)).to_contain_text("GPU utilisation (no GPU was sampled)")
    assert page.locator("#stages tbody tr").count() == 1

    visit.advance(60)
    visit.looks(120)
    expect(visit.value("ttft", 1)).to_have_text(figure(values_at(119)["ttft_p95_ms"]))
    expect(page.locator("#stages tbody tr")).to_have_count(2)
    expect(page.locator("#now-stage")).to_have_text("2 req/s")
    expect(tile).to_contain_text("60 of 60 sent")  # of the second stage

    row = page.locator("#stages tbody tr").first
    row.get_by_role("button").click()
    expect(page.locator("#stage-title")).to_have_text("Slices and outcomes: 1 req/s")
    expect(page.locator("#groups tbody tr")).to_have_count(3)
    expect(page.locator("#groups tbody tr").nth(2)).to_contain_text("long document")
    visit.close()


def test_the_pointer_reads_every_chart_at_the_same_time(browser: Browser, script: Script) -> None:
    visit = Page(browser, script, 200, viewport={"width": 1400, "height": 900})
    second = visit.hover("ttft", 0.5)
    assert 97 <= second <= 103
    expect(visit.page.locator("#hover")).to_contain_text("2 req/s, warm-up")
    for chart, at, column in (("ttft", 1, "ttft_p95_ms"), ("server-queue", 0, "server_queue_p95_ms")):
        expect(visit.value(chart, at)).to_have_text(figure(values_at(second)[column]))
    visit.page.mouse.move(2, 2)
    expect(visit.page.locator("#hover")).to_have_text("")
    expect(visit.value("ttft", 1)).to_have_text(figure(values_at(199)["ttft_p95_ms"]))
    visit.close()


def test_a_pause_holds_the_picture_while_the_data_arrive(browser: Browser, script: Script) -> None:
    visit = Page(browser, script, 100)
    page = visit.page
    page.locator("#pause").press("Enter")
    before = visit.value("ttft", 1).inner_text()
    visit.advance(50)
    visit.looks(150)  # it goes on being asked for
    assert visit.value("ttft", 1).inner_text() == before
    expect(page.locator("#now-left")).to_have_text("0:10 left of the warm-up")
    expect(page.locator("#hover")).to_contain_text("paused at")
    page.get_by_role("button", name="Resume").click()
    expect(visit.value("ttft", 1)).to_have_text(figure(values_at(149)["ttft_p95_ms"]))
    expect(page.locator("#hover")).to_have_text("")
    visit.close()


def test_a_range_is_dragged_chosen_and_left_again(browser: Browser, script: Script) -> None:
    visit = Page(browser, script, 240, viewport={"width": 1400, "height": 900})
    page = visit.page
    whole = page.get_by_role("button", name="Whole run")
    expect(whole).to_have_attribute("aria-pressed", "true")
    assert visit.hover("tpot", 0.02) < 10
    visit.drag("ttft", 0.25, 0.5)
    expect(whole).to_have_attribute("aria-pressed", "false")
    assert 58 <= visit.hover("tpot", 0.02) <= 66
    assert 114 <= visit.hover("tpot", 0.98) <= 122
    page.locator("#chart-e2e .u-over").dblclick()
    expect(whole).to_have_attribute("aria-pressed", "true")
    assert visit.hover("tpot", 0.02) < 10

    page.get_by_role("button", name="1 min", exact=True).click()
    assert visit.hover("tpot", 0.02) in range(180, 184)
    page.reload()
    visit.looks(240)
    expect(page.get_by_role("button", name="1 min", exact=True)).to_have_attribute("aria-pressed", "true")
    assert visit.hover("tpot", 0.02) in range(180, 184)
    expect(visit.page.locator("#stages tbody tr")).to_have_count(3)
    visit.close()


def test_a_run_is_stopped_only_when_it_is_confirmed(browser: Browser, script: Script) -> None:
    visit = Page(browser, script, 50)
    page = visit.page
    drain, now, dialog = page.locator("#stop-drain"), page.locator("#stop-now"), page.locator("#stop-dialog")
    drain.press("Enter")
    expect(dialog).to_contain_text("nothing more is sent, what is in flight lands or meets its deadline")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    now.click()
    expect(dialog).to_contain_text("what is in flight is cancelled; every request keeps its row")
    page.get_by_role("button", name="Keep running").click()
    assert script.data()["stopping"] is None

    drain.click()
    dialog.get_by_role("button", name="Stop after drain").click()
    expect(page.locator("#banners")).to_contain_text("Draining: nothing more is sent")
    expect(page.locator("#state")).to_have_text("draining")
    assert script.data()["stopping"] == "drain"
    expect(drain).to_be_disabled()
    now.click()
    dialog.get_by_role("button", name="Stop now").click()
    expect(now).to_be_disabled()
    assert script.data()["stopping"] == "now"
    visit.close()


def test_a_refused_stop_says_why(browser: Browser, script: Script) -> None:
    visit = Page(browser, script, 50)
    page = visit.page
    refusal = json.dumps({"reason": "the run has ended already"})
    page.route("**/llm/stop", lambda route: route.fulfill(status=409, content_type="application/json", body=refusal))
    page.locator("#stop-now").click()
    page.locator("#stop-confirm").click()
    expect(page.locator("#stop-error")).to_have_text("the run has ended already")
    visit.close(complaints=1)  # the browser's own line about status 409


def test_a_second_run_starts_anew(browser: Browser, script: Script) -> None:
    visit = Page(browser, script, 200)
    page = visit.page
    first = page.locator("#run").inner_text()
    expect(page.locator("#chart-ladder")).to_be_visible()
    page.locator("#pause").click()
    script.tell("another")
    visit.looks(1)
    expect(page.locator("#run")).not_to_have_text(first)
    expect(page.locator("#pause")).to_have_text("Pause")
    expect(page.locator("#stages tbody tr")).to_have_count(1)
    expect(page.locator("#chart-ladder")).to_be_hidden()
    expect(page.locator("#groups")).to_contain_text("No request of this stage's window has ended yet.")
    expect(visit.value("ttft", 1)).to_have_text(figure(values_at(0)["ttft_p95_ms"]))
    visit.close()


def test_a_judged_run_leads_to_its_report_and_its_data(browser: Browser, script: Script) -> None:
    visit = Page(browser, script, 270)
    page = visit.page
    script.tell("judged")
    visit.look()
    banner = page.locator("#banners .plain")
    expect(banner).to_contain_text("2 req/s was sustained; 4 req/s failed on ttft.")
    expect(page.locator("#stages .badge")).to_have_text(["pass", "pass", "fail"])
    expect(page.locator("#stop-now")).to_be_disabled()
    banner.get_by_role("link", name="Open the report").click()
    expect(page.locator("h1")).to_have_css("color", "rgb(1, 2, 3)")  # its inline style is let in
    with page.expect_download() as download:
        page.get_by_role("link", name="Data of this chart").click()
    assert download.value.path().read_text(encoding="utf-8") == "t_s,p95_ms\n0,240\n"
    visit.close()


def test_a_silent_server_is_said_and_found_again(browser: Browser, script: Script) -> None:
    visit = Page(browser, script, 50)
    page = visit.page
    connection = page.locator("#connection")
    page.route("**/llm/data*", lambda route: route.abort("connectionrefused"))
    visit.look()
    expect(connection).to_have_text(re.compile(r"no answer since \d\d:\d\d:\d\d; trying again in \d+ s"))
    expect(page.locator("#stop-now")).to_be_disabled()
    expect(visit.value("ttft", 1)).to_have_text(figure(values_at(49)["ttft_p95_ms"]))  # what is known stays
    page.unroute("**/llm/data*")
    visit.advance(10)
    visit.looks(60)
    expect(page.locator("#stop-now")).to_be_enabled()
    page.route("**/llm/data*", lambda route: route.fulfill(content_type="text/html", body="<h1>Log in</h1>"))
    visit.look()
    expect(connection).to_have_text(re.compile(r"logged out"))
    visit.context.close()
    assert all("ERR_CONNECTION_REFUSED" in complaint for complaint in visit.complaints), visit.complaints
    assert visit.strangers == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_telephone_shows_all_of_it_without_scrolling_sideways(browser: Browser, script: Script, scheme: Any) -> None:
    visit = Page(browser, script, 120, viewport={"width": 360, "height": 740}, color_scheme=scheme, has_touch=True)
    page = visit.page
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.locator(".plot canvas:visible").count() == 16
    colours = {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 22, 28)"}
    expect(page.locator("body")).to_have_css("background-color", colours[scheme])
    drawn = "document.querySelector('#chart-ttft canvas').toDataURL()"
    before = page.evaluate(drawn)
    page.emulate_media(color_scheme="dark" if scheme == "light" else "light")
    page.wait_for_function(f"before => {drawn} !== before", arg=before)
    visit.close()


def test_points_are_joined_and_never_kept_twice(browser: Browser, script: Script) -> None:
    visit = Page(browser, script, 3)
    joined = """async ([own, news]) => {
        const page = document.querySelector("script[type=module]").src;
        const { joined } = await import(page.replace("live.js", "live/points.js"));
        return joined(own, news);
    }"""

    def points(t: list[int], values: list[float | None], step: float = 1, whole: bool = False) -> dict[str, Any]:
        return {"step_s": step, "whole": whole, "t": t, "columns": {"x": values}}

    own = points([1, 2, 3, 4], [10, 20, 30, 40], whole=True)
    for news, expected in [
        (points([3, 4, 5], [31, None, 50]), points([1, 2, 3, 4, 5], [10, 20, 31, None, 50], whole=True)),
        (points([5], [50]), points([1, 2, 3, 4, 5], [10, 20, 30, 40, 50], whole=True)),
        (points([], []), own),
        (points([2, 4], [15, 35], step=2, whole=True), points([2, 4], [15, 35], step=2, whole=True)),
    ]:
        assert visit.page.evaluate(joined, [own, news]) == expected
    visit.close()


def test_before_any_run_the_page_says_where_to_start_one(browser: Browser) -> None:
    script = Script()
    try:
        visit = Visit(browser, f"{script.url}{PREFIX}/llm")
        expect(visit.page.locator("#run")).to_have_text("No run yet")
        expect(visit.page.locator("#idle").get_by_role("link")).to_have_attribute("href", "./")
        expect(visit.page.locator("#shown")).to_be_hidden()
        script.tell("another")
        expect(visit.page.locator("#shown")).to_be_visible()
        script.process.terminate()
        script.process.wait(10)
        expect(visit.page.locator("#connection")).to_contain_text("no answer since")
        visit.context.close()
        assert visit.strangers == []
    finally:
        script.process.kill()
        script.process.wait(10)
