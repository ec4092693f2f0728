"""Settings and contexts: `~/.config/vxtui/config.yaml`, all optional."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Context(BaseModel):
    """Where jobs live: a Google project with its regions, or this machine."""

    model_config = ConfigDict(extra="forbid")

    name: str
    kind: str = Field("vertex", pattern="^(vertex|local)$")
    project: str = "local"
    regions: list[str] = Field(default_factory=lambda: ["us-central1"], min_length=1)
    """Regions to list; the first is where a profile without a region is launched."""


class Settings(BaseModel):
    """Everything a user may set."""

    model_config = ConfigDict(extra="forbid")

    contexts: list[Context] = Field(default_factory=list)
    context: str = ""
    read_only: bool = False
    theme: str = ""
    keys: dict[str, str] = Field(default_factory=dict)
