"""Makes the corpus: compiles each pipeline of `shapes` and records what kfp.local makes of it.

Run by hand, in an environment with kfp 2.17.0 and nothing of this project:

    python tests/pipelines_corpus/make.py

Writes `NAME.json` for each pipeline: its compiled form, its arguments, and its outputs, or that it failed. With
google-cloud-pipeline-components 2.22.0 too, it writes the compiled pipelines of `google_shapes` to `google/`,
which kfp.local can't run; and those of `container_shapes`, which it can't run either, to `containers/`:

    python tests/pipelines_corpus/make.py --google
    python tests/pipelines_corpus/make.py --containers
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOLDERS = {"google": "google", "container": "containers"}
sys.path.insert(0, str(HERE))
warnings.simplefilter("ignore")


def main(wanted: list[str]) -> None:
    """Make the named pipelines, or all."""
    import shapes
    import yaml
    from kfp import compiler, local

    local.init(runner=local.SubprocessRunner(use_venv=False), pipeline_root=tempfile.mkdtemp())
    for name, (function, arguments) in shapes.PIPELINES.items():
        if wanted and name not in wanted:
            continue
        with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
            compiler.Compiler().compile(function, file.name)
            spec = next(yaml.safe_load_all(Path(file.name).read_text()))
        try:
            task = function(**arguments)
            outcome: Mapping[str, Any] = {"state": "SUCCEEDED", "outputs": plain(task.outputs)}
        except Exception as error:
            outcome = {"state": "FAILED", "error": str(error)[:200]}
        found = {"arguments": arguments, **outcome, "spec": spec}
        (HERE / f"{name}.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        print(name, outcome)


def compile_all(kind: str) -> None:
    """Compile the pipelines of Google's components (`google`), or those of containers (`container`)."""
    from kfp import compiler

    shapes = importlib.import_module(f"{kind}_shapes")
    for name, function in shapes.PIPELINES.items():
        path = HERE / FOLDERS[kind] / f"{name}.json"
        compiler.Compiler().compile(function, str(path))
        path.write_text(json.dumps(json.loads(path.read_text()), indent=1, sort_keys=True) + "\n")
        print(name)


def plain(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as they are; of an artifact its type and metadata."""
    found = {}
    for name, value in outputs.items():
        if hasattr(value, "metadata"):
            value = {"type": value.schema_title, "metadata": dict(value.metadata)}
        found[name] = value
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["--google"]:
        compile_all("google")
    elif sys.argv[1:] == ["--containers"]:
        compile_all("container")
    else:
        main(sys.argv[1:])
