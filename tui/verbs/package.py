"""A profile's `package` block before a launch: the plan, and the progress of packaging."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.config.settings import profile_folder
from tui.domain.profile import Request
from tui.domain.vertex.packaging import LaunchTarget, PackageRequest, PackagingError
from tui.store.profiles.library import find
from tui.verbs.output import note
from tui.verbs.run import Run, VerbFailure

if TYPE_CHECKING:
    from tui.packaging.prepare import PackagePlan, PackagingStep


async def plan_of(run: Run, reference: str, request: Request) -> PackagePlan | None:
    """Return the plan of the package, printed on stderr; `None` for a profile without a package. Raises
    VerbFailure."""
    if request.package is None:
        return None
    from tui.packaging.prepare import plan_package

    target = LaunchTarget(run.context.project, request.region, run.context.emulated)
    beside = find(reference, profile_folder(run.settings)).parent
    order = PackageRequest(request.custom_job, request.package, str(beside), target)
    try:
        plan = await plan_package(order)
    except PackagingError as error:
        fix = error.fix or "Nothing was sent."
        raise VerbFailure(error.message, fix=fix, code="INVALID_PACKAGE") from error
    for line in plan.lines:
        note(line)
    if plan.dockerfile:
        note(plan.dockerfile.rstrip())
    return plan


class StepPrinter:
    """Prints each step of packaging once, and an upload's progress in tenths."""

    def __init__(self) -> None:
        self._printed: tuple[str, int] = ("", -1)

    def show(self, step: PackagingStep) -> None:
        """Print a step that differs from the last step."""
        tenth = step.done * 10 // step.total if step.total else 0
        if (step.words, tenth) == self._printed:
            return
        self._printed = (step.words, tenth)
        note(f"{step.words} {tenth * 10} %" if step.total else step.words)
