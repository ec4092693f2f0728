"""A profile's `package` block on the way to a launch: what would be made, and making it, with progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.backends.interface import Backend
from tui.config.settings import choose_context, profile_folder
from tui.domain.profile import Request
from tui.domain.vertex.packaging import Order, PackagingError, Target
from tui.store.profiles.library import find
from tui.verbs.output import note
from tui.verbs.run import Failure, Run

if TYPE_CHECKING:
    from tui.packaging.prepare import Plan, Step


async def plan_of(run: Run, reference: str, request: Request, region: str) -> Plan | None:
    """What a launch packs, told on stderr; `None` for a profile without a package. Raises Failure."""
    if request.package is None:
        return None
    from tui.packaging.prepare import plan_package

    context = choose_context(run.settings, run.context_name)
    target = Target(context.project, region, context.kind == "local")
    beside = find(reference, profile_folder(run.settings)).parent
    order = Order(request.custom_job, request.package, str(beside), target)
    try:
        plan = await plan_package(order)
    except PackagingError as error:
        raise _failure(error) from error
    for line in plan.lines:
        note(line)
    if plan.dockerfile:
        note(plan.dockerfile.rstrip())
    return plan


async def carry_out(plan: Plan, backend: Backend) -> None:
    """Make the package or the image and bring it where the job finds it. Raises Failure, BackendError."""
    from tui.packaging.prepare import prepare_package

    teller = _Teller()
    try:
        await prepare_package(plan, backend, teller.tell)
    except PackagingError as error:
        raise _failure(error) from error


class _Teller:
    """Says each step once, and of an upload each tenth of it."""

    def __init__(self) -> None:
        self._said: tuple[str, int] = ("", -1)

    def tell(self, step: Step) -> None:
        tenth = step.done * 10 // step.total if step.total else 0
        if (step.words, tenth) == self._said:
            return
        self._said = (step.words, tenth)
        note(f"{step.words} {tenth * 10} %" if step.total else step.words)


def _failure(error: PackagingError) -> Failure:
    return Failure(error.message, fix=error.fix or "Nothing was sent.", code="INVALID_PACKAGE")
