"""The compiled pipelines that profiles name, read once per change of their file."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tui.config.regular_file import read_regular
from tui.domain.pipeline.imports import is_compiled as compiled
from tui.domain.pipeline.job_format import PipelineJobFormat
from tui.domain.pipeline.template import LARGEST, Template, read_template, refused


def read_beside(file: str, named: str) -> Template:
    """Read the compiled pipeline that the profile in `file` names, relative to its folder. Never raises."""
    if "://" in named:
        fix = "Write the address as templateUri."
        return refused(file, f"{named} is an address; templatePath must name a file beside the profile.", fix)
    path = Path(file).parent / Path(named).expanduser()
    try:
        about = path.stat()
        if not path.is_file():
            return refused(
                str(path), "the path must be a file.", "Name the file that `kfp dsl compile` wrote."
            )
        if about.st_size > LARGEST:
            return refused(
                str(path),
                f"the file has more than {LARGEST:,} bytes, which is too large for a compiled pipeline.",
            )
        return _read(path, about.st_mtime_ns, about.st_size)
    except FileNotFoundError:
        return refused(str(path), "there is no such file.", "Compile the pipeline, or correct templatePath.")
    except (OSError, ValueError) as error:
        return refused(str(path), f"the file can't be read: {error}.")


def is_compiled(path: Path) -> bool:
    """Return whether a file is a compiled pipeline. Never raises."""
    return compiled(read_beside(str(path), path.name).spec)


@lru_cache(maxsize=64)
def _read(path: Path, changed: int, size: int) -> Template:
    """Return the template of a file with this size and modification time."""
    return read_template(read_regular(path, LARGEST), str(path))


PIPELINE_JOB = PipelineJobFormat(read_beside)
"""The format of the body `pipelineJob`."""
