"""The exit code of a container, by where it runs."""

from __future__ import annotations

import pytest

from trainer import exit_codes

OUTCOMES = sorted(exit_codes.NAMES)
VERTEX = {"CLUSTER_SPEC": "{}", "TF_CONFIG": "{}"}


@pytest.mark.parametrize("env", [{"PET_NNODES": "2"}, {"TF_CONFIG": "{}"}])
def test_kubeflow_restarts_what_a_restart_may_help_and_nothing_else(env: dict[str, str]) -> None:
    codes = {outcome: exit_codes.for_platform(outcome, env) for outcome in (*OUTCOMES, 1, 3, 127, 137, 139)}
    for outcome, code in codes.items():
        assert (code >= 128) == (outcome in exit_codes.RETRYABLE or outcome > 128), outcome
        assert 0 <= code <= 255
    assert len(set(codes.values())) == len(codes), "each outcome can still be told"
    assert codes[exit_codes.DONE] == 0 and codes[exit_codes.USAGE] == 2


@pytest.mark.parametrize("env", [VERTEX, {}, {"RANK": "0", "LOCAL_RANK": "0"}, {**VERTEX, "PET_NNODES": "2"}])
def test_elsewhere_the_codes_stay(env: dict[str, str]) -> None:
    for outcome in (*OUTCOMES, 1, 137):
        assert exit_codes.for_platform(outcome, env) == outcome


def test_every_outcome_has_a_name_and_success_is_never_retried() -> None:
    assert set(exit_codes.NAMES) >= exit_codes.RETRYABLE | exit_codes.FINAL
    assert not exit_codes.RETRYABLE & {exit_codes.DONE, exit_codes.USAGE}
