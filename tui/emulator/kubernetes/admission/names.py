"""Rules for names, label keys and label values, in the API server's words."""

from __future__ import annotations

import re

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_PART = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_RFC_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_RFC_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    f"validation is '{_RFC_1035.pattern}')"
)
_IS_LABEL, _IS_SUBDOMAIN, _IS_PART = re.compile(_LABEL), re.compile(_SUBDOMAIN), re.compile(_PART)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN}')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    f"'{_LABEL}')"
)
_PART_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    f"'{_PART}')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    f"for validation is '({_PART})?')"
)


def too_long(most: int) -> str:
    return f"must be no more than {most} characters"


def label_problems(name: str) -> list[str]:
    """Return why a text can't be the name of a namespace, service or container."""
    errors = [too_long(63)] if len(name) > 63 else []
    return [*errors, *([] if _IS_LABEL.fullmatch(name) else [_LABEL_RULE])]


def subdomain_problems(name: str) -> list[str]:
    """Return why a text can't be a DNS-1123 subdomain name."""
    errors = [too_long(253)] if len(name) > 253 else []
    return [*errors, *([] if _IS_SUBDOMAIN.fullmatch(name) else [_SUBDOMAIN_RULE])]


def rfc1035_problems(name: str, length: str = "") -> list[str]:
    """Return why a text is not a valid DNS-1035 label. `length` is the message about a label that is too
    long."""
    errors = [length or too_long(63)] if len(name) > 63 else []
    return [*errors, *([] if _RFC_1035.fullmatch(name) else [_RFC_1035_RULE])]


def key_problem(key: str) -> str:
    """Return why a text can't be the key of a label or annotation, or "" if it can."""
    prefix, slash, name = key.rpartition("/")
    if slash and "/" in prefix:
        return (
            "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and "
            "end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
            f"validation is '{_PART}') with an optional DNS subdomain prefix and '/' (e.g. "
            "'example.com/MyName')"
        )
    if slash and not prefix:
        return "prefix part must be non-empty"
    for problem in subdomain_problems(prefix) if slash else []:
        return f"prefix part {problem}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return f"name part {too_long(63)}"
    return "" if _IS_PART.fullmatch(name) else _PART_RULE


def value_problem(value: str) -> str:
    """Return why a text can't be a label value, or "" if it can."""
    if len(value) > 63:
        return too_long(63)
    return "" if not value or _IS_PART.fullmatch(value) else _VALUE_RULE
