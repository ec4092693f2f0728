"""Contexts of clusters in the settings, and the backend that each gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui.backends.factory import open_backend
from tui.backends.kubernetes.backend import KubernetesBackend
from tui.backends.kubernetes.login.cluster import KubeconfigCluster
from tui.backends.kubernetes.login.gke import GkeCluster
from tui.backends.kubernetes.login.local import LocalCluster
from tui.config.settings import Context, Settings, SettingsError, choose_context
from tui.config.settings_file import read_settings

GKE = "projects/my-project/locations/us-central1/clusters/train"


def test_the_cluster_of_this_machine_is_there_and_is_not_the_default() -> None:
    settings = Settings()
    assert choose_context(settings).name == "local"
    here = choose_context(settings, "local-k8s")
    assert (here.kind, here.emulated, here.billed, here.region_word) == (
        "kubernetes",
        True,
        False,
        "namespace",
    )
    backend = open_backend(here, settings)
    assert isinstance(backend, KubernetesBackend) and isinstance(backend._cluster, LocalCluster)
    assert backend.info.local and backend.info.watched and backend.info.regions == ("default",)


def test_clusters_elsewhere() -> None:
    settings = Settings()
    gke = Context("g", kind="kubernetes", gke=GKE, namespaces=["a", "b"])
    assert (gke.project, gke.home_region, gke.emulated) == ("", "a", False)
    backend = open_backend(gke, settings)
    assert isinstance(backend, KubernetesBackend) and isinstance(backend._cluster, GkeCluster)
    assert not backend.info.local and backend.info.regions == ("a", "b")
    # One of one's own under the name of the built-in one is what it says.
    mine = Context("local-k8s", kind="kubernetes", kubeconfig="~/k", cluster="c")
    assert not mine.emulated
    backend = open_backend(mine, Settings(contexts=[mine]))
    assert isinstance(backend, KubernetesBackend) and isinstance(backend._cluster, KubeconfigCluster)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{name: g, kind: kubernetes, gke: train}", "contexts[0].gke: 'train' must be a GKE cluster"),
        (
            "{name: g, kind: kubernetes, namespaces: [Team]}",
            "contexts[0].namespaces[0]: 'Team' must be a namespace",
        ),
        (f"{{name: g, kind: kubernetes, gke: {GKE}, cluster: c}}", "not by both"),
        ("{name: g, project: p, namespaces: [a]}", "only for a context of the kind kubernetes"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"contexts:\n  - {text}\n")
    with pytest.raises(SettingsError) as refused:
        read_settings(file, {})
    assert words in str(refused.value) and f"{file}:2" in str(refused.value)
