"""SEARCH of Cloud Logging's query language: complete words of texts, in any case and order.

Texts are split as BigQuery's LOG_ANALYZER splits them. A phrase in backticks matches adjacent words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from tui.emulator.filters.fields import MISSING, Condition, FieldTable
from tui.emulator.filters.functions import field_of, refused
from tui.emulator.filters.syntax import FilterCall
from tui.emulator.logging.record import LogSource, StoredEntry

_DELIMITERS = re.compile(
    r"(?:%(?:2[16BbCc0589]|25(?:26|20)|3[BbDdAa]|7[Cc]|5[DdBb]|0[Aa])|[\[\]<>(){}|!;,'\"*&?+/:=@.\-$%\\_\s])+"
)
"""Separators of words: punctuation, blanks, and their URL-encoded forms."""
_PHRASE = re.compile(r"`([^`]*)`")


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return [word for word in _DELIMITERS.split(text.casefold()) if word]


class TextQuery:
    """A search: words that may occur anywhere, and phrases."""

    def __init__(self, text: str) -> None:
        self.phrases = [phrase_words for phrase in _PHRASE.findall(text) if (phrase_words := words(phrase))]
        self.words = frozenset(words(_PHRASE.sub(" ", text)))

    @property
    def empty(self) -> bool:
        """Whether the query has no words."""
        return not self.words and not self.phrases

    def missing(self, texts: Iterable[list[str]]) -> bool:
        """Return whether a word or phrase is in none of the texts, given as lists of words."""
        missing, phrases = set(self.words), list(self.phrases)
        for text_words in texts:
            if not missing and not phrases:
                break
            missing.difference_update(text_words)
            phrases = [phrase for phrase in phrases if not _within(phrase, text_words)]
        return bool(missing or phrases)


def _within(phrase: list[str], text_words: list[str]) -> bool:
    size = len(phrase)
    return any(text_words[at : at + size] == phrase for at in range(len(text_words) - size + 1))


def _query(call: FilterCall, at: int) -> TextQuery:
    argument = call.arguments[at]
    if isinstance(argument, FilterCall) or not argument.quoted:
        raise refused(call, 'must have its words in quotes, e.g. SEARCH("hello world")')
    query = TextQuery(argument.text)
    if query.empty:
        raise refused(call, f"{argument.text!r} must contain a word to search for")
    return query


def search_entry(call: FilterCall, table: FieldTable[StoredEntry]) -> Condition[StoredEntry]:
    """Return the condition of `SEARCH("words")` over an entry, or `SEARCH(field, "words")` over a field."""
    if len(call.arguments) not in {1, 2}:
        raise refused(call, "must have one argument, the words, or two: a field and the words")
    query = _query(call, len(call.arguments) - 1)
    if len(call.arguments) == 1:
        return lambda record: not query.missing(_entry_words(record))
    get: Callable[[StoredEntry], Any] = field_of(call, table).get

    def decide(record: StoredEntry) -> bool:
        value = get(record)
        return value is not MISSING and not query.missing(map(words, _texts(value)))

    return decide


def search_source(call: FilterCall, table: FieldTable[LogSource]) -> Condition[LogSource]:
    """Return the condition if only the source is known; missing words may be in the entry."""
    search_entry(call, table)  # type: ignore[arg-type]
    return lambda source: None


@lru_cache(maxsize=8)
def _entry_words(record: StoredEntry) -> tuple[list[str], ...]:
    """Return the words of each text of an entry, which every search of a filter reads."""
    return tuple(map(words, _entry_texts(record)))


def _entry_texts(record: StoredEntry) -> Iterator[str]:
    source = record.source
    yield record.text
    yield from _texts(record.json)
    yield from _texts({name: value for name, value in record.extra.items() if name != "jsonPayload"})
    yield from (source.log_name, source.resource_type, *source.resource_labels.values(), record.row[2])


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value. A field without text is not searched."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for element in value.values():
            yield from _texts(element)
    elif isinstance(value, list):
        for element in value:
            yield from _texts(element)
