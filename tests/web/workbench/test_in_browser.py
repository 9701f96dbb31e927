"""The workbench as a person uses it, in a real browser: type, paste, copy, undo, export, reload; nothing leaves the page."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llm_locust.report import merge_run
from tests.cli.test_kv import SMALL
from tests.report.test_worksheet import a_run

playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, on the path or named by CHROMIUM"),
]

ROOT = Path(__file__).parents[3]
READY = "#bench[data-ready]"
TTFT = "observations: TTFT P95 [ms]"
TPOT = "observations: TPOT P95 [ms]"
GRADE = "decision: evidence grade"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], headless=True)
        yield found
        found.close()


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = a_run(tmp_path_factory.mktemp("runs")).write()
    merge_run(folder)
    return folder


@pytest.fixture(scope="module")
def address(run_folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.web.workbench.serving", str(run_folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        assert server.stdin is not None
        server.stdin.close()
        server.wait(timeout=30)


class Person:
    """A browser window on the workbench, that notes what goes wrong in it."""

    def __init__(self, browser: Any, address: str, **device: Any) -> None:
        self.context = browser.new_context(accept_downloads=True, **device)
        self.page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.trouble: list[str] = []
        self.host = address.split("/x/")[0]
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("request", self._asked)
        self.page.goto(address)
        self.page.wait_for_selector(READY)

    def _heard(self, message: Any) -> None:
        refused = "status of 400" in message.text and "/llm/workbench/" in message.location["url"]
        if message.type in ("error", "warning") and not refused:  # a browser calls every refusal an error
            self.trouble.append(f"{message.text} ({message.location['url']})")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((f"{self.host}/", f"blob:{self.host}/")):
            self.trouble.append(f"asked {request.url}")

    def part(self, name: str) -> None:
        self.page.click(f".parts a[href='#{name}']")
        self.page.wait_for_selector(f"#part-{name}:not([hidden])")

    def again(self) -> None:
        self.page.reload()
        self.page.wait_for_selector(READY)

    def cell(self, row: int, key: str) -> Any:
        return self.page.locator(f"#sheet tbody tr:nth-child({row}) input[data-key='{key}']")

    def rows(self) -> int:
        count: int = self.page.locator("#sheet tbody tr:has(input)").count()
        return count

    def exported(self, button: str) -> tuple[str, str]:
        with self.page.expect_download() as waiting:
            self.page.click(button)
        return waiting.value.suggested_filename, Path(waiting.value.path()).read_text(encoding="utf-8")

    def press_paste(self, text: str) -> None:
        """What Ctrl+V does, with this text on the clipboard."""
        self.page.evaluate(
            """text => {
                const data = new DataTransfer();
                data.setData("text/plain", text);
                const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
                document.activeElement.dispatchEvent(event);
            }""",
            text,
        )


@pytest.fixture
def person(browser: Any, address: str) -> Iterator[Person]:
    found = Person(browser, address)
    yield found
    trouble = found.trouble
    found.context.close()
    assert trouble == []


def test_goodput_from_counts_and_into_the_typed_record(person: Person) -> None:
    page = person.page
    person.part("goodput")
    for name, text in {"measured": "100", "successful": "90", "good": "80", "seconds": "60 s"}.items():
        page.fill(f"#goodput-{name}", text)
    page.press("#goodput-seconds", "Enter")
    page.wait_for_selector("#goodput-errors:not([hidden])")
    assert "write the bare number 60" in page.inner_text("#goodput-seconds-error")
    assert page.get_attribute("#goodput-seconds", "aria-invalid") == "true"
    page.click("#goodput-errors a")
    assert page.evaluate("document.activeElement.id") == "goodput-seconds"
    page.fill("#goodput-seconds", "60")
    page.press("#goodput-seconds", "Enter")
    page.wait_for_selector("#goodput-result table")
    assert page.locator("#goodput-result .figure").all_inner_texts() == ["1.5 req/s", "1.333 req/s", "80 %", "10 %"]
    assert "not a test" in page.inner_text("#goodput-result")
    assert page.locator("#part-goodput [aria-invalid]").count() == 0
    person.again()
    assert page.input_value("#goodput-measured") == "100"
    page.click("#goodput-to-record")
    page.wait_for_selector("#part-record:not([hidden])")
    playwright.expect(page.locator("#record-failed_requests")).to_have_value("10")
    assert page.input_value("#record-source") == "typed"


def test_a_typed_record_is_checked_exported_kept_and_cleared(person: Person) -> None:
    page = person.page
    page.select_option("#record-source", "typed")
    page.click("#record-open-all")
    page.fill("#record-test_id", "paper-1")
    page.fill("#record-ttft_p95_ms", "1,5")
    page.click("#record-check")
    page.wait_for_selector("#record-errors:not([hidden])")
    assert page.locator("#record-errors li").count() == 2
    assert "cannot be blank" in page.inner_text("#record-tested_at-error")
    page.fill("#record-tested_at", "2026-11-30")
    page.fill("#record-ttft_p95_ms", "1.5")
    page.fill("#record-preemptions", "0")
    page.fill("#record-owner", "<img src=x onerror=alert(1)>")
    name, text = person.exported("#record-save")
    record = json.loads(text)
    assert (name, record["evidence_grade"], record["ttft_p95_ms"]) == ("paper-1.json", "transcribed", 1.5)
    assert (record["preemptions"], record["evictions"]) == (0, None)
    page.click("#record-clear")
    assert page.input_value("#record-test_id") == ""
    page.click("#record-undo")
    person.again()
    page.select_option("#record-source", "typed")
    assert page.input_value("#record-owner") == "<img src=x onerror=alert(1)>"
    page.set_input_files("#record-file", {"name": "r.json", "mimeType": "application/json", "buffer": text.encode()})
    playwright.expect(page.locator("#status")).to_contain_text("Opened as a typed record")
    _, again = person.exported("#record-save")
    assert again == text
    page.click("#record-to-sheet")
    page.wait_for_selector("#part-worksheet:not([hidden])")
    page.click("#sheet-groups button[data-group='observations']")
    last = person.rows()
    assert (person.cell(last, "test").input_value(), person.cell(last, TTFT).input_value()) == ("paper-1", "1.5")


def test_after_a_run_it_is_filled_and_rows_can_be_changed_copied_pasted_deleted_and_exported(
    person: Person,
) -> None:
    page = person.page
    assert page.input_value("#record-measured_requests") == "600"
    assert not page.is_editable("#record-measured_requests")
    assert page.inner_text("#record-grade") == "partial"
    person.part("worksheet")
    page.click("#sheet-groups button[data-group='observations']")
    assert person.rows() == 4
    person.cell(1, "test").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.value") == "open 4/s poisson"
    page.click("#sheet tbody tr:nth-child(2) button[data-what='Copy']")
    assert person.rows() == 5
    assert person.cell(3, "test").input_value() == "open 4/s poisson (copy)"
    person.cell(3, TTFT).focus()
    person.press_paste('250\t"20"\r\n300\t25\r\n')
    assert [person.cell(row, TTFT).input_value() for row in (3, 4)] == ["250", "300"]
    assert [person.cell(row, TPOT).input_value() for row in (3, 4)] == ["20", "25"]
    person.cell(1, TPOT).fill("=1+1")
    page.click("#sheet-csv")
    page.wait_for_selector("#sheet-errors:not([hidden])")
    assert "Row 1, TPOT P95 [ms]" in page.inner_text("#sheet-errors")
    person.cell(1, TPOT).fill("")
    page.click("#sheet tbody tr:nth-child(5) button[data-what='Delete']")
    assert person.rows() == 4
    person.again()
    assert person.rows() == 4
    page.click("#sheet-undo")
    assert person.rows() == 5
    page.click("#sheet-undo")
    assert person.cell(3, TTFT).input_value() not in ("", "250")
    name, text = person.exported("#sheet-csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert (name, len(rows)) == ("worksheet.csv", 5)
    # The first was changed, the third copied; what the run measured keeps its grade.
    assert [row[GRADE] for row in rows] == ["transcribed", "partial", "transcribed", "", ""]
    name, text = person.exported("#sheet-markdown")
    assert name == "worksheet.md"
    assert "| open 4/s poisson (copy) |" in text
    page.click("#sheet tbody tr:nth-child(3) button[data-what='Record']")
    page.wait_for_selector("#part-record:not([hidden])")
    assert (page.input_value("#record-source"), page.input_value("#record-engine_version")) == ("typed", "0.11.0")


def test_a_whole_export_is_pasted_by_its_header(person: Person) -> None:
    page = person.page
    person.part("worksheet")
    page.click("#sheet-add")
    person.press_paste(f"test\t{TTFT}\tdecision: owner\nours\t120\tme\ntheirs\t90\t\n")
    page.click("#sheet-groups button[data-group='all']")
    assert [person.cell(row, "test").input_value() for row in (5, 6)] == ["ours", "theirs"]
    assert [person.cell(row, TTFT).input_value() for row in (5, 6)] == ["120", "90"]
    assert person.cell(6, "decision: owner").input_value() == ""


def test_the_kv_preflight_takes_a_config_file_and_says_when_it_cannot_tell(person: Person) -> None:
    page = person.page
    person.part("kv")
    page.fill("#kv-tokens", "2048")
    for more, expected in (({}, "23,040 bytes"), ({"sliding_window": 512}, "unavailable: sliding window")):
        text = json.dumps(SMALL | more)
        page.set_input_files(
            "#kv-file", {"name": "config.json", "mimeType": "application/json", "buffer": text.encode()}
        )
        playwright.expect(page.locator("#kv-config")).to_have_value(text)
        page.press("#kv-tokens", "Enter")
        page.wait_for_selector("#kv-result table")
        assert expected in page.inner_text("#kv-result")


def test_facts_are_saved_with_the_run_and_its_records_made_again(person: Person, run_folder: Path) -> None:
    page = person.page
    page.click("#record-only-facts")
    assert page.is_hidden("#record-test_id")
    assert "The server said: m" in page.inner_text("#record-model_id-known")
    page.fill("#record-model_id", "another")
    page.click("#facts-save")
    page.wait_for_selector("#record-errors:not([hidden])")
    assert "'another', but the server said 'm'" in page.inner_text("#record-model_id-error")
    page.fill("#record-model_id", "")
    page.fill("#record-cpu", "EPYC")
    person.again()  # what was not saved yet is kept too
    assert page.input_value("#record-cpu") == "EPYC"
    page.click("#facts-merge")
    page.wait_for_selector("#record-result pre", timeout=120_000)
    assert json.loads((run_folder / "records" / "stage-0-round-0.json").read_bytes())["cpu"] == "EPYC"
    assert page.input_value("#record-cpu") == "EPYC"
    person.part("worksheet")
    page.click("#sheet-groups button[data-group='fixed conditions']")
    assert person.cell(1, "fixed conditions: CPU").input_value() == "EPYC"


@pytest.mark.parametrize("width", [360, 1280])
def test_no_part_is_wider_than_the_screen_and_every_input_is_labelled(browser: Any, address: str, width: int) -> None:
    person = Person(browser, address, viewport={"width": width, "height": 800})
    for part in ("record", "worksheet", "goodput", "kv"):
        person.part(part)
        assert person.page.evaluate("document.documentElement.scrollWidth") <= width
    unlabelled = """[...document.querySelectorAll("input, select, textarea, button")]
        .filter(one => !(one.labels?.length || one.ariaLabel || one.textContent.trim())).map(one => one.outerHTML)"""
    assert person.page.evaluate(unlabelled) == []
    person.context.close()
    assert person.trouble == []
