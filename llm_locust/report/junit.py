"""JUnit XML that CI systems read: a suite per stage, a test case per gate, and a suite for what was required of the run.

A gate that does not hold is a failure, one that cannot be told is skipped; where the load generator itself fell short, or
the server became another one, every gate of the stage is an error: it says nothing about the server in either direction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from llm_locust.analysis.gates import gate_name, gate_text
from llm_locust.analysis.server_gates import value_text
from llm_locust.analysis.words import with_round
from llm_locust.records.summary import Gate, RunSummary, StageSummary
from llm_locust.report.inert import LONGEST_NAME, LONGEST_SENTENCE, one_line

if TYPE_CHECKING:
    from llm_locust.analysis.release import ReleaseVerdict


def junit_xml(summary: RunSummary) -> bytes:
    """The verdicts of a run as a JUnit report, UTF-8. Text from elsewhere is on one printable line: XML holds no other."""
    root = ET.Element("testsuites", name=one_line(f"llm-locust {summary.run_id}", LONGEST_NAME))
    for stage in summary.stages:
        _stage_suite(root, summary, stage)
    if summary.requirements:
        suite = ET.SubElement(root, "testsuite", name="requirements", timestamp=_timestamp(summary))
        for required in summary.requirements:
            case = _case(suite, "requirements", required.text)
            if required.met is False:
                _said(case, "failure", "not met", summary.verdict)
            elif required.met is None:
                _said(case, "skipped", "cannot be told: what decides it is invalid or undetermined", summary.verdict)
        _count(suite)
    return _document(root)


def release_xml(verdict: ReleaseVerdict) -> bytes:
    """The verdict of a release: a test case per requirement."""
    name = one_line(f"llm-locust release of {', '.join(verdict.run_ids)}", LONGEST_NAME)
    root = ET.Element("testsuites", name=name)
    suite = ET.SubElement(root, "testsuite", name="release")
    for required in verdict.requirements:
        case = _case(suite, "release", f"{required.name}: {required.required}")
        if required.met is False:
            _said(case, "failure", "not met", required.found)
        elif required.met is None:
            _said(case, "skipped", "cannot be told", required.found)
        else:
            ET.SubElement(case, "system-out").text = one_line(required.found, LONGEST_SENTENCE)
    _count(suite)
    return _document(root)


def _document(root: ET.Element) -> bytes:
    _count(root)
    return ('<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n").encode()


def _stage_suite(root: ET.Element, summary: RunSummary, stage: StageSummary) -> None:
    name = stage_title(stage)
    suite = ET.SubElement(root, "testsuite", name=one_line(name, LONGEST_NAME), timestamp=_timestamp(summary))
    if stage.seconds is not None:
        suite.set("time", f"{stage.seconds:.3f}")
    for gate in stage.verdict.gates:
        if gate.applicable:
            _gate_case(suite, name, stage, gate)
    _count(suite)


def _gate_case(suite: ET.Element, name: str, stage: StageSummary, gate: Gate) -> None:
    case = _case(suite, name, gate_text(gate))
    sentence = stage.verdict.sentence
    value = f"{gate_name(gate)} is {value_text(gate, stage)}"
    if stage.verdict.result == "invalid":
        whose = "the server changed during the run" if stage.generator.valid else "the load generator fell short"
        _said(case, "error", f"invalid: {whose}", sentence)
    elif stage.verdict.result == "not_run" or stage.interrupted is not None or stage.measured == 0:
        _said(case, "skipped", stage.verdict.result, sentence)
    elif gate.passed is False:
        _said(case, "failure", f"{value}{' (signed)' if gate.signed else ''}", sentence)
    elif gate.passed is None:
        _said(case, "skipped", f"undetermined: {gate.reason or 'not measured'}", sentence)
    else:
        ET.SubElement(case, "system-out").text = one_line(f"{value}{'' if gate.signed else ' (candidate)'}")


def stage_title(stage: StageSummary) -> str:
    """``open 2/s poisson``, with its round if it is a repetition."""
    return with_round(stage.label, stage.round)


def _case(suite: ET.Element, class_name: str, name: str) -> ET.Element:
    # CI systems nest class names at their dots; a rate of 0.5 is no package.
    group = one_line(f"llm-locust.{class_name.replace('.', ',')}", LONGEST_NAME)
    return ET.SubElement(suite, "testcase", classname=group, name=one_line(name, LONGEST_NAME), time="0")


def _said(case: ET.Element, kind: str, message: str, text: str) -> None:
    ET.SubElement(case, kind, message=one_line(message, LONGEST_NAME)).text = one_line(text, LONGEST_SENTENCE)


def _timestamp(summary: RunSummary) -> str:
    return one_line(summary.started_at.removesuffix("Z").removesuffix("+00:00"), LONGEST_NAME)


def _count(element: ET.Element) -> None:
    cases = list(element.iter("testcase"))
    element.set("tests", str(len(cases)))
    for attribute, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(sum(case.find(kind) is not None for case in cases)))
