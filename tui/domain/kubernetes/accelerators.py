"""Names of accelerators in GKE and in Vertex AI."""

from __future__ import annotations

from collections.abc import Mapping

VERTEX: Mapping[str, str] = {
    "nvidia-tesla-k80": "NVIDIA_TESLA_K80",
    "nvidia-tesla-p4": "NVIDIA_TESLA_P4",
    "nvidia-tesla-p100": "NVIDIA_TESLA_P100",
    "nvidia-tesla-v100": "NVIDIA_TESLA_V100",
    "nvidia-tesla-t4": "NVIDIA_TESLA_T4",
    "nvidia-l4": "NVIDIA_L4",
    "nvidia-tesla-a100": "NVIDIA_TESLA_A100",
    "nvidia-a100-80gb": "NVIDIA_A100_80GB",
    "nvidia-h100-80gb": "NVIDIA_H100_80GB",
    "nvidia-h100-mega-80gb": "NVIDIA_H100_MEGA_80GB",
    "nvidia-h200-141gb": "NVIDIA_H200_141GB",
    "nvidia-b200": "NVIDIA_B200",
    "nvidia-gb200": "NVIDIA_GB200",
    "nvidia-rtx-pro-6000": "NVIDIA_RTX_PRO_6000",
}
"""Vertex AI's names by GKE's names (the values of a node label)."""
ACCELERATORS = tuple(VERTEX)
_GKE = {vertex: gke for gke, vertex in VERTEX.items()}


def of_vertex(name: str) -> str:
    """Return GKE's name of a Vertex AI accelerator, or "" if no GKE node has it as a GPU."""
    return _GKE.get(name.upper().replace("-", "_"), "")


def shown(name: str) -> str:
    """Return the short name for a screen, e.g. `A100` for `nvidia-tesla-a100`."""
    words = name.removeprefix("nvidia-").removeprefix("tesla-")
    return words.upper().replace("-80GB", " 80GB").replace("-", " ")
