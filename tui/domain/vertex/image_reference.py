"""Names of container images, by the reference grammar of the OCI distribution and image specifications.

reference = [domain "/"] path ["/" path]… [":" tag] ["@" digest]
"""

from __future__ import annotations

import re

SOURCE = "https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md#pulling-manifests"

MAX_NAME = 255
"""Maximum number of characters in a name without tag and digest."""
MAX_TAG = 128

_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"(?:{_HOST}(?:\.{_HOST})*|\[[0-9A-Fa-f:.]+\])(?::\d{{1,5}})?")
_PATH = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_DIGEST = re.compile(r"[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[A-Za-z0-9=_-]+")
_HEX = {"sha256": 64, "sha512": 128}


def problem(image: str) -> tuple[str, str] | None:
    """Return the problem with an image's name, and the right name ("" if the user must choose)."""
    if "::" in image and not image.startswith("["):
        return "has two colons before its tag", image.replace("::", ":")
    name, at, digest = image.partition("@")
    if at and (trouble := _of_digest(digest)):
        return trouble, ""
    head, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    name = f"{head}{slash}{last}"
    if colon and (trouble := _of_tag(tag)):
        return trouble, ""
    if len(name) > MAX_NAME:
        return f"has {len(name)} characters; {MAX_NAME} is the maximum", ""
    return _of_name(name)


def _of_digest(digest: str) -> str:
    algorithm, _, encoded = digest.partition(":")
    size = _HEX.get(algorithm, 0)
    if size and re.fullmatch(rf"[0-9a-f]{{{size}}}", encoded) is None:
        return f"has a digest that must be {algorithm}: followed by {size} of the digits 0-9 and a-f"
    return "" if _DIGEST.fullmatch(digest) else "has an @ without a digest such as sha256: and 64 digits"


def _of_tag(tag: str) -> str:
    if not tag:
        return "ends with a colon, and no tag follows"
    if len(tag) > MAX_TAG:
        return f"has a tag of {len(tag)} characters; {MAX_TAG} is the maximum"
    if _TAG.fullmatch(tag) is None:
        return (
            f"has the tag {tag!r}; it must have only letters, digits, _, . and -, and not begin with . or -"
        )
    return ""


def _of_name(name: str) -> tuple[str, str] | None:
    first, slash, rest = name.partition("/")
    if not (slash and _is_domain(first)):
        rest = name
    elif _DOMAIN.fullmatch(first) is None:
        if _PATH.fullmatch(first) is None:
            return f"begins with {first!r}, which must be a host and port", ""
        # A registry's name has no underscore; a repository's name may have one.
        rest = name
    for part in rest.split("/"):
        if _PATH.fullmatch(part):
            continue
        if not part:
            return "has an empty part between slashes", ""
        if _PATH.fullmatch(part.lower()):
            return f"has capital letters in {part!r}; a repository has none", ""
        return (
            (
                f"has the part {part!r}; a part must have lowercase letters and digits, with ., _, __ or "
                "- between them"
            ),
            "",
        )
    return None


def _is_domain(first: str) -> bool:
    """Return whether the part before the first slash names a registry."""
    return "." in first or ":" in first or first == "localhost" or first.startswith("[")
