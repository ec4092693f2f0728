"""The 26 answers of the real service that others recorded (docs/facts/vertex.md 16), and the tests of each.

`emulator` names the tests that hold the emulator's answer, `console` those of the console's or the trainer's
reading.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ERRORS = "tests/unit/test_vertex_errors.py"
FAULTS = "tests/wire/test_fault_forms.py"
CLIENTS = "tests/wire/test_client_rules.py"
FOUND_ERRORS = f"{ERRORS}::test_a_list_of_found_errors_is_one_sentence_per_field"
LIFE = "tests/wire/test_backend_emulator.py::test_a_job_is_launched_followed_measured_and_deleted"


@dataclass(frozen=True)
class Form:
    """One recorded answer. `reason` says why the emulator's differs; "" if it is equal."""

    answer: str
    emulator: Sequence[str]
    console: Sequence[str]
    reason: str = ""


FORMS_BY_ROW = {
    1: Form(
        "all errors of a resource in one numbered list",
        ["tests/wire/test_jobs_service.py::test_a_bad_job_names_every_field"],
        [FOUND_ERRORS],
    ),
    2: Form(
        "paths below job_spec",
        [f"{CLIENTS}::test_gcloud_shows_an_error_with_its_details"],
        [FOUND_ERRORS],
    ),
    3: Form(
        "one violation for labels",
        ["tests/unit/test_emulator_validate.py::test_a_bad_job_is_refused_by_field"],
        [FOUND_ERRORS],
    ),
    4: Form(
        "the id of a persistent resource",
        ["tests/wire/test_persistent_resources.py::test_bad_resources_are_refused"],
        [FOUND_ERRORS],
    ),
    5: Form(
        "a wrong JSON type",
        ["tests/wire/test_rest.py::test_a_value_of_a_wrong_type_is_refused_in_the_recorded_form"],
        [f"{ERRORS}::test_the_fields_of_a_refused_request_are_kept"],
    ),
    6: Form(
        "cancel of an ended job",
        [
            "tests/wire/test_jobs_service.py::test_cancel_of_a_queued_job_is_at_once_and_once",
            "tests/wire/test_training_pipelines.py::test_cancel_ends_the_custom_job",
        ],
        [f"{ERRORS}::test_each_code_has_its_kind_raw_or_wrapped"],
    ),
    7: Form(
        "no quota",
        [
            "tests/wire/test_scarcity.py::test_a_create_without_quota_is_refused_with_the_metric",
            "tests/wire/test_scarcity.py::test_a_job_that_needs_more_than_the_limit_is_refused",
            "tests/wire/test_training_pipelines.py::test_a_pipeline_beyond_the_quota_fails_with_code_8",
        ],
        [f"{FAULTS}::test_what_a_new_job_lacks"],
    ),
    8: Form(
        "a failed job with the traceback and the link",
        ["tests/wire/test_jobs_run.py::test_a_failure_has_the_recorded_text"],
        ["tests/unit/test_job_domain.py::test_an_error_with_a_traceback_has_a_reason_and_an_exception"],
    ),
    9: Form(
        "a missing program",
        ["tests/wire/test_jobs_run.py::test_a_command_that_is_not_there"],
        ["tests/unit/test_diagnosis.py::test_exit_codes"],
    ),
    10: Form(
        "both texts about memory",
        [
            "tests/wire/test_scarcity.py::test_several_replicas_without_memory_are_named_by_pool",
            "tests/wire/test_scarcity.py::test_replicas_are_stopped_resumed_and_killed_for_memory",
        ],
        [f"{FAULTS}::test_what_ends_running_replicas"],
    ),
    11: Form(
        "CANCELED in a cancelled job's message",
        [f"{CLIENTS}::test_prefect_tells_a_cancelled_job_from_a_failed_one"],
        [f"{FAULTS}::test_what_a_new_job_lacks"],
    ),
    12: Form(
        "names with the project's number",
        [
            "tests/wire/test_project_names.py::"
            "test_stored_resources_have_the_projects_number_and_are_found_by_either",
            "tests/wire/test_jobs_service.py::test_create_fills_in_what_the_service_owns",
        ],
        ["tests/unit/test_vertex_filters.py::test_a_jobs_log_is_in_the_jobs_project"],
    ),
    13: Form(
        "the service's lines in order, stderr as ERROR",
        [
            "tests/wire/test_jobs_log.py::test_a_failure_and_its_restarts_are_told",
            f"{CLIENTS}::test_gcloud_streams_a_log_to_its_end",
        ],
        [LIFE],
    ),
    14: Form(
        "the lines of a package's runner",
        ["tests/wire/test_runner_packages.py::test_a_package_is_installed_beside_the_replica_and_run"],
        [LIFE],
    ),
    15: Form(
        "a replica that runs again 17 s after its end: restart_delay_seconds, for the exits that restart",
        [
            "tests/wire/test_runner.py::test_a_replica_restarts_after_the_delay",
            "tests/wire/test_runner.py::test_one_restart_can_mean_all",
        ],
        [f"{FAULTS}::test_what_stops_running_replicas"],
    ),
    16: Form(
        "the last entry with its labels, minutes after the end: end_delay_seconds",
        ["tests/wire/test_jobs_log.py::test_the_end_comes_later_than_that_of_the_replicas"],
        [LIFE],
    ),
    17: Form(
        "provisioning of minutes: provisioning_seconds",
        ["tests/wire/test_jobs_run.py::test_cancel_while_pending_is_at_once"],
        [f"{FAULTS}::test_what_a_new_job_lacks"],
        "Nothing is provisioned here: a second by default, so that nobody waits for nothing.",
    ),
    18: Form(
        "a training pipeline that names its job later, and runs while that is provisioned",
        [
            "tests/wire/test_training_pipelines.py::"
            "test_a_pipeline_names_its_job_later_and_runs_while_that_is_provisioned"
        ],
        [
            "tests/wire/test_backend_training_pipelines.py::"
            "test_the_store_knows_the_child_whichever_is_listed_first"
        ],
    ),
    19: Form(
        "addresses of web shells without a scheme",
        ["tests/wire/test_web_access.py::test_each_replica_has_an_address_while_the_job_runs"],
        ["tests/unit/test_vertex_convert.py::test_a_web_shell_without_a_scheme_is_offered_as_https"],
        "A host without a scheme is a page of Google's, to which a browser would send the user; the "
        "emulator's shell is a terminal that `vxtui shell` opens, and vxtui:// says so.",
    ),
    20: Form(
        "CLUSTER_SPEC with open_ports and the old form of job",
        ["tests/unit/test_environment.py::test_one_replica_is_told_of_nobody"],
        ["tests/trainer/test_topology.py::test_the_job_may_be_a_text_or_an_object"],
    ),
    21: Form(
        "a failed pipeline",
        ["tests/wire/test_pipelines.py::test_an_exit_task_runs_after_a_failure_and_is_told_of_it"],
        ["tests/wire/test_backend_pipelines.py::test_a_list_has_its_tasks_and_each_task_its_job"],
    ),
    22: Form(
        "a pipeline without a right to Metadata",
        ["tests/wire/test_pipelines.py::test_what_is_no_pipeline_is_refused_with_the_place"],
        [f"{ERRORS}::test_a_missing_permission_is_named"],
    ),
    23: Form(
        "the account of a pipeline",
        ["tests/wire/test_pipelines.py::test_an_exit_task_runs_after_a_failure_and_is_told_of_it"],
        ["tests/wire/test_backend_pipelines.py::test_a_list_has_its_tasks_and_each_task_its_job"],
    ),
    24: Form(
        "an operation below its endpoint",
        [
            "tests/wire/test_project_names.py::"
            "test_stored_resources_have_the_projects_number_and_are_found_by_either"
        ],
        [
            "tests/wire/test_backend_serving.py::"
            "test_a_split_is_never_overwritten_unseen_and_a_lost_reply_is_looked_for"
        ],
    ),
    25: Form(
        "an empty log for want of a right",
        [
            "tests/wire/test_jobs_log.py::"
            "test_an_account_without_the_right_to_log_leaves_the_replicas_log_empty"
        ],
        ["tests/unit/test_diagnosis_rules.py::test_an_empty_log_names_the_right_that_may_be_missing"],
    ),
    26: Form(
        "a token of too narrow a scope: the emulator's token has none, only the console reads the refusal",
        [f"{ERRORS}::test_a_token_of_too_narrow_a_scope_leads_to_the_login"],
        [f"{ERRORS}::test_a_token_of_too_narrow_a_scope_leads_to_the_login"],
    ),
}


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize("row", range(1, 27))
def test_each_recorded_answer_has_its_tests(row: int) -> None:
    form = FORMS_BY_ROW[row]
    for name in (*form.emulator, *form.console):
        path, _, test = name.partition("::")
        assert test in names_in(path), name
    assert form.emulator and form.console


def test_24_of_26_are_equal() -> None:
    assert list(FORMS_BY_ROW) == list(range(1, 27))
    assert [row for row, form in FORMS_BY_ROW.items() if form.reason] == [17, 19]
