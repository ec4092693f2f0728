"""Implements `vxtui export`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from tui.backends.errors import NotFound
from tui.config.settings import profile_folder
from tui.domain import interchange
from tui.domain.interchange import ALL_FORMS, FORMS, KUBECTL, Exported, export_job
from tui.domain.profile import ProfileInvalid
from tui.store.profiles.library import NoProfile, find, read_profile
from tui.verbs.launch import named_offline
from tui.verbs.output import note, out, print_json
from tui.verbs.run import READS, Run, VerbFailure, assigned, check_regions, find_job, set_option, verb


@click.command("export")
@click.argument("source", metavar="JOB|PROFILE")
@click.option("--as", "form", type=click.Choice(ALL_FORMS), required=True, help="The format to export.")
@set_option
@click.option(
    "--region", metavar="REGION", help="Export for this region instead of the job's or the profile's."
)
@click.option("--output", "target", metavar="FILE", help="Write to this file instead of stdout.")
@click.option("--reveal", is_flag=True, help="Include secrets; by default, placeholders replace them.")
@verb(READS)
async def export(  # noqa: PLR0917 - one for each option
    run: Run,
    source: str,
    form: str,
    assignments: tuple[str, ...],
    region: str | None,
    target: str | None,
    reveal: bool,
) -> None:
    """Print the request of a job or a profile: a gcloud command, a curl call, a Python program, or YAML.

    JOB|PROFILE is a profile's name or file, or else a job's id or name. The gcloud command has its config as
    a here-document. With --output FILE the config goes to the file, and the printed command uses it. A
    cluster job is YAML for kubectl apply -f.
    """
    check_regions([region] if region else [], run.context)
    file = (target or "") if form == "gcloud" else ""
    request = Asked(run, form, region or "", file, reveal)
    done = await request.export(source, assigned(assignments))
    if done.problem:
        # The message about the other services names the way to convert.
        others = [other for other in FORMS if other != form]
        fix = "" if KUBECTL in done.problem else f"Export the job with --as {' or --as '.join(others)}."
        raise VerbFailure(done.problem, fix=fix, code="NOT_EXPRESSIBLE")
    _print(run, form, done, target)


def _print(run: Run, form: str, done: Exported, target: str | None) -> None:
    for line in done.notes:
        note(f"note: {line}")
    if target:
        _write(Path(target), done.text)
    if run.json:
        print_json(
            {"as": form, "text": done.text, "command": done.command or None, "notes": list(done.notes)}
        )
    elif target:
        for line in (done.command or target).splitlines():
            out(line)
    else:
        sys.stdout.write(done.text)


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of an export: form, region, target file, and whether to include secrets."""

    run: Run
    form: str
    region: str
    file: str
    reveal: bool

    async def export(self, source: str, values: Mapping[str, str]) -> Exported:
        """Export a profile with these parameters, or a job. Raises VerbFailure."""
        try:
            path = find(source, profile_folder(self.run.settings))
        except NoProfile as error:
            return await self._of_job(source, values, error)
        try:
            profile = read_profile(path)
            checked = profile.check(values, region=self.region)
        except ProfileInvalid as error:
            raise VerbFailure(str(error), code="INVALID_PROFILE") from error
        except OSError as error:
            raise VerbFailure(f"The profile can't be read: {error}", code="INVALID_PROFILE") from error
        if checked.errors:
            raise VerbFailure(
                "\n".join(map(str, checked.errors)), fix="Nothing was exported.", code="INVALID_PROFILE"
            )
        context = self.run.one_context
        request = await named_offline(self.run, source, checked.request)
        return interchange.export(
            profile,
            request,
            self.form,
            project="" if context.emulated else context.project,
            region=request.region or ("" if context.kind == "kubernetes" else context.home_region),
            file=self.file,
            reveal=self.reveal,
        )

    async def _of_job(self, source: str, values: Mapping[str, str], no_profile: NoProfile) -> Exported:
        fix = "`vxtui profiles list` lists the profiles; `vxtui jobs` lists the jobs."
        if "/" in source and not source.startswith(("projects/", "clusters/")):
            raise VerbFailure(str(no_profile), fix=fix, code="NOT_FOUND", exit_code=3) from no_profile
        try:
            async with self.run.backend() as backend:
                job = await find_job(backend, source)
                resource = await backend.job_service(job.name).spec(job.name)
                project = "" if backend.runs_here(job.name) else backend.owner(job.name).info.project
        except NotFound as error:
            message = f"{no_profile}\n{error.message}"
            raise VerbFailure(message, fix=fix, code="NOT_FOUND", exit_code=3) from error
        if values:
            raise VerbFailure(f"{source} is a job: it has no parameters to set.", fix="Leave out --set.")
        try:
            return export_job(
                resource,
                self.form,
                project=project,
                region=self.region,
                file=self.file,
                reveal=self.reveal,
            )
        except ProfileInvalid as error:
            raise VerbFailure(str(error), code="INVALID_PROFILE") from error


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise VerbFailure(f"{path} already exists.", fix="Name another file.", code="EXISTS") from error
    except OSError as error:
        raise VerbFailure(f"{path} can't be written: {error}", code="UNWRITABLE") from error
