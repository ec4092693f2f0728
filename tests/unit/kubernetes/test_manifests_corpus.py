"""A corpus of valid manifests in the manner of public ones: neither console nor cluster refuses any."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.unit.kubernetes.cluster import Cluster
from tui.domain.document.source import ProblemSeverity
from tui.domain.profile import inspect
from tui.emulator.kubernetes.operators.controllers import controllers
from tui.emulator.kubernetes.operators.seed import create_missing, ready_made_runtimes
from tui.kinds.registry import kinds

FOLDER = Path(__file__).parent / "manifests"


def manifests() -> Iterator[tuple[str, str]]:
    """Name and text of each manifest; a line `=== NAME` begins one."""
    for file in sorted(FOLDER.glob("*.yaml")):
        for part in file.read_text().split("\n=== ")[1:]:
            name, _, text = part.partition("\n")
            yield f"{file.stem}-{name}", text


CORPUS = dict(manifests())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("corpus"))
    create_missing(cluster.objects, ready_made_runtimes())
    yield cluster
    cluster.close()


def test_the_corpus_is_large() -> None:
    assert len(CORPUS) >= 60 and kinds()


@pytest.mark.parametrize("name", [name for name in CORPUS if not name.startswith("kueue-")])
def test_the_console_refuses_none(name: str) -> None:
    assert kinds()
    problems = inspect(CORPUS[name], "manifest.yaml", "corpus")
    assert [p for p in problems if p.severity is ProblemSeverity.ERROR] == []


@pytest.mark.parametrize("name", CORPUS)
def test_the_cluster_refuses_none(cluster: Cluster, name: str) -> None:
    for obj in yaml.safe_load_all(CORPUS[name]):
        plural = cluster.objects.resource(obj["kind"], obj["apiVersion"].rpartition("/")[0])
        namespace = "default" if plural.namespaced else ""
        if cluster.objects.find(plural, namespace, obj["metadata"].get("name", "")) is None:
            cluster.apply(yaml.safe_dump(obj))


def test_no_controller_is_refused_what_the_corpus_needs(cluster: Cluster) -> None:
    """The parts of every job are accepted: reconciling raises nothing."""
    cluster.controllers = controllers(cluster.objects)
    cluster.settle()
