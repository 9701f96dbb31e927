"""``errors.md``: every message that a mistake of a user's can bring up, its cause and its mend; and what outcomes mean."""

from __future__ import annotations

import re
from typing import NamedTuple

from docs.generate.markdown import code, page, section, table, text
from docs.generate.raised import ALLOWED, Raised, answered, parts_of, raised
from docs.generate.source import members

ROOMS = {
    "locustfiles": "Locustfiles",
    "shapes": "Shapes",
    "plugin": "Options and the start of a run",
    "users": "Users: bodies, headers, checks",
    "workload": "Prompts and lengths",
    "arrivals": "Arrivals and traces",
    "dispatch": "Master and workers",
    "streaming": "Addresses and requests",
    "telemetry": "Readiness, metrics, devices",
    "records": "Limits, gates, facts, and files of a run",
    "analysis": "Merge, comparison, import, release",
    "report": "Reports",
    "sizing": "Sizing",
    "cli": "Subcommands",
    "matrix": "Matrix",
    "smoke": "Smoke test",
    "simulator": "The synthetic engine",
    "web": "Web pages and the exporter",
}


class Remedy(NamedTuple):
    """What to do where a message itself cannot say it: somebody else's words are its last."""

    pattern: str
    """Of the whole message."""
    mend: str
    why: str
    """Why the message does not say it."""


REMEDIES: tuple[Remedy, ...] = (
    Remedy(
        r"requests\.csv|of this version|not a (device|server) sample|not a sample|not a file of|not a manifest|"
        r"not a summary|not an envelope|not an evidence record|not JSON, so not|not the state of a matrix|raw pages",
        "Give the file that this version wrote, whole; `llm-locust merge RUN` makes everything but the raw files anew.",
        "files of a run are written by the program: where one cannot be read, it is damaged, or of another version",
    ),
    Remedy(r"^\{path\}:\{line\}: ", "Mend that line of the file, or take it out.", "the message names line and value"),
    Remedy(
        r"^\{path\}, line \{(line|first_line)\}: ",
        "Take the damaged file out of the run folder, or put its worker's own copy in its place, and merge again.",
        "rows are written by the program: a damaged one cannot be mended by hand",
    ),
    Remedy(
        r"^the numbers disagree|does not list; is the manifest|not of this run as it was planned",
        "Put the raw files of this run, all of one time, into its folder and merge again; else run again.",
        "only a person knows which of the files is the wrong one",
    ),
    Remedy(
        r"not JSON|not TOML|not UTF-8|not a JSON|no JSON list|not a tokenizer|nested too deeply",
        "Mend the file where the message's last words point.",
        "the parser's words say where and what",
    ),
    Remedy(
        r"\{reason\}\)?$|no such file|: \{reason\}",
        "Check the path, and the rights on it: the last words are the operating system's.",
        "only the operating system knows",
    ),
    Remedy(r"is too long for a number|too many digits", "Write fewer digits.", "which number is meant, a person knows"),
    Remedy(
        r"as this version reads it|has no start|not of one length|date '.*not of the form|is no number|not the summary",
        "Give the file as the other program wrote it, whole, in a version that `llm-locust import --help` lists.",
        "files of other programs are read as they were written",
    ),
    Remedy(
        r"can be printed|is not text",
        "Paste readable text; the workbench reads no binary data.",
        "it is unknown what was meant to be there",
    ),
    Remedy(
        r"^\{typed\} is not a finite number",
        "Write a number of ordinary digits.",
        "it is unknown which number was meant",
    ),
    Remedy(
        r"cannot make a request|cannot list its stages|wrong value: ",
        "Mend the class at the file and line that the message ends with.",
        "the mistake is in code of the user's own; the exception names it",
    ),
    Remedy(
        r"\{(error|why|probe|name|told)\}\)?\.?$",
        "What follows the last colon is a message of its own; look that one up.",
        "the message passes another one on",
    ),
    Remedy(
        rf"{ALLOWED}|\{{meaning\}} is \{{rule\}}", "", "the message states what is allowed, said again as what to give"
    ),
)
"""The visible list of messages without a mend of their own, tried in order."""

