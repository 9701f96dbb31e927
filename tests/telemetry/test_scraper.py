"""The scraper: rows as they should be, whatever servers do. Real sockets on loopback, servers in greenlets of the test."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gevent
import pytest
from gevent.event import Event
from gevent.server import StreamServer

from llm_locust.analysis.server_figures import server_figures
from llm_locust.records import Clock, RunFolder, UsageError
from llm_locust.records.device_sample import DeviceSample, read_device_rows
from llm_locust.records.server_sample import ServerSample, decode_server_rows
from llm_locust.telemetry import scraper as module
from llm_locust.telemetry.metrics import read_page, server_sample
from llm_locust.telemetry.metrics_targets import MetricsTarget, headers_for, metrics_targets
from llm_locust.telemetry.page_reading import MetricsReading
from llm_locust.telemetry.probe import NoPage, Probe
from llm_locust.telemetry.raw_pages import RawPage, RawPages, file_names, read_raw_pages
from llm_locust.telemetry.scraper import Scraped, Scraper

from .server import Answer, Pages, free_port, http, never, serving

VLLM = (Path(__file__).parent / "metrics" / "pages" / "vllm.txt").read_bytes()
OURS = b"""\
llm_locust_telemetry_info{session="s1",run_id=""} 1.0
llm_locust_telemetry_clock_seconds 1.7e+09
llm_locust_process_info{pid="7",name="vllm",memory_kind="ram"} 1.0
llm_locust_process_resident_memory_bytes{pid="7"} 4096.0
"""


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def scraped(url: str, clock: Clock, path: str = "/metrics", **options: Any) -> Scraped:
    probe = Probe(url, {}, clock=clock, keep_alive=True, **options)
    return Scraped(url + path, probe, path, MetricsReading(url + path))


def waiting(count: int) -> bytes:
    return http(200, f'vllm:num_requests_waiting{{engine="0"}} {count}\n'.encode())


def counting() -> Callable[[], bytes]:
    """A page whose figure is how often it was asked for."""
    asked = iter(range(1, 1_000_000))
    return lambda: waiting(next(asked))


def server_rows(folder: RunFolder) -> list[ServerSample]:
    return decode_server_rows(folder.server_csv.read_text(), "server.csv")


def until(ready: Callable[[], bool]) -> None:
    """Give way until it is so; a test in which it never is fails by its timeout."""
    with gevent.Timeout(20):
        while not ready():
            gevent.sleep(0.002)


@contextmanager
def scraping(
    targets: list[Scraped], folder: RunFolder, clock: Clock, interval_s: float = 0.02, **options: Any
) -> Iterator[list[str]]:
    trouble: list[str] = []
    found = Scraper(targets, folder, clock, interval_s=interval_s, on_trouble=trouble.append, **options)
    found.start()
    try:
        yield trouble
    finally:
        found.stop()


# --- rows ------------------------------------------------------------------------------------------------------------


def test_whoever_watches_is_told_of_the_very_rows_that_are_written(folder: RunFolder, clock: Clock) -> None:
    told: list[ServerSample] = []
    with (
        serving({"/metrics": counting()}) as server,
        scraping([scraped(server.url, clock)], folder, clock, on_rows=lambda rows: told.extend(rows.server)),
    ):
        until(lambda: len(told) >= 3)
    assert told == server_rows(folder)


def test_a_page_becomes_a_row_and_is_kept_as_it_came(folder: RunFolder, clock: Clock) -> None:
    before_ns = clock.now_ns()
    with serving({"/metrics": http(200, VLLM)}) as server:
        target = scraped(server.url, clock)
        with scraping([target], folder, clock, interval_s=60):
            pass
    first, last = server_rows(folder)
    assert before_ns < first.at_ns < last.at_ns < clock.now_ns()
    assert (first.error, first.engine, first.requests, first.target) == (None, "vllm", 83, f"{server.url}/metrics")
    (path,) = folder.raw_metrics_dir.iterdir()
    pages = list(read_raw_pages(path))
    assert [(page.at_ns, page.target) for page in pages] == [(row.at_ns, row.target) for row in (first, last)]
    again = [server_sample(read_page(p.body), at_ns=p.at_ns, target=p.target, scrape_ms=first.scrape_ms) for p in pages]
    assert again[0] == first
    assert pages[0].body == VLLM


def test_the_time_of_a_row_is_when_the_first_byte_came_not_the_last(folder: RunFolder, clock: Clock) -> None:
    sent_ns: list[int] = []

    def serve(sock: Any, _address: Any) -> None:
        sock.recv(65536)
        answer = waiting(1)
        sock.sendall(answer[:40])
        sent_ns.append(clock.now_ns())
        gevent.sleep(0.2)
        sent_ns.append(clock.now_ns())
        sock.sendall(answer[40:])

    server = StreamServer(("127.0.0.1", 0), serve)
    server.start()
    target = scraped(f"http://127.0.0.1:{server.server_port}", clock)
    rows, raw = target.scrape(clock)
    server.stop()
    (row,) = rows.server
    assert raw is not None
    assert row.error is None
    assert row.at_ns < sent_ns[1]
    assert row.scrape_ms is not None
    assert row.scrape_ms >= 190


def test_scrapes_go_on_by_themselves_and_a_look_is_there_when_it_returns(folder: RunFolder, clock: Clock) -> None:
    with serving({"/metrics": counting()}) as server:
        found = Scraper([scraped(server.url, clock)], folder, clock, interval_s=0.01, on_trouble=pytest.fail)
        found.start()
        assert len(server_rows(folder)) == 1  # there is a row before the first stage begins
        until(lambda: len(server_rows(folder)) >= 4)
        asked_ns = clock.now_ns()
        found.look()
        assert server_rows(folder)[-1].at_ns > asked_ns
        assert found.newest == {f"{server.url}/metrics": server_rows(folder)[-1]}
        stopped_ns = clock.now_ns()
        found.stop()
        rows = server_rows(folder)
        assert rows[-1].at_ns > stopped_ns  # and one after the last has ended
        assert [row.waiting for row in rows[:4]] == [1, 2, 3, 4]
        found.stop()
        assert len(server_rows(folder)) == len(rows)


def test_one_that_never_answers_holds_up_no_other(
    folder: RunFolder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SCRAPE_S", 0.3)
    with serving({"/metrics": counting()}) as fast, serving({"/metrics": never}) as slow:
        with scraping([scraped(slow.url, clock), scraped(fast.url, clock)], folder, clock):
            until(lambda: sum(row.target.startswith(slow.url) for row in server_rows(folder)) >= 3)
        rows = server_rows(folder)
    late = [row for row in rows if row.target.startswith(slow.url)]
    assert {row.error for row in late} == {"no answer within 0.3 s"}
    assert all(row.running is None for row in late)
    # While it was waited for, the other one was read several times over.
    between = [row for row in rows if row.target.startswith(fast.url) and late[1].at_ns < row.at_ns < late[2].at_ns]
    assert len(between) >= 2


def test_a_server_that_dies_leaves_rows_that_say_so_and_comes_back(folder: RunFolder, clock: Clock) -> None:
    first = Pages({"/metrics": waiting(1)})
    with scraping([scraped(first.url, clock)], folder, clock):
        until(lambda: len(server_rows(folder)) >= 2)
        first.stop()
        until(lambda: any(row.error is not None for row in server_rows(folder)))
        second = Pages({"/metrics": waiting(2)}, port=first.port)
        until(lambda: server_rows(folder)[-1].waiting == 2)
    second.stop()
    states = [row.waiting if row.error is None else "dead" for row in server_rows(folder)]
    assert list(dict.fromkeys(states)) == [1.0, "dead", 2.0]
    error = next(row.error for row in server_rows(folder) if row.error is not None)
    assert error == f"no connection: 127.0.0.1:{first.port}: Connection refused"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (http(501, {"error": {"message": "start it with --metrics"}}), "HTTP 501: start it with --metrics"),
        (http(404), "HTTP 404"),
        (http(302, Location="http://127.0.0.1:1/"), "HTTP 302"),
        (http(200, VLLM)[:-9], "the connection was closed before the page had ended"),
        (http(200, b"<html><title>Hi</title>"), "a web page, not metrics: 'Hi'"),
        (b"SSH-2.0\r\n\r\n", "not an HTTP/1.1 response: Expected HTTP/"),
    ],
    ids=["refused", "missing", "elsewhere", "cut", "web", "other"],
)
def test_what_is_no_page_is_a_row_with_the_reason(clock: Clock, answer: bytes, error: str) -> None:
    with serving({"/metrics": answer}) as server:
        (row,) = scraped(server.url, clock).scrape(clock)[0].server
    assert row.error is not None
    assert row.error.startswith(error)


def test_a_page_without_end_is_given_up(clock: Clock) -> None:
    def serve(sock: Any, _address: Any) -> None:
        sock.recv(65536)
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with contextlib.suppress(OSError):
            for _ in range(10_000):
                sock.sendall(b"vllm:num_requests_running 1\n" * 1000)

    server = StreamServer(("127.0.0.1", 0), serve)
    server.start()
    rows, raw = scraped(f"http://127.0.0.1:{server.server_port}", clock, most_bytes=100_000).scrape(clock)
    server.stop()
    assert [row.error for row in rows.server] == ["the page is longer than 100,000 bytes"]
    assert raw is None


def test_a_fault_of_ours_is_a_row_too(folder: RunFolder, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(MetricsReading, "read", broken)
    with serving({"/metrics": http(200, VLLM)}) as server, scraping([scraped(server.url, clock)], folder, clock):
        until(lambda: len(server_rows(folder)) >= 2)
    assert {row.error for row in server_rows(folder)} == {"KeyError: 'x'"}


def test_another_engine_may_take_the_address_over(clock: Clock) -> None:
    pages: dict[str, Answer] = {"/metrics": waiting(3)}
    with serving(pages) as server:
        target = scraped(server.url, clock)
        assert [row.engine for row in target.scrape(clock)[0].server] == ["vllm"]
        pages["/metrics"] = http(200, b"llamacpp:requests_deferred 5\n")
        assert "none of the 1 metrics" in str(target.scrape(clock)[0].server[0].error)
        (row,) = target.scrape(clock)[0].server
    assert (row.engine, row.waiting) == ("llamacpp", 5)


# --- connections -----------------------------------------------------------------------------------------------------


@contextmanager
def keeping(answers: Iterator[bytes | None]) -> Iterator[tuple[str, list[int]]]:
    """A server that keeps connections; ``None`` closes one instead of an answer. Yields requests by connection."""
    served: list[int] = []

    def serve(sock: Any, _address: Any) -> None:
        place = len(served)
        served.append(0)
        while sock.recv(65536):
            served[place] += 1
            answer = next(answers)
            if answer is None:
                return
            sock.sendall(answer)

    server = StreamServer(("127.0.0.1", 0), serve)
    server.start()
    try:
        with gevent.Timeout(20):
            yield f"http://127.0.0.1:{server.server_port}", served
    finally:
        server.stop(timeout=1)


def test_a_connection_is_kept_for_the_next_scrape(clock: Clock) -> None:
    with keeping(iter([waiting(k) for k in range(3)])) as (url, served):
        target = scraped(url, clock)
        assert [target.scrape(clock)[0].server[0].waiting for _ in range(3)] == [0, 1, 2]
        target.probe.close()
    assert served == [3]


def test_a_kept_connection_that_was_closed_meanwhile_is_no_error(clock: Clock) -> None:
    with keeping(iter([waiting(0), None, waiting(2)])) as (url, served):
        target = scraped(url, clock)
        rows = [target.scrape(clock)[0].server[0] for _ in range(2)]
    assert [(row.error, row.waiting) for row in rows] == [(None, 0), (None, 2)]
    assert served == [2, 1]


def test_a_new_connection_that_is_closed_at_once_is_one(clock: Clock) -> None:
    with keeping(iter([None])) as (url, served):
        (row,) = scraped(url, clock).scrape(clock)[0].server
    assert row.error == "the connection was closed without an answer"
    assert served == [1]


def test_json_can_be_asked_for_with_a_body() -> None:
    with serving({"/api/show": http(200, {"ok": 1})}) as server:
        assert Probe(server.url, {"Authorization": "Bearer abcd-1"}).post("/api/show", {"a": 1}, timeout_s=5).json()
    (head,) = server.heads
    assert head.startswith("POST /api/show HTTP/1.1\r\n")
    assert "\r\nContent-Type: application/json\r\nContent-Length: 7" in head
    assert "\r\nAuthorization: Bearer abcd-1\r\n" in head


def test_the_time_of_asking_is_bounded_with_a_kept_connection_too(clock: Clock) -> None:
    def answers() -> Iterator[bytes | None]:
        yield waiting(0)
        Event().wait(20)

    with keeping(answers()) as (url, _):
        probe = Probe(url, {}, clock=clock, keep_alive=True)
        probe.get("/metrics", timeout_s=5)
        with pytest.raises(NoPage, match=r"no answer within 0\.05 s"):
            probe.get("/metrics", timeout_s=0.05)


# --- devices ---------------------------------------------------------------------------------------------------------


def test_a_page_of_devices_leaves_rows_of_devices_and_none_of_a_server(folder: RunFolder, clock: Clock) -> None:
    devices = Pages({"/metrics": http(200, OURS)})
    with serving({"/metrics": http(200, VLLM)}) as server:
        targets = [scraped(server.url, clock), scraped(devices.url, clock)]
        with scraping(targets, folder, clock):
            until(folder.devices_csv.exists)
            devices.stop()
            until(lambda: any(row.error is not None for row in read_device_rows(folder.devices_csv)))
    assert {row.target for row in server_rows(folder)} == {f"{server.url}/metrics"}
    rows = read_device_rows(folder.devices_csv)
    assert rows[0] == DeviceSample(
        at_ns=rows[0].at_ns,
        source=f"{devices.url}/metrics",
        session="s1",
        kind="process",
        pid=7,
        name="vllm",
        memory_kind="ram",
        rss_bytes=4096,
    )
    lost = next(row for row in rows if row.error is not None)
    assert (lost.session, lost.pid, lost.kind, lost.rss_bytes) == ("s1", 7, "process", None)
    assert str(lost.error).startswith("its page was not read: no connection")
    # ... so that what the server itself says is not spoilt.
    ends = [row.at_ns for row in server_rows(folder)]
    assert server_figures(server_rows(folder), (ends[0], ends[-1])).running_peak == 0


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_once_and_the_rows_are_kept(
    folder: RunFolder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving({"/metrics": counting()}) as server:
        with scraping([scraped(server.url, clock)], folder, clock) as trouble:
            write = module.RowFile._write

            def full(_: object) -> None:
                raise OSError(28, "No space left on device")

            monkeypatch.setattr(module.RowFile, "_write", full)
            until(lambda: len(server.asked) >= 4)
            monkeypatch.setattr(module.RowFile, "_write", write)
        rows = server_rows(folder)
    assert trouble == [f"{folder.server_csv} cannot be written: No space left on device"]
    assert [row.waiting for row in rows[:3]] == [1, 2, 3]  # the second and third came while the disk was full


def test_without_a_page_there_is_no_file_of_pages(folder: RunFolder, clock: Clock) -> None:
    with scraping([scraped(f"http://127.0.0.1:{free_port()}", clock)], folder, clock):
        pass
    assert list(folder.raw_metrics_dir.iterdir()) == []
    assert len(server_rows(folder)) == 2


def test_a_run_folder_that_is_not_there_is_refused(tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        Scraper([], RunFolder(tmp_path / "missing"), clock, on_trouble=pytest.fail)


def test_a_killed_writer_loses_the_page_that_it_was_writing(tmp_path: Path) -> None:
    path = tmp_path / "page.txt.gz"
    pages = RawPages(path)
    written = [RawPage(k, "http://a/metrics", body) for k, body in enumerate((VLLM, b"", b"# llm-locust page x\n"), 1)]
    for page in written:
        pages.append(page)
    pages.close()
    assert list(read_raw_pages(path)) == written
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        assert list(read_raw_pages(path)) == written[: len(list(read_raw_pages(path)))]
    again = RawPages(path.with_name("again"))
    again.append(written[0])
    again.close()
    RawPages(again.path).append(written[1])
    assert list(read_raw_pages(again.path)) == written[:2]


def test_a_page_that_does_not_fit_leaves_the_file_whole(tmp_path: Path) -> None:
    pages = RawPages(tmp_path / "page.txt.gz")
    pages.append(RawPage(1, "http://a/metrics", VLLM))
    size = os.path.getsize(pages.path)
    resource = pytest.importorskip("resource")
    signal = pytest.importorskip("signal")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, limits[1]))
        with pytest.raises(OSError):
            pages.append(RawPage(2, "http://a/metrics", VLLM))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)
    assert os.path.getsize(pages.path) == size
    pages.append(RawPage(3, "http://a/metrics", b""))
    assert [page.at_ns for page in read_raw_pages(pages.path)] == [1, 3]


@pytest.mark.parametrize("content", [b"plain text", b"\x1f\x8b\x08\x00"])
def test_a_file_that_holds_no_pages_is_refused_or_empty(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.txt.gz"
    path.write_bytes(content)
    if content.startswith(b"\x1f"):
        assert list(read_raw_pages(path)) == []  # the beginning of a page that was never finished
    else:
        with pytest.raises(UsageError, match="not a file of raw pages"):
            list(read_raw_pages(path))


def test_every_address_has_a_file_of_its_own() -> None:
    given = ["http://a:1/metrics", "https://a:1/metrics", "http://[::1]:2/../x", "http://b/" + "y" * 300]
    names = file_names(given)
    assert list(names) == given
    assert names["http://a:1/metrics"] == "a-1-metrics.txt.gz"
    assert names["https://a:1/metrics"] == "a-1-metrics-2.txt.gz"
    assert len(set(names.values())) == 4
    assert all("/" not in name and len(name) < 120 for name in names.values())


# --- targets ---------------------------------------------------------------------------------------------------------


def test_which_pages_are_meant() -> None:
    host = "http://a:8000/v1/"
    own = MetricsTarget("http://a:8000", "/metrics", asked_for=False)
    assert metrics_targets([], host) == [own]
    assert metrics_targets(["off"], host) == []
    assert metrics_targets(["host", "http://b:9400/metrics", "https://c", "http://b:9400/metrics"], host) == [
        MetricsTarget("http://a:8000", "/metrics"),
        MetricsTarget("http://b:9400", "/metrics"),
        MetricsTarget("https://c", "/metrics"),
    ]
    assert [target.url for target in metrics_targets(["http://[::1]:80/x/y"], host)] == ["http://[::1]/x/y"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["off", "host"], "--metrics off reads no page at all"),
        (["no"], "--metrics 'no': write an address with http://, host or off"),
        (["http://u:secret@b/metrics"], "credentials"),
        (["http://b/metrics?key=1"], "leave out what follows the path"),
    ],
)
def test_an_address_that_is_none_is_refused(given: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        metrics_targets(given, "http://a")
    assert "secret" not in str(refused.value)


def test_the_key_goes_to_the_origin_of_the_load_and_nowhere_else() -> None:
    key = {"Authorization": "Bearer abcd-1234"}
    host = "https://A.example/v1"
    for word, sent in (
        ("host", key),
        ("https://a.example:443/other/metrics", key),
        ("http://a.example/metrics", {}),
        ("https://a.example:8443/metrics", {}),
        ("https://b.example/metrics", {}),
    ):
        (target,) = metrics_targets([word], host)
        assert headers_for(target, host, key) == sent, word
