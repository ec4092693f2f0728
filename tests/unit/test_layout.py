"""The layout of the tree (docs/ARCHITECTURE.md): what a newcomer relies on when looking for a place.

The graph holds every import: those under TYPE_CHECKING and those inside functions too. The one order of the
layers is import-linter's contract in pyproject.toml; here is what a contract of layers can't say.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("tui", "trainer")
MOST_MODULES = 16
MOST_LINES = 700


@cache
def graph() -> grimp.ImportGraph:
    """All modules of both packages; of other packages only the root."""
    return grimp.build_graph(*PACKAGES, include_external_packages=True)


def modules_of(*packages: str) -> list[str]:
    """The modules of these packages, themselves included."""
    return [
        m for m in sorted(graph().modules) if m.startswith(tuple(f"{p}." for p in packages)) or m in packages
    ]


def importers(sources: list[str], targets: tuple[str, ...]) -> list[str]:
    """`a -> b` for each import of a target by a source."""
    found = []
    for source in sources:
        for target in sorted(graph().find_modules_directly_imported_by(source)):
            if target in targets or target.startswith(tuple(f"{t}." for t in targets)):
                found.append(f"{source} -> {target}")
    return found


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of nodes that reach one another (Tarjan), each with more than one node."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(edges):
        if node not in order:
            visit(node)
    return found


def test_cycles_are_found_where_there_are_some() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert cycles({"a": {"b", "c"}, "b": {"c"}}) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_modules_import_each_other(package: str) -> None:
    edges = {m: set(graph().find_modules_directly_imported_by(m)) for m in modules_of(package)}
    assert cycles(edges) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_folder_holds_more_modules_than_a_reader_takes_in(package: str) -> None:
    folders = {path.parent for path in (ROOT / package).rglob("*.py")}
    counts = {
        str(f.relative_to(ROOT)): len([p for p in f.glob("*.py") if p.stem != "__init__"]) for f in folders
    }
    assert {folder: count for folder, count in counts.items() if count > MOST_MODULES} == {}


@pytest.mark.parametrize("package", [*PACKAGES, "tests"])
def test_no_module_is_longer_than_a_reader_bears(package: str) -> None:
    lines = {str(p.relative_to(ROOT)): p.read_text().count("\n") for p in (ROOT / package).rglob("*.py")}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_only_backends_and_the_emulator_import_googles_clients() -> None:
    others = [m for m in modules_of("tui") if not m.startswith(("tui.backends.", "tui.emulator."))]
    assert importers(others, ("google", "grpc")) == []


def test_the_domain_imports_no_service_no_screen_and_no_process() -> None:
    outward = ("textual", "google", "grpc", "psutil", "click", "subprocess", "socket", "asyncio")
    assert importers(modules_of("tui.domain"), outward) == []


def test_screens_and_widgets_know_of_a_backend_only_its_errors() -> None:
    found = importers(modules_of("tui.screens", "tui.widgets"), ("tui.backends", "tui.emulator"))
    assert [one for one in found if not one.endswith("tui.backends.errors")] == []


def test_only_what_paints_imports_textual() -> None:
    painters = ("tui.screens", "tui.widgets", "tui.display", "tui.app", "tui.console", "tui.file_viewer")
    rest = [m for m in modules_of("tui") if not m.startswith(painters)]
    # Key bindings and themes are Textual's types; both are imported when the screen asks for them.
    allowed = ("tui.actions.registry -> textual", "tui.config.themes -> textual")
    assert [one for one in importers(rest, ("textual",)) if one not in allowed] == []


def test_packaging_knows_a_backend_by_its_interface() -> None:
    assert importers(modules_of("tui.packaging"), ("tui.backends.vertex",)) == []


def test_the_console_and_the_trainer_do_not_import_each_other() -> None:
    assert importers(modules_of("tui"), ("trainer",)) == []
    assert importers(modules_of("trainer"), ("tui",)) == []


def test_the_first_paint_loads_only_what_it_shows() -> None:
    later = (
        *("tui.domain.diagnosis", "tui.domain.kubernetes", "tui.domain.profile", "tui.domain.pipeline"),
        *(
            "tui.domain.vertex.rules",
            "tui.backends.vertex",
            "tui.backends.kubernetes",
            "tui.emulator",
            "tui.verbs.log",
        ),
        *("pydantic", "yaml", "google.protobuf", "google.auth", "grpc", "numpy", "torch", "sqlite3", "httpx"),
    )
    code = (
        "import sys, tui.cli, tui.console, tui.app\n"
        f"print([name for name in {later!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_asking_for_help_loads_neither_the_screen_nor_a_client() -> None:
    # Some installers leave `google` itself in every process, as a namespace with nothing in it.
    code = (
        "import sys\nfrom tui.cli import main\nsys.argv = ['vxtui', '--help']\n"
        "heavy = ('textual', 'google.protobuf', 'google.auth', 'grpc', 'torch')\n"
        "try:\n    main()\nexcept SystemExit:\n    print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
