"""The options of this project: a group of their own on Locust's command line, in its config file, and as variables."""

from __future__ import annotations

from typing import NamedTuple

from locust.argument_parser import LocustArgumentParser

from llm_locust.arrivals import PROCESSES
from llm_locust.arrivals.traces import FORMATS
from llm_locust.users.checks import CHECKS
from llm_locust.workload.lengths import FORMS
from llm_locust.workload.sessions import FORM as SESSIONS_FORM
from llm_locust.workload.shared_prefix import FORM as PREFIX_FORM

GROUP = "LLM options"


class Option(NamedTuple):
    """One option: a value, a bare flag (no metavar), or a value that may be repeated."""

    flag: str
    default: str | None
    metavar: str | None
    meaning: str
    repeated: bool = False
    several: bool = False
    """Repeated, and several values may follow one flag."""
    alone: str | None = None
    """The value of the flag without one; ``None``: it needs one."""

    @property
    def name(self) -> str:
        """As an attribute of the parsed options."""
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "LOCUST_LLM_" + self.name.upper()


OPTIONS: tuple[Option, ...] = (
    Option("--rates", None, "R1,R2,...", "Arrival rates of the ladder in requests per second, e.g. 0.5,1,2"),
    Option("--stage-time", "60", "SECONDS", "Measurement window of a stage (90, 90s, 5m)"),
    Option(
        "--warmup-time",
        None,
        "SECONDS",
        "Load before the window, not measured. Default: twice the e2e limit, at least 10 s",
    ),
    Option(
        "--cooldown",
        None,
        "SECONDS",
        "Load goes on after the window until its requests have ended, at most this long. "
        "Default: the e2e limit, else 30 s",
    ),
    Option("--requests", None, "N", "Measured requests of an open stage, instead of --stage-time"),
    Option(
        "--rounds", "1", "N", "Repeat every stage so often, each time with fresh arrivals and prompts; three to publish"
    ),
    Option("--shuffle", None, None, "The stages of each round in an order of their own, decided by the seed"),
    Option("--concurrency", None, "C1,C2,...", "Requests in flight of the concurrency ladder, e.g. 1,2,4,8"),
    Option("--repeats", None, "N", "Requests of a closed stage for each one in flight, instead of --stage-time"),
    Option(
        "--arrivals",
        "poisson",
        "PROCESS",
        "Arrival process, with parameters if it has any: " + ", ".join(kind.form for kind in PROCESSES.values()),
    ),
    Option("--resolution", "0.1", "SHARE", "Of the capacity search: how close first fail and last pass are to come"),
    Option("--max-stages", "20", "N", "Of the capacity search: end it after so many stages"),
    Option(
        "--burst",
        "gamma:cv=3",
        "PROCESS",
        "The bursty process: of the capacity search's last stage, and of shapes/burst.py",
    ),
    Option("--trace", None, "FILE", "A production trace to play again, and whose lengths prompts get"),
    Option("--trace-format", None, "FORMAT", f"{', '.join(FORMATS)}. Default: as its first line looks"),
    Option("--time-scale", "1", "FACTOR", "Duration of a replay over that of the trace: 0.1 is ten times as fast"),
    Option(
        "--rate-scale", "1", "FACTOR", "Arrivals over those of the trace: thinned below 1, laid over themselves above"
    ),
    Option("--trace-from", None, "SECONDS", "Where the slice of the trace begins, in its own time (90, 90s, 5m)"),
    Option("--trace-to", None, "SECONDS", "Where it ends"),
    Option(
        "--trace-jitter",
        None,
        None,
        "Move arrivals inside the trace's time resolution, where they were somewhere anyway",
    ),
    Option("--idle", "0", "SECONDS", "Of shapes/cold_start.py: send nothing for so long before the first request"),
    Option(
        "--unload", None, None, "Of shapes/cold_start.py: have the model unloaded before the first request (Ollama)"
    ),
    Option(
        "--cold-share",
        None,
        "SHARE",
        "Of shapes/cold_start.py: the share of requests that find the model unloaded (Ollama)",
    ),
    Option("--seed", "1", "N", "Seed of arrivals and synthetic prompts"),
    Option(
        "--max-in-flight",
        None,
        "N",
        "Hold requests back beyond N in flight, over all workers; the wait is reported as cap wait. Default: no cap",
    ),
    Option(
        "--deadline", "120", "SECONDS", "Wall-clock limit of a whole request, stream included; then it is a timeout"
    ),
    Option(
        "--slo",
        None,
        "LIMITS",
        "Latency limits per request in milliseconds, judged jointly, e.g. ttft=500,tpot=100,e2e=3000; quality: its check "
        "passed",
    ),
    Option(
        "--gate",
        None,
        "GATE ...",
        "What a stage must hold to pass, instead of the defaults: 'ttft_p95<=1000' 'attainment>=0.99' 'http_503=0' "
        "'faq:ttft_p95<=800', or a TOML file of them; fixed before load",
        True,
        True,
    ),
    Option(
        "--quality",
        None,
        "CHECK",
        "Check every reply: "
        + ", ".join(kind.form for kind in CHECKS.values())
        + "; --slo quality makes it part of good",
    ),
    Option(
        "--cancel",
        None,
        "PLAN",
        "Users who leave: share=0.1,after=2s or share=0.1,tokens=20 drops that share of requests; they count as failed",
    ),
    Option("--model", None, "NAME", "Model to ask for. Default: the first that the server lists"),
    Option("--max-tokens", "128", "N", "Output limit of requests whose prompt names none"),
    Option(
        "--prompts",
        None,
        "FILE",
        "Prompts as JSONL (prompt or messages, and max_tokens) or as ShareGPT JSON. Default: synthetic prompts",
    ),
    Option("--input-tokens", None, "LENGTH", f"Made-up prompts of this length: {', '.join(FORMS)} (of --trace)"),
    Option("--output-tokens", None, "LENGTH", "Output limits of prompts that name none, likewise"),
    Option(
        "--shared-prefix",
        None,
        "PREFIX",
        f"Made-up prompts that share a beginning: {PREFIX_FORM} is nine tenths of each, of four, the commonest first",
    ),
    Option(
        "--sessions",
        None,
        "SESSIONS",
        f"Made-up conversations: {SESSIONS_FORM} takes 2 s before each turn but the first",
    ),
    Option("--mix", None, "FILE", "TOML of named slices, each with its weight and any of these options"),
    Option(
        "--tokenizer",
        "auto",
        "TOKENIZER",
        "What lengths are counted by: server (its /tokenize), a tokenizer.json, or estimate. auto: the server, if it can",
    ),
    Option(
        "--workload-kind",
        None,
        "KIND",
        "What the prompts of a file are: representative (of your users; the default) or synthetic",
    ),
    Option("--temperature", None, "T", "Sampling temperature, over what the user class says"),
    Option("--top-p", None, "P", "Nucleus sampling"),
    Option("--sampling-seed", None, "N", "Seed of the server's sampling"),
    Option("--stop", None, "TEXT", "Text at which a reply stops", True),
    Option("--ignore-eos", None, None, "Replies go on to their output limit (vLLM, SGLang, llama.cpp)"),
    Option("--min-tokens", None, "N", "The least to be generated (vLLM); limit: as much as the output limit"),
    Option("--reuse-prompts", None, None, "Every stage and round measures with the same prompts; said in the records"),
    Option(
        "--reset-prefix-cache",
        None,
        None,
        "Have the server forget cached prefixes before every stage (vLLM in development mode, SGLang)",
    ),
    Option("--no-stream", None, None, "Ask for whole replies: no TTFT or TPOT then, and no limits on them"),
    Option(
        "--api-key-env",
        None,
        "NAME",
        "Environment variable that holds the API key on each worker. Default: LLM_LOCUST_API_KEY, then OPENAI_API_KEY",
    ),
    Option(
        "--basic-auth-env",
        None,
        "NAME",
        "Environment variable that holds user:password on each worker, sent as Basic credentials instead of a key",
    ),
    Option("--header", None, "'NAME: VALUE'", "A further request header; a secret as 'NAME: @env:VARIABLE'", True),
    Option("--extra-body", None, "JSON", 'Fields for every request\'s body, e.g. \'{"temperature": 0, "seed": 1}\''),
    Option("--ca-file", None, "FILE", "PEM certificates to trust instead of the system's"),
    Option("--insecure", None, None, "Do not verify the server's certificate; said loudly, and recorded"),
    Option(
        "--proxy",
        None,
        "URL",
        "Send everything through the HTTP proxy at http://HOST:PORT; user:password for it in LLM_LOCUST_PROXY_AUTH. "
        "Default: none, whatever HTTP_PROXY says",
    ),
    Option("--ready-timeout", "60", "SECONDS", "How long to wait for the server to be up before the first stage"),
    Option("--max-requests", None, "N", "Budget: send at most N requests in the whole run"),
    Option("--max-output-tokens", None, "N", "Budget: let at most N tokens be generated in the whole run"),
    Option("--max-minutes", None, "MINUTES", "Budget: stop sending after so many minutes"),
    Option("--max-failures", "20", "N", "End a stage when N requests in a row have failed; 0: never"),
    Option("--stop-on-fail", None, None, "End the ladder after its first failing stage"),
    Option("--require-rate", None, "R", "Exit with 3 unless a rate of at least R per second was sustained"),
    Option("--require-pass", None, None, "Exit with 3 unless every stage passed"),
    Option(
        "--facts", None, "FILE", "TOML of what a client cannot see (llm-locust facts --template); goes into the records"
    ),
    Option(
        "--metrics",
        None,
        "URL",
        "A page of metrics to read during the run, again for more: replicas, NVIDIA's DCGM exporter, llm-locust telemetry "
        "--port. host is the server's own /metrics, off reads none. Default: host, if it has one",
        True,
    ),
    Option(
        "--metrics-interval",
        None,
        "SECONDS",
        "From one reading of a metrics page to the next. Default: 1 s, or a twentieth of a stage shorter than 20 s",
    ),
    Option("--metrics-map", None, "FILE", "Which metrics are which, as TOML, for an engine that is not known"),
    Option(
        "--prometheus-port",
        None,
        "PORT",
        "Serve the run as Prometheus metrics from the master, on this port (9646 by custom). Default: they are not served",
    ),
    Option(
        "--prometheus-host", "127.0.0.1", "ADDRESS", "Where to serve them; 0.0.0.0 is every address of this machine"
    ),
    Option(
        "--json-lines",
        None,
        "FILE",
        "Tell of the run as JSON, an object a line, for machines: figures every second, and events. FILE is appended to; "
        "without it, or as -, lines go to standard output, and all else to standard error",
        alone="-",
    ),
    Option("--dry-run", None, None, "Print stages, time, samples and cost, and send nothing"),
    Option(
        "--price-per-hour",
        None,
        "PRICE",
        "What the machines under test cost per hour (dry run, report, release)",
    ),
    Option("--price-input", None, "PRICE", "For the dry run: what a million input tokens cost"),
    Option("--price-output", None, "PRICE", "For the dry run: what a million output tokens cost"),
    Option(
        "--no-html", None, None, "Leave out report.html and the data of its charts; llm-locust report makes them later"
    ),
    Option("--run-dir", "runs", "DIR", "Where run folders are made"),
    Option(
        "--web-trusted",
        None,
        None,
        "Whoever may use the web UI may also name files of this machine, environment variables, headers and a proxy, and "
        "send a key to any host",
    ),
)

