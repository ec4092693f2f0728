"""`vxtui profiles`: list, show, validate, import and export."""

from __future__ import annotations

import click

from tui.config.settings import profile_folder
from tui.domain.core.text import json_text
from tui.domain.fields.field import json_object
from tui.domain.fields.profiles import PROFILE_FIELDS
from tui.store.profiles.library import entries
from tui.verbs.export import export
from tui.verbs.launch import named_offline, prepare
from tui.verbs.output import note, out, out_document, print_fields, print_json
from tui.verbs.profiles.convert import convert_profile
from tui.verbs.profiles.interchange import import_profile
from tui.verbs.profiles.validate import validate
from tui.verbs.run import READS, Run, set_option, verb


@click.group()
def profiles() -> None:
    """Saved, parameterised jobs. Your own profiles come before ready-made profiles."""


@profiles.command("list")
@verb(READS)
async def list_profiles(run: Run) -> None:
    """List every profile, with the problems of unusable profiles."""
    profile_entries = entries(profile_folder(run.settings))
    problems = {e.key: "; ".join(e.check_rules(run.context)[0]) for e in profile_entries}
    rows = [e.row(problems[e.key]) for e in profile_entries]
    if run.json:
        print_json({"profiles": [json_object(PROFILE_FIELDS, row) for row in rows]})
        return
    print_fields(PROFILE_FIELDS, rows)
    for e in profile_entries:
        for problem in problems[e.key].splitlines():
            note(f"{e.name} can't be used: {problem}")


@profiles.command("show")
@click.argument("profile")
@set_option
@click.option("--reveal", is_flag=True, help="Show secrets instead of masking them.")
@verb(READS)
async def show(run: Run, profile: str, assignments: tuple[str, ...], reveal: bool) -> None:
    """Show the request that PROFILE would send, with masked secrets."""
    request = await named_offline(run, profile, prepare(run, profile, assignments))
    if run.json:
        print_json({"region": request.region or None, "body": request.shown(reveal=reveal)})
        return
    if request.region:
        out(f"region {request.region}")
    out_document(json_text(request.shown(reveal=reveal), indent=2))


profiles.add_command(import_profile)
profiles.add_command(convert_profile)
profiles.add_command(export)
profiles.add_command(validate)
