"""The form of a manifest: its common fields, whatever the file's form, and edits that keep the rest."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from tests.unit.kubernetes.manifest_rules_support import GOOD
from tui.domain.form.analysis import Analysis, analyse
from tui.domain.form.changes import addition_edits, value_edits
from tui.domain.form.choices import choices
from tui.domain.form.rows import FormRow, FormState, RowKind, build_rows
from tui.domain.form.summary import roles, totals
from tui.domain.profile.edit import apply, render_new

FOLDER = Path(__file__).parents[3] / "profiles"
READY = sorted(path for path in FOLDER.glob("*.yaml") if "manifest:" in path.read_text())
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
JOB = """\
# About the job.
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: bert  # its name
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: pytorch
              image: repo/bert:v1
              args: [--a]
"""


def rows_of(found: Analysis) -> dict[str, FormRow]:
    """By label, of the last group that has it."""
    state = FormState(found.value, found.value, found.spec_path, problems=found.problems, expanded=True)
    return {row.label: row for row in build_rows(state)}


@pytest.mark.parametrize("path", READY, ids=lambda p: p.stem)
def test_the_form_of_a_ready_made_profile(path: Path) -> None:
    found = analyse(path.read_text(), str(path), path.stem)
    rows = rows_of(found)
    assert found.job is not None and roles(found.job) and totals(found.job)
    assert {"replicas", "image", "arguments", "queue", "GPUs", "name"} <= set(rows)
    assert not [row for row in rows.values() if row.kind is RowKind.UNKNOWN]


@pytest.mark.parametrize("kind", GOOD)
def test_every_kind_has_its_fields(kind: str) -> None:
    found = analyse(render_new({"displayName": "x", "manifest": GOOD[kind]()}), "f.yaml", "x")
    rows = rows_of(found)
    assert {"replicas", "image", "arguments", "GPUs", "memory"} <= set(rows)
    assert rows["replicas"].is_set
    for label, row in rows.items():
        if row.kind is RowKind.FIELD and row.path[:1] == ("manifest",):
            assert row.field is not None and row.field.help, label


FORMS = {
    "alone": JOB,
    "documents": f"{CONFIG}---\n{JOB}",
    "header": "displayName: x\nmanifest:\n" + indent(JOB, "  "),
    "list": "displayName: x\nmanifest:\n- "
    + indent(CONFIG, "  ")[2:]
    + "- "
    + indent(JOB.split("\n", 1)[1], "  ")[2:],
}


@pytest.mark.parametrize("form", FORMS)
def test_a_change_keeps_all_else(form: str) -> None:
    text = FORMS[form]

    def change(text: str, label: str, value: str) -> str:
        found = analyse(text, "f.yaml", "x")
        return apply(text, "f.yaml", value_edits(found.value, rows_of(found)[label], value))

    assert change(text, "replicas", "5") == text.replace("replicas: 2", "replicas: 5")
    assert change(text, "image", "repo/bert:v2") == text.replace("bert:v1", "bert:v2")
    made = change(change(change(text, "GPUs", "8"), "GPU type", "nvidia-l4"), "Spot", "true")
    rows = rows_of(analyse(made, "f.yaml", "x"))
    assert (rows["GPUs"].raw, rows["GPU type"].value, rows["Spot"].raw) == (8, "nvidia-l4", "true")
    assert "# its name" in made and made.startswith(text[:10])
    # The warning about Spot is at its field, and its fix adds the toleration.
    [problem] = [p for p in rows["Spot"].problems if p.id == "gke.spot-toleration"]
    fixed = rows_of(analyse(apply(made, "f.yaml", problem.edits), "f.yaml", "x"))
    assert not [p for p in fixed["Spot"].problems if p.id == "gke.spot-toleration"]
    queued = change(text, "queue", "research")
    assert "kueue.x-k8s.io/queue-name: research" in queued
    elastic = change(change(text, "elastic from", "1"), "elastic to", "4")
    assert rows_of(analyse(elastic, "f.yaml", "x"))["elastic to"].raw == 4


def test_variables_and_choices() -> None:
    found = analyse(JOB, "f.yaml", "x")
    rows = rows_of(found)
    edits, _ = addition_edits(found.value, rows["environment"], "A=1")
    assert "env:" in apply(JOB, "f.yaml", edits)

    def values(label: str) -> list[str]:
        return [choice.value for choice in choices(found.value, rows[label], "")]

    assert "nvidia-h200-141gb" in values("GPU type")
    assert values("clean pods") == ["None", "Running", "All"]
    assert "ExitCode" in values("restart") and values("Spot") == ["true"]


@pytest.mark.parametrize(
    "value", [None, 7, [], {"kind": "PyTorchJob"}, [{"apiVersion": "v1", "kind": "Secret"}]]
)
def test_a_manifest_without_a_job_has_a_form_too(value: Any) -> None:
    found = analyse(render_new({"displayName": "x", "manifest": value}), "f.yaml", "x")
    assert found.problems and rows_of(found)
