"""A profile with a secret of each of 20 shapes in each of 12 places. None of them is a secret of anybody."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

A = "Zk3Qw8Rt5Yu2Io7Pa9Sd4Fg6Hj1Kl0Xc"
HEX = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"


@dataclass(frozen=True)
class Shape:
    """How a secret is written down, and the part of it that nobody may see."""

    name: str
    written: str
    secret: str = ""

    @property
    def hidden(self) -> str:
        return self.secret or self.written


SHAPES = (
    Shape("hugging face", f"hf_{A}Vb"),
    Shape("github", f"ghp_{A}Vbnm"),
    Shape("github app", f"ghs_{A}Uytr"),
    Shape("github fine", f"github_pat_11{A[:20]}_{A}"),
    Shape("gitlab", f"glpat-{A[:20]}"),
    Shape("openai", f"sk-proj-{A}"),
    Shape("anthropic", f"sk-ant-api03-{A}"),
    Shape("aws", "AKIAQ3EXAMPLE7T4WXYZ"),
    Shape("google key", f"AIzaSy{A}a"),
    Shape("google access", f"ya29.a0{A}"),
    Shape("google refresh", f"1//0g{A}"),
    Shape("google client", f"GOCSPX-{A[:28]}"),
    Shape("slack", f"xoxb-1234567890-{A[:24]}"),
    Shape("jwt", f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{A}"),
    Shape("private key", f"-----BEGIN PRIVATE KEY-----\n{A}{A}\n-----END PRIVATE KEY-----", A + A),
    Shape("npm", f"npm_{A}Vbnm"),
    Shape("pypi", f"pypi-AgEIcHlwaS5vcmc{A}"),
    Shape("stripe", f"sk_live_{A[:24]}"),
    Shape("databricks", f"dapi{HEX}"),
    Shape("url", "postgres://ana:corr3ct-h0rse@db.example.com/x", "corr3ct-h0rse"),
)
PLACES = 12


def profile() -> dict[str, Any]:
    """The profile: every shape in every place."""
    env: list[dict[str, str]] = []
    args: list[str] = []
    parameters: dict[str, Any] = {}
    for n, shape in enumerate(SHAPES):
        text = shape.written
        parameters[f"declared{n}"] = {"default": text, "secret": True, "help": "declared"}  # 1
        parameters[f"plain{n}"] = {"default": text}  # 2
        env += [
            {"name": f"SERVICE{n}_TOKEN", "value": text},  # 3
            {"name": f"NOTE{n}", "value": text},  # 4
            {"name": f"CONFIG{n}", "value": json.dumps({"token": text})},  # 5
        ]
        args += [
            f"--declared={n}",
            f"${{declared{n}}}",
            f"--plain=${{plain{n}}}",
            f"--token={text}",  # 6
            "--api-key",
            text,  # 7
            "first",
            text,  # 8
            f"--note={text}",  # 9
            f"SERVICE_TOKEN={text} python train.py",  # 10
            f"--index=https://user:{text}@example.com/simple"  # 11
            if "\n" not in text and "/" not in text
            else f"see {text}",
        ]
    return {
        "displayName": "secrets",
        "description": " ".join(f"use {shape.written}" for shape in SHAPES),  # 12
        "region": "us-central1",
        "parameters": parameters,
        "jobSpec": {
            "workerPoolSpecs": [
                {
                    "machineSpec": {"machineType": "n1-standard-4"},
                    "replicaCount": 1,
                    "containerSpec": {
                        "imageUri": "us-docker.pkg.dev/p/r/i:1",
                        "command": ["python"],
                        "args": args,
                        "env": env,
                    },
                }
            ]
        },
    }


def leaks(text: str) -> list[str]:
    """The shapes that a text shows, and where."""
    flat = text.replace("\n", "").replace("\\n", "").replace(" ", "")
    found = []
    for shape in SHAPES:
        at = flat.find(shape.hidden)
        if at >= 0:
            found.append(f"{shape.name}: …{flat[max(0, at - 40) : at + 20]}…")
    return found