OUTCOMES = {
    "CANCELLED": "Nothing, if you meant it (`--cancel`, Ctrl-C twice). Else see who stopped the run.",
    "TIMEOUT": "Compare E2E of the ok requests with `--deadline`. Raise the deadline, lower the rate or the output limit.",
    "CONNECT_ERROR": "Check the address, the port, the certificate (`--ca-file`) and the server's backlog.",
    "CONNECTION_LOST": "Look at the server's log at that time (`X-Request-Id` names the request) and at the time limits of "
    "proxies between.",
    "OOM": "Lower `--max-num-seqs`, the context or the KV cache's share of memory on the server; one makes the stage fail.",
    "REJECTED": "The server refuses what it cannot take: a result, not a fault. Lower the rate or raise its queue limit.",
    "HTTP_ERROR": "Read the error text in `requests.csv`. 401: the key; 404: path or model; 400: a field or the length.",
    "NOT_STREAMED": "Have the server stream, or ask for whole replies with `--no-stream`.",
    "STREAM_ERROR": "Read the error text in `requests.csv` and the server's log: it gave up after it had begun.",
    "PROTOCOL_ERROR": "Check that the address is the API's and not a web page's, and that the user class "
    "speaks its dialect.",
    "TRUNCATED": "Look for a proxy that cuts long replies, and for the server's log at that time.",
    "EMPTY": "Check the chat template, the stop texts and the output limit.",
    "OK": "",
    "GENERATOR_ERROR": "Raise `ulimit -n`, use fewer connections per worker, check the name server. The stage is invalid.",
    "NOT_SENT": "Raise `--max-in-flight` or the deadline; or nothing, where you stopped the run.",
    "LOST": "Look at the worker's log: it died. Merge its own files with `--from`, if they are there.",
}


def mend_of(found: Raised) -> str | None:
    """What to do, from the message or from the list above; ``None``: neither says."""
    parts = parts_of(found.message)
    if parts.mend is not None:
        return _sentence(parts.mend)
    remedy = next((remedy for remedy in REMEDIES if _fits(remedy, found)), None)
    if remedy is None:
        return None
    return remedy.mend or allowed_in(parts.wrong)


_VALUE = r",? (?:and )?(?:not|cannot be) (?:an? )?'?\{[^}]*\}'?(?: s)?$"
"""What was given instead, at the end of what is allowed."""
_NEEDED = (
    (r"the weights sum to 0", "Give at least one slice a weight above 0."),
    (r"at least two runs: (.+)", "Name two run folders or more: {}."),
    (r"no worker-", "Give the folder in which a worker kept its files."),
    (r"^for example (.+)", "Write for example {}."),
    (r"more than all requests", "Give shares whose sum is at most 1."),
    (r"so write (.+)", "Write {}."),
    (r"a name has no blanks", "Give a name without blanks and colons, and no line break in it or in the value."),
    (r"the median is (.+)", "Give a median of {}."),
    (r"its name is (.+)", "Give a name {}."),
    (r"lengths go from (.+) upwards", "Give lengths of {}."),
    (r"longer than (.+)", "Give at most {}."),
    (r"takes nothing after it", "Leave out what follows the name."),
    (r"(?:must|should) be of the kind of (.+)", "Give a value of the kind of {}."),
    (r"(?:must|should) be (at (?:least|most) .+)", "Give {}."),
    (r"(?:must|should) be (?=greater than|from)(.+)", "Give a value {}."),
    (r"(?:must|should) be (.+)", "Give {}."),
    (r"is held by (.+)", "Hold it by {}."),
    (r"can only be held to (.+)", "Hold it to {}."),
    (r"\bis (at (?:least|most) .+)", "Give {}."),
    (r"\bis (?=from |\{rule\})(.+)", "Give a value {}."),
    (r"(?:goes|go|is a number|it is) (from .+)", "Give a value {}."),
    (r"below 0|cannot be negative", "Give 0 or more."),
    (r"port 0 cannot", "Give a port from 1 to 65535."),
    (r"[=}]: (.+)", "Give {}."),
    (r"^((?:from|above|greater than) .+)", "Give a value {}."),
    (r"\bis ((?:an?|seconds)\b.+)", "Give {}."),
    (r"^not ((?:an?) .+)", "Give {}."),
    (r"is not (an? .+)", "Give {}."),
    (r"^((?:an?|true|one|seconds|numbers?)\b.+)", "Give {}."),
    (r"(at (?:least|most) .+)", "Give {}."),
    (r"(.+)", "Needed: {}."),
)
"""Ways in which a message states what is allowed, and the same as an order."""


