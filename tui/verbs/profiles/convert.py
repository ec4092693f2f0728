"""Implements `vxtui profiles convert`."""

from __future__ import annotations

import sys

import click

from tui.config.settings import profile_folder
from tui.domain.convert import CannotConvert, Converted, convert, families
from tui.domain.kubernetes.workloads import WORKLOADS
from tui.domain.profile import ProfileInvalid
from tui.store.profiles.library import NoProfile, find, read_profile
from tui.verbs.output import note, out, print_json
from tui.verbs.run import Run, VerbFailure, value_of, verb

KINDS = [workload.kind for workload in WORKLOADS]


@click.command("convert")
@click.argument("profile")
@click.option("--to", type=click.Choice(families()), required=True, help="Service family to convert to.")
@click.option(
    "--kind", type=click.Choice(KINDS, case_sensitive=False), default="PyTorchJob", show_default=True,
    help="Kind of the object on a cluster.",
)  # fmt: skip
@click.option("--output", "-o", "name", metavar="NAME", help="Save the result as your profile NAME.")
@click.option("--force", is_flag=True, help="Overwrite a profile with that name.")
@verb("profile.import")
async def convert_profile(  # noqa: PLR0917 - one for each option
    run: Run, profile: str, to: str, kind: str, name: str | None, force: bool
) -> None:
    """Convert PROFILE, a name or a path, to the other service family: the same job on a cluster or on Vertex
    AI.

    Each difference is reported in a line on stderr and at the head of the result. Without --output the result
    is printed.
    """
    result = _converted(run, profile, to, kind)
    path = ""
    if name:
        outcome = await run.profile_operations().write(name, result.text, force=force)
        path = str(
            value_of(outcome, {"EXISTS": "Choose another name, or use --force to overwrite the profile."})
        )
    if run.json:
        rows = [
            {"field": difference.place or None, "sentence": difference.sentence}
            for difference in result.differences
        ]
        print_json({"to": to, "path": path or None, "text": result.text, "differences": rows})
        return
    for difference in result.differences:
        note(f"differs: {difference}")
    if path:
        out(path)
    else:
        sys.stdout.write(result.text)


def _converted(run: Run, reference: str, to: str, kind: str) -> Converted:
    """Convert a profile. Raises VerbFailure."""
    try:
        profile = read_profile(find(reference, profile_folder(run.settings)))
        return convert(profile, to, kind)
    except NoProfile as error:
        fix = "`vxtui profiles list` lists all."
        raise VerbFailure(str(error), fix=fix, code="NOT_FOUND", exit_code=3) from error
    except ProfileInvalid as error:
        raise VerbFailure(str(error), fix="Nothing was written.", code="INVALID_PROFILE") from error
    except CannotConvert as error:
        fix = error.fix or "Nothing was written."
        raise VerbFailure(error.message, fix=fix, code="NOT_EXPRESSIBLE") from error
    except OSError as error:
        raise VerbFailure(f"The profile can't be read: {error}", code="UNREADABLE") from error
