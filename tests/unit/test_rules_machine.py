"""A machine type with a typing error is corrected to the one that is meant, and to no other."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tui.domain.document.document_edit import edited
from tui.domain.spec.findings import Case
from tui.domain.vertex import catalog
from tui.domain.vertex.rules.machine import machine_type

MACHINES = sorted(catalog.machines())


def fixed(name: str) -> str:
    """The name after the fix that the rule offers; "" where it offers none."""
    job = {"jobSpec": {"workerPoolSpecs": [{"machineSpec": {"machineType": name}, "replicaCount": 1}]}}
    (found,) = machine_type(Case(job))
    after = edited(job, found.edits)["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]["machineType"]
    return "" if after == name else str(after)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("a2-highgpu-8gg", "a2-highgpu-8g"),
        ("a2-higpgu-8g", ""),
        ("a2-highpgu-8g", "a2-highgpu-8g"),
        ("A2_HighGPU_8g", "a2-highgpu-8g"),
        ("n1-standrd-4", "n1-standard-4"),
        ("c2standard4", "c2-standard-4"),
        # A figure is what is asked for, and may be meant.
        ("e2-standard-33", ""),
        ("n1-standard-166", ""),
        # Several are as near.
        ("x2-standard-4", ""),
    ],
)
def test_slips(typed: str, meant: str) -> None:
    assert fixed(typed) == meant


def below_its_family(name: str) -> bool:
    """Whether its family is known and begins with more: then the smallest is offered."""
    stem, _, size = name.rpartition("-")
    family = [m.rpartition("-")[2] for m in MACHINES if m.rpartition("-")[0] == stem]
    sizes = [int(part) for part in family if part.isdecimal()]
    return size.isdecimal() and bool(sizes) and int(size) < min(sizes)


def test_a_machine_below_its_family_is_fixed_to_the_smallest() -> None:
    assert fixed("g4-standard-16") == "g4-standard-48" and below_its_family("g4-standard-16")


@given(st.sampled_from(MACHINES), st.integers(0, 30), st.sampled_from("abcgnx-"), st.sampled_from("+-=x"))
def test_one_slip_is_never_fixed_to_a_machine_of_other_figures(
    name: str, at: int, letter: str, operation: str
) -> None:
    at %= len(name)
    assume(not name[at].isdigit() or operation == "+")
    typed = {
        "+": name[:at] + letter + name[at:],
        "-": name[:at] + name[at + 1 :],
        "=": name[:at] + letter + name[at + 1 :],
        "x": name[:at] + name[at + 1 : at + 2] + name[at] + name[at + 2 :],
    }[operation]
    assume(typed not in catalog.machines() and not below_its_family(typed))
    after = fixed(typed)
    assert not after or re.findall(r"\d+", after) == re.findall(r"\d+", typed)
