"""Sends an alert by mail, webhook, desktop notification or command."""

from __future__ import annotations

import asyncio
import http.client
import json
import smtplib
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from email.message import EmailMessage
from typing import Any

from tui.backends.local.threads import in_thread
from tui.config.guard_settings import AlertChannel
from tui.domain.core.formatting import rfc3339
from tui.domain.masking import mask_text
from tui.guard.record import AlertRecord
from tui.helper_program import TooMuchOutput, run_helper

SECONDS = 15.0
"""Time limit of one delivery."""
_LONGEST = 3_500
"""Maximum length of a text; Discord takes 2,000 characters, Slack and Google Chat 4,000."""
_DISCORD = 1_900
_MOST_TITLES = 10
FOR_PROGRAMS = frozenset({"webhook", "command"})
"""Kinds of channels that get each alert on its own, however many there are."""


class DeliveryFailed(Exception):
    """A channel can't deliver an alert. The message gives the reason, without secrets."""


async def deliver(channel: AlertChannel, alert: AlertRecord) -> None:
    """Send an alert. Raises DeliveryFailed."""
    try:
        async with asyncio.timeout(SECONDS + 5):
            if channel.kind == "command":
                await _run(channel.command, json.dumps(alert_json(alert)).encode())
            elif channel.kind == "desktop":
                await _run(["notify-send", "--app-name=vxtui", "--", alert.title, alert.body])
            elif channel.kind == "mail":
                await in_thread(lambda: _send_mail(channel, alert))
            else:
                headers, body = _HEADERS.get(channel.kind, {}), _body(channel, alert)
                await in_thread(lambda: _post(channel.url, headers, body))
    except TimeoutError:
        silent = "no reply" if channel.url or channel.address else "the program and its children did not end"
        raise DeliveryFailed(f"{silent} within {SECONDS:.0f} s") from None


async def beat(url: str) -> None:
    """Request the heartbeat's address. Raises DeliveryFailed."""
    try:
        async with asyncio.timeout(SECONDS + 5):
            await in_thread(lambda: _post(url, {}, None))
    except TimeoutError:
        raise DeliveryFailed(f"no reply within {SECONDS:.0f} s") from None


def summary(alerts: Sequence[AlertRecord]) -> AlertRecord:
    """Return one message about several alerts: their titles, as many as a message may have."""
    titles = [alert.title[:150] for alert in alerts[:_MOST_TITLES]]
    if more := len(alerts) - len(titles):
        titles.append(f"and {more} more")
    body = "\n".join((*titles, "Look: vxtui guard log"))
    return AlertRecord(alerts[0].id, alerts[-1].at, alerts[0].context, "", f"{len(alerts)} alerts", body)


def alert_json(alert: AlertRecord) -> dict[str, Any]:
    """Return an alert as JSON for `--json`, a plain webhook and a command's input."""
    return {
        "id": alert.id,
        "time": rfc3339(alert.at),
        "context": alert.context,
        "job": alert.job,
        "title": alert.title,
        "text": alert.body,
    }


_HEADERS: Mapping[str, Mapping[str, str]] = {"ntfy": {"Content-Type": "text/plain; charset=utf-8"}}


def _body(channel: AlertChannel, alert: AlertRecord) -> bytes:
    """Return the request body in the format of the channel's service."""
    text = f"{alert.title}\n{alert.body}"[:_LONGEST]
    formats: Mapping[str, Callable[[], Any]] = {
        "slack": lambda: {"text": _without_markup(text), "mrkdwn": False},
        "google-chat": lambda: {"text": _without_markup(text)},
        # No name in a job's words may notify people.
        "discord": lambda: {"content": text[:_DISCORD], "allowed_mentions": {"parse": []}},
        "webhook": lambda: alert_json(alert),
    }
    if channel.kind == "ntfy":
        return text.encode()
    return json.dumps(formats[channel.kind]()).encode()


def _without_markup(text: str) -> str:
    """Escape the characters by which Slack and Google Chat recognize links and mentions."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _post(url: str, headers: Mapping[str, str], body: bytes | None) -> None:
    """Send a POST, or without a body a GET (blocking). Raises DeliveryFailed."""
    request = urllib.request.Request(
        url, data=body, headers={"Content-Type": "application/json", "User-Agent": "vxtui", **headers}
    )
    try:
        _opener().open(request, timeout=SECONDS).close()
    except urllib.error.HTTPError as error:
        with error:
            raise DeliveryFailed(_reason(f"the server answered {error.code} {error.reason}")) from None
    except urllib.error.URLError as error:
        raise DeliveryFailed(_reason(error.reason)) from None
    except OSError as error:
        raise DeliveryFailed(_reason(error)) from None
    except http.client.InvalidURL:
        # Its message contains the address.
        raise DeliveryFailed("the url is invalid") from None
    except (http.client.HTTPException, ValueError) as error:
        raise DeliveryFailed(f"the server's answer is not HTTP ({type(error).__name__})") from None


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirect)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, which a captive portal sends instead of the service."""

    def redirect_request(self, *_: Any) -> None:
        """Return no request, so that the redirect becomes an HTTPError."""


def _send_mail(channel: AlertChannel, alert: AlertRecord) -> None:
    """Send a mail (blocking). Raises DeliveryFailed."""
    host, _, port = channel.server.rpartition(":")
    message = EmailMessage()
    try:
        message["From"] = message["To"] = channel.address
        message["Subject"] = " ".join(f"vxtui: {alert.title}".split())
        message.set_content(alert.body)
        with smtplib.SMTP(host, int(port), timeout=SECONDS) as server:
            server.ehlo_or_helo_if_needed()
            if server.has_extn("starttls"):
                server.starttls()
            server.send_message(message)
    except (OSError, ValueError, smtplib.SMTPException) as error:
        raise DeliveryFailed(_reason(error)) from None


async def _run(command: list[str], stdin: bytes = b"") -> None:
    """Run a program. Raises DeliveryFailed."""
    try:
        result = await run_helper(command, seconds=SECONDS, stdin=stdin)
    except FileNotFoundError:
        raise DeliveryFailed(f"{command[0]} is not installed") from None
    except TimeoutError:
        raise
    except (OSError, TooMuchOutput) as error:
        raise DeliveryFailed(_reason(error)) from None
    if result.code:
        words = result.errors.decode(errors="replace").strip().splitlines()
        raise DeliveryFailed(
            _reason(f"{command[0]} exited with {result.code}" + (f": {words[-1]}" if words else ""))
        )


def _reason(error: object) -> str:
    """Return an error's text without secrets and line breaks."""
    return mask_text(" ".join(str(error).split()))[:300] or type(error).__name__
