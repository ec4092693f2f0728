"""Web pages, opened in the browser if this session has a browser, or else shown and copied."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from tui.domain.core.job import Job
from tui.domain.core.text import plain
from tui.kinds.registry import kind_of
from tui.screens.dialogs.message import MessageScreen
from tui.screens.dialogs.pick import PickScreen
from tui.screens.workers import background
from tui.web_browser import open_page

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp

CONSOLE = "https://console.cloud.google.com/vertex-ai"
Page = tuple[str, str]
"""A page's title and its address."""


def show_page(console: ConsoleApp, page: Page, note: str = "") -> None:
    """Open the page, or show and copy its address."""
    title, uri = page

    async def show() -> None:
        if await asyncio.to_thread(open_page, uri):
            console.notify(f"Opened in the browser: {plain(title)}", markup=False)
            return
        console.send_copy(uri, "the link")
        console.push_screen(MessageScreen(title, f"{uri}\n\n{note}" if note else uri))

    background(console, show, "web page")


def show_link(console: ConsoleApp, job: Job) -> None:
    """Show the job's page in the cloud console, or one of the addresses that exist while it runs."""
    pages = [*cloud_pages(console, job), *access_pages(job)]
    if len(pages) == 1:
        show_page(console, pages[0])
    elif pages:
        _choose(console, f"Links of {job.display_name}", pages)
    else:
        subject = "job on this machine" if kind_of(job).page else kind_of(job).words.noun
        console.notify(f"A {subject} has no page in the cloud console.", markup=False)


def show_resource(console: ConsoleApp, name: str, title: str, path: str) -> None:
    """Show the page of a resource with this full name, e.g. a model. `path` is relative to the cloud
    console's address."""
    session = console.session
    if session is None or session.backend.runs_here(name):
        console.notify(f"{title} runs on this machine and has no page in the cloud console.", markup=False)
        return
    show_page(console, (f"Page of {title}", cloud_page(name, path)))


def cloud_pages(console: ConsoleApp, job: Job) -> list[Page]:
    """Return the job's page in the cloud console; none for a job on this machine or a kind without a page."""
    session = console.session
    if session is None or session.backend.runs_here(job.name) or not kind_of(job).page:
        return []
    path = f"locations/{job.region}/{kind_of(job).page}/{job.id}"
    return [(f"Page of {job.display_name}", cloud_page(job.name, path))]


def cloud_page(name: str, path: str) -> str:
    """Return the address in the cloud console of the resource with this full name."""
    # Use the resource's project, because in a group of contexts each resource has its own project.
    return f"{CONSOLE}/{path}?project={name.split('/')[1]}"


def access_pages(job: Job) -> list[Page]:
    """Return the pages of the replicas: shells and dashboards, which exist only while the job runs."""
    uris = sorted(job.web_access_uris.items())
    # The emulator's shells are not pages.
    return [(access_title(key), uri) for key, uri in uris if uri.startswith(("https:", "http:"))]


def access_title(key: str) -> str:
    """Return the title for a key of `Job.web_access_uris`: a replica's shell, or with a port its
    dashboard."""
    replica, _, port = key.partition(":")
    return f"dashboard {replica} (port {port})" if port else f"web shell {replica}"


def _choose(console: ConsoleApp, title: str, pages: Sequence[Page]) -> None:
    options = [
        (uri, Content.assemble(plain(words), "  ", (plain(uri), "$text-muted"))) for words, uri in pages
    ]

    def chosen(uri: str | None) -> None:
        page = next((page for page in pages if page[1] == uri), None)
        if page is not None:
            show_page(console, page)

    console.push_screen(PickScreen(title, options), chosen)