def allowed_in(wrong: str) -> str:
    """What a message allows, said as what to give."""
    said = re.sub(_VALUE, "", wrong)
    for pattern, order in _NEEDED:
        if found := re.search(pattern, said):
            return text(order.format(found[1] if found.groups() and found[1] else "").replace(" .", "."))
    raise AssertionError("the last pattern fits all")


def _sentence(mend: str) -> str:
    mend = re.sub(r"^e\.g\. ", "for example ", mend)
    typed = re.match(r"pip |llm-locust |ollama ", mend)
    return text(mend if typed else mend[:1].upper() + mend[1:])


def _fits(remedy: Remedy, found: Raised) -> bool:
    return re.search(remedy.pattern, found.message, re.IGNORECASE) is not None


def errors_page() -> str:
    """The page."""
    found = raised()
    rooms = dict.fromkeys(each.room for each in found)
    return page(
        "Errors and what to do",
        "A mistake that a user can make is answered by one sentence on standard error and exit status 2, with no traceback. "
        "Below is every such sentence, by the part of the program that says it; `{...}` stands for what is filled in. "
        "An error of ours keeps its traceback: please report it.\n\n"
        "Find yours by its unchanging words. Where a message ends with somebody else's words (`{reason}`: the operating "
        "system's; `{error}`: a parser's, or another message of this page), the mend is a general one.",
        section(
            "Outcomes",
            "What became of a request, in the column `outcome` of `requests.csv` and in every report.",
            table(("outcome", "cause", "what to do"), _outcomes()),
        ),
        *(
            section(
                ROOMS.get(room, room),
                table(
                    ("message", "cause", "what to do"), dict.fromkeys(_row(each) for each in found if each.room == room)
                ),
            )
            for room in sorted(rooms, key=lambda room: [*ROOMS, room].index(room))
        ),
        section(
            "What a server answers before load",
            "One checked request is sent before the first stage. What is found in its answer is said so, with the "
            "server's own words and the address between the two.",
            table(("cause", "what to do"), ((text(each.cause), text(each.remedy)) for each in answered())),
        ),
        section(
            "Messages without a mend of their own",
            "Why they have none, and how many there are.",
            table(
                ("why", "what to do", "messages"),
                ((text(r.why), r.mend or "As the message's row says.", str(n)) for r, n in _without(found).items()),
            ),
        ),
    )


def _without(found: list[Raised]) -> dict[Remedy, int]:
    bare = [each for each in found if parts_of(each.message).mend is None]
    first = [next((remedy for remedy in REMEDIES if _fits(remedy, each)), None) for each in bare]
    return {remedy: first.count(remedy) for remedy in REMEDIES if remedy in first}


def _row(found: Raised) -> tuple[str, str, str]:
    parts = parts_of(found.message)
    return code(parts.where), text(parts.wrong), mend_of(found) or ""


def _outcomes() -> list[tuple[str, str, str]]:
    from llm_locust.records import outcomes

    docs = members(outcomes, "Outcome")
    return [(code(outcome), text(docs[outcome.name]), OUTCOMES[outcome.name]) for outcome in outcomes.Outcome]
