"""A request without a prior plan: a closed loop's next, or a conversation's. It is written down before it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_locust.dispatch.worker_run import RequestBuilder
from llm_locust.records import Outcome, PlanRow, RequestRecord
from llm_locust.records.run import request_id
from llm_locust.workload import Prompt

if TYPE_CHECKING:
    from llm_locust.dispatch.stage_run import Ready, StageRun


def write_down(
    stage: StageRun,
    builder: RequestBuilder,
    *,
    index: int,
    user: str,
    phase: str,
    prompt_index: int | None = None,
    prompt: Prompt | None = None,
) -> Ready | None:
    """Write the request's ``issued`` row and make it; ``None`` when it could not be made, and its record says so.

    Args:
        stage: the stage.
        builder: makes the request.
        index: unique in the run.
        user: the user class's name.
        phase: warm-up, measure or cool-down.
        prompt_index: which prompt of the workload it takes, where ``prompt`` is not given.
        prompt: what is asked, where it follows a reply.
    """
    run = stage.run
    record = RequestRecord(
        run_id=run.spec.run_id,
        stage=stage.spec.stage,
        round=stage.spec.round,
        phase=phase,
        index=index,
        request_id=request_id(run.spec.run_id, index),
        worker=run.worker,
        user=user,
        prompt_index=prompt_index,
        outcome=Outcome.GENERATOR_ERROR,
    )
    stage.making += 1
    failure: Exception | None = None
    try:
        prompt = stage.prompts.describe(record, prompt)
    except Exception as error:
        failure = error
    run.recorder.issue(
        PlanRow(
            run_id=record.run_id,
            stage=record.stage,
            round=record.round,
            phase=record.phase,
            index=index,
            request_id=record.request_id,
            worker=run.worker,
            user=user,
            slice=record.slice,
            prompt_index=record.prompt_index,
            input_tokens_asked=record.input_tokens_asked,
            max_tokens=record.max_tokens,
            prefix_group=record.prefix_group,
            session=record.session,
            turn=record.turn,
        )
    )
    ready = None
    if failure is not None:
        stage.our_fault(record, failure)
        stage.ended(record, None, builder)
    else:
        ready = stage.make(record, builder, prompt)
    stage.making -= 1
    if ready is None:
        stage.check_over()
    return ready
