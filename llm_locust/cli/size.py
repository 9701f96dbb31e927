"""``llm-locust size``: how many requests at once a replica may be given, from what is known before a long measurement."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from llm_locust.analysis.words import number
from llm_locust.cli.model_options import COUNT, Amount, model_options, print_lines, read_model
from llm_locust.records import ExitCode, RunFolder
from llm_locust.records.run_folder import require_run
from llm_locust.records.summary import RunSummary
from llm_locust.sizing.capacity import WORDS, CapacityPlan, Demand, Headroom, Memory, Speed, capacity
from llm_locust.sizing.kv_cache import DEFAULT_BLOCK_TOKENS, KvEstimate, KvLoad, gib, kv_estimate
from llm_locust.sizing.measured_run import MeasuredRun, measured_run
from llm_locust.sizing.preflight import Model

_STANDARD = Headroom()


@click.command("size")
@click.option("--params-b", type=Amount(), metavar="N", help="Parameters of the model, in thousand millions.")
@click.option("--weight-bits", type=Amount(), metavar="BITS", help="Bits of one weight: 16, 8, 4, 4.5 with scales, ...")
@model_options
@click.option(
    "--context", "--tokens", type=COUNT, metavar="N", help="Tokens of the longest request, prompt and output together."
)
@click.option("--gpu-memory-gib", type=Amount(), metavar="GIB", help="Memory of one GPU.")
@click.option(
    "--reserve-gib",
    type=Amount(zero=True),
    metavar="GIB",
    help="What of it is neither weights nor KV cache: activations, CUDA graphs, workspace, driver, and the share that the "
    "engine leaves free.",
)
@click.option(
    "--measured-output-tokens-s",
    type=Amount(),
    metavar="N",
    help="Output tokens a second that the replica was measured to give.  [default: of --run]",
)
@click.option(
    "--per-request-tokens-s", type=Amount(), metavar="N", help="Output tokens a second that each request needs."
)
@click.option("--arrival-rps", type=Amount(), metavar="N", help="Requests a second, on average.")
@click.option("--mean-output-tokens", type=Amount(), metavar="N", help="Output tokens of a request, on average.")
@click.option(
    "--headroom-peaks", type=Amount(zero=True), default=_STANDARD.peaks, show_default=True, help="Share for peaks."
)
@click.option(
    "--headroom-retries",
    type=Amount(zero=True),
    default=_STANDARD.retries,
    show_default=True,
    help="Share for requests sent again.",
)
@click.option(
    "--headroom-length-tail",
    type=Amount(zero=True),
    default=_STANDARD.length_tail,
    show_default=True,
    help="Share for replies longer than the mean.",
)
@click.option(
    "--run",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="A merged run folder: up to where tail latency and error rate held, and the output tokens it gave.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(
    params_b: float | None,
    weight_bits: float | None,
    config: Path | None,
    layers: int | None,
    kv_heads: int | None,
    head_dim: int | None,
    kv_dtype: str | None,
    tp: int,
    block_size: int | None,
    context: int | None,
    gpu_memory_gib: float | None,
    reserve_gib: float | None,
    measured_output_tokens_s: float | None,
    per_request_tokens_s: float | None,
    arrival_rps: float | None,
    mean_output_tokens: float | None,
    headroom_peaks: float,
    headroom_retries: float,
    headroom_length_tail: float,
    run: Path | None,
    as_json: bool,
) -> None:
    """Recommend how many requests at once a replica is given: the least that memory, compute, tail latency and errors allow.

    Memory: what weights and reserve leave, divided by the KV cache of one request. Compute: measured output divided by what
    each request needs. Tail latency and error rate: the highest point of a measured run that held its limits. Demand and
    its headroom are held against the supply. It sifts what cannot work; a measurement decides.

    \b
    llm-locust size --params-b 7 --weight-bits 16 --layers 32 --kv-heads 8 --head-dim 128 --context 8192 \\
        --gpu-memory-gib 24 --reserve-gib 2 --measured-output-tokens-s 600 --per-request-tokens-s 30 \\
        --arrival-rps 2 --mean-output-tokens 200 --run runs/RUN

    \b
    Exit status: 0 sized; 0 requests is an answer too, with a warning
                 2 wrong usage: a number is missing, a file cannot be read
                 4 no bound is known
    """
    if run is not None:
        require_run(run)
    must = {
        "--params-b": params_b,
        "--weight-bits": weight_bits,
        "--context": context,
        "--gpu-memory-gib": gpu_memory_gib,
        "--reserve-gib": reserve_gib,
    }
    model = read_model(config, layers, kv_heads, head_dim, kv_dtype, must)
    assert params_b is not None
    assert weight_bits is not None
    assert context is not None
    assert gpu_memory_gib is not None
    assert reserve_gib is not None
    measured = None if run is None else measured_run(RunSummary.load(RunFolder(run).summary))
    speed, source = measured_output_tokens_s, "--measured-output-tokens-s"
    if speed is None and measured is not None and measured.output_tokens_s:
        speed, source = measured.output_tokens_s, f"--run, {measured.output_tokens_at}"
    plan = capacity(
        Memory(params_b=params_b, weight_bits=weight_bits, gpu_memory_gib=gpu_memory_gib, reserve_gib=reserve_gib),
        _cache(model, context, tp, block_size),
        Speed(measured_output_tokens_s=speed, per_request_tokens_s=per_request_tokens_s),
        Demand(
            arrival_rps=arrival_rps,
            mean_output_tokens=mean_output_tokens,
            headroom=Headroom(peaks=headroom_peaks, retries=headroom_retries, length_tail=headroom_length_tail),
        ),
        measured,
        tensor_parallel=tp,
        assumptions=_assumed(model, tp, block_size, source if measured_output_tokens_s is None and speed else None),
    )
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(plan), indent=2).decode())
    else:
        print_lines(_lines(plan, measured), Console())
    if plan.recommended_concurrency is None:
        sys.exit(ExitCode.UNDECIDED)


def _cache(model: Model, context: int, tp: int, block_size: int | None) -> KvEstimate | str:
    if model.shape is None:
        assert model.uneven is not None
        return model.uneven.reason
    block = block_size or DEFAULT_BLOCK_TOKENS
    return kv_estimate(model.shape, KvLoad(tokens=context, block_tokens=block, tensor_parallel=tp))


def _assumed(model: Model, tp: int, block_size: int | None, speed: str | None) -> tuple[str, ...]:
    """What nobody chose, with the option that does."""
    found = list(model.notes)
    if model.shape is not None and model.sources["--kv-dtype"] != "--kv-dtype":
        found.append(f"the KV cache holds {model.shape.dtype.name} ({model.sources['--kv-dtype']})")
    if block_size is None:
        found.append(f"blocks of {DEFAULT_BLOCK_TOKENS} tokens (--block-size)")
    if tp > 1:
        found.append(f"weights and KV heads are shared evenly by {tp} GPUs")
    if speed is not None:
        found.append(f"the measured output is that of {speed}")
    return tuple(found)


def _lines(plan: CapacityPlan, run: MeasuredRun | None) -> list[tuple[str, str]]:
    if plan.recommended_concurrency is None:
        lines = [("Recommended", "nothing: no bound is known")]
    else:
        binding = " and ".join(WORDS[name] for name in plan.binding)
        plural = "" if plan.recommended_concurrency == 1 else "s"
        lines = [("Recommended", f"{plan.recommended_concurrency:,} request{plural} at once; what binds: {binding}")]
    lines += [("Warning", text) for text in plan.warnings]
    memory = plan.memory
    each = "" if memory.kv_gib_per_request is None else f", KV cache {gib(memory.kv_gib_per_request)} GiB a request"
    lines.append(
        ("Memory", f"weights {gib(memory.weights_gib)} GiB{each}, {gib(memory.free_for_kv_gib)} GiB free for it")
    )
    lines += [
        (f"By {WORDS[bound.name]}", f"{bound.concurrency:,}: {bound.text}")
        for bound in plan.bounds
        if bound.concurrency is not None
    ]
    if (demand := plan.demand) is not None:
        supply = "not known" if demand.supply_tokens_s is None else number(demand.supply_tokens_s)
        lines.append(
            (
                "Demand",
                f"{number(demand.output_tokens_s)} output tokens a second, {number(demand.with_headroom_tokens_s)} with "
                f"headroom (x {number(demand.headroom_factor)}); supply {supply}",
            )
        )
        if demand.in_flight is not None:
            lines.append(("", f"with headroom {number(demand.in_flight)} in flight, at the speed of each"))
    lines += [("Not checked" if index == 0 else "", text) for index, text in enumerate(plan.missing)]
    lines += [("Assumed" if index == 0 else "", text) for index, text in enumerate(plan.assumptions)]
    lines.append(("Left out", "; ".join(plan.left_out)))
    decides = "a measurement decides" if run is None else "a measurement of this very load decides"
    return [*lines, ("", f"This sifts what cannot work; {decides}.")]