REACHES_IN: frozenset[str] = frozenset(
    {
        "prompts", "mix", "trace", "trace_format", "facts", "metrics_map", "ca_file", "run_dir", "workload_kind",
        "api_key_env", "basic_auth_env", "header", "proxy", "insecure", "metrics",
    }
)  # fmt: skip
"""Options of a run that name files, folders, variables, credentials or where these go (and what only makes sense with
one): a web page sets them only with ``--web-trusted``."""

OF_THE_PROCESS: frozenset[str] = frozenset(
    {"prometheus_port", "prometheus_host", "json_lines", "dry_run", "price_input", "price_output", "web_trusted"}
)
"""Options of the process as a whole, or of its dry run: no web page sets them."""

OPTION_NAMES: tuple[str, ...] = tuple(option.name for option in OPTIONS)
DEFAULTS = {option.name: option.default for option in OPTIONS}


def add_options(parser: LocustArgumentParser) -> None:
    """Add the option group to Locust's parser."""
    group = parser.add_argument_group(GROUP)
    for option in OPTIONS:
        common = {"env_var": option.variable, "help": option.meaning + _default_note(option)}
        if option.metavar is None:
            action = group.add_argument(option.flag, action="store_true", default=False, **common)
        elif option.several:
            action = group.add_argument(option.flag, metavar="GATE", action="extend", nargs="+", **common)
        elif option.repeated:
            action = group.add_argument(option.flag, metavar=option.metavar, action="append", **common)
        elif option.alone is not None:
            action = group.add_argument(option.flag, metavar=option.metavar, nargs="?", const=option.alone, **common)
        else:
            action = group.add_argument(option.flag, metavar=option.metavar, default=option.default, **common)
        # Locust's own add_argument would set these; an argument group's does not, and the web UI's form asks for them.
        on_page = option.name not in REACHES_IN | OF_THE_PROCESS
        vars(action).update(include_in_web_ui=on_page, is_secret=False, is_required=False, is_multiple=False)


LOOPBACK = "127.0.0.1"


def bind_to_loopback(parser: LocustArgumentParser) -> None:
    """Have Locust's web UI listen on this machine alone unless ``--web-host`` says otherwise; Locust binds to all."""
    for action in parser._actions:
        if action.dest == "web_host":
            action.default = LOOPBACK
            action.help = (
                "Host to bind the web interface to; '*' is all interfaces of this machine (default: 127.0.0.1)"
            )


def _default_note(option: Option) -> str:
    return "" if option.default is None else f" (default: {option.default})"
