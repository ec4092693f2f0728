"""`vxtui diagnose`: why a run failed, from a job or from any log."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import click

from tui.config.paths import config_dir
from tui.domain.diagnosis.decide import decide
from tui.domain.diagnosis.inputs import BATCH, MOST_TEXT, NoLog, array_lines, in_time, job_facts, text_lines
from tui.domain.diagnosis.line import JobFacts, LogLine
from tui.domain.diagnosis.novelty import Novelty, with_new
from tui.domain.diagnosis.platform import with_message
from tui.domain.diagnosis.reader import Reader
from tui.domain.diagnosis.rules import RuleError, Rules, shipped_rules
from tui.domain.diagnosis.verdict import RETRY, NewLine, Shown, Verdict
from tui.domain.document.decoding import decode_json
from tui.interrupts import ending_at_once
from tui.store.log.text_input import STDIN, TextInput
from tui.verbs.output import out, print_json
from tui.verbs.run import READS, Run, VerbFailure, verb

MOST_JOB = 16 << 20
"""Bytes of a job's file, and"""
MOST_ARRAY = 1 << 30
"""bytes of a JSON array that are read."""
OWN_RULES = "rules.yaml"
MOST_SORTED = 50_000
"""Number of lines of a log that are sorted by time; a longer log is read as it comes."""
_BLANK = "\ufeff \t\r\n"


@click.command()
@click.argument("source", metavar="JOB|FILE|-")
@click.option(
    "--job",
    "job_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The service's report on the run in a FILE: {state, error, error_code, replicas}.",
)
@click.option(
    "--good",
    "good_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The log of a run that succeeded, whose lines are not new. [default: that of the last job of this "
    "name]",
)
@verb(READS)
async def diagnose(run: Run, source: str, job_file: Path | None, good_file: Path | None) -> int:
    """Say why a run failed: the first cause, its replica and line, whether to retry, and the next step.

    JOB is a job of the context. A path that exists is a FILE: plain text, JSON lines, or what `gcloud logging
    read --format=json` prints; - is stdin. Rules of your own stand in `rules.yaml` beside the settings.
    """
    rules = own_rules()
    path = STDIN if source == "-" else Path(source)
    unit = "entry"
    good = None if good_file is None else good_lines(good_file)
    if source == "-" or path.exists():
        facts = _facts(job_file)
        try:
            with ending_at_once():
                lines = log_lines(path, facts)
                verdict = diagnose_lines(lines, facts, rules, good or ())
            unit = "entry" if isinstance(lines, list) else "line"
        except (OSError, NoLog) as error:
            reason = (error.strerror if isinstance(error, OSError) else "") or error
            raise VerbFailure(f"{source} can't be read: {reason}.") from error
    else:
        from tui.verbs.log.diagnosis import verdict_of_reference

        verdict = await verdict_of_reference(run, source, rules, good)
    if run.json:
        print_json(verdict.json())
    else:
        print_verdict(verdict, unit)
    return 0


def own_rules() -> Rules:
    """Return the rules with the user's own. Raises VerbFailure."""
    try:
        return shipped_rules(config_dir() / OWN_RULES)
    except RuleError as error:
        raise VerbFailure(f"{error}.", fix="Fix or remove the rule.") from error


def _facts(path: Path | None) -> JobFacts:
    """Read the file of a job's facts. Raises VerbFailure."""
    if path is None:
        return JobFacts()
    try:
        data = path.read_bytes() if path.stat().st_size <= MOST_JOB else b""
        return job_facts(decode_json(data))
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or error
        raise VerbFailure(f"--job {path} can't be read: {reason}.") from error


def good_lines(path: Path) -> set[str]:
    """Return the templates of the lines of a run that succeeded. Raises VerbFailure."""
    novelty = Novelty()
    try:
        with ending_at_once():
            lines = iter(log_lines(path, JobFacts()))
            while batch := list(islice(lines, BATCH)):
                novelty.read(batch)
    except (OSError, NoLog) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or error
        raise VerbFailure(f"--good {path} can't be read: {reason}.") from error
    return novelty.templates()


def diagnose_file(path: Path, facts: JobFacts, rules: Rules) -> Verdict:
    """Diagnose a file. Raises OSError, NoLog."""
    return diagnose_lines(log_lines(path, facts), facts, rules)


def diagnose_lines(
    lines: list[LogLine] | Iterator[LogLine], facts: JobFacts, rules: Rules, good: Collection[str] = ()
) -> Verdict:
    """Diagnose the lines of a file. `good` has the templates of a good run. Raises OSError, NoLog."""
    reader, novelty = Reader(rules), Novelty()
    first = lines if isinstance(lines, list) else list(islice(lines, MOST_SORTED))
    rest = iter(()) if isinstance(lines, list) else lines
    indexes: list[int] = []
    if isinstance(lines, list) or (len(first) < MOST_SORTED and all(line.time is not None for line in first)):
        # A log of a service arrives out of order, or newest first: errors are compared in the order of time.
        ordered = in_time(first)
        indexes = [line.index for line in ordered]
        first = [replace(line, index=at) for at, line in enumerate(ordered)]
    ordered_lines = chain(first, rest)
    while batch := list(islice(ordered_lines, BATCH)):
        reader.read(batch)
        novelty.read(batch)
    verdict = with_new(decide(with_message(reader, facts), facts, rules), novelty, good)
    return verdict.at_indexes(indexes) if indexes else verdict


def log_lines(path: Path, facts: JobFacts) -> list[LogLine] | Iterator[LogLine]:
    """Return the lines of a file: a list if the file is a JSON array. Raises OSError, NoLog."""
    pieces = _pieces(path)
    start = ""
    for piece in pieces:
        start += piece
        if len(start.lstrip(_BLANK)) > 1:
            break
    if start.lstrip(_BLANK).startswith(("[{", "[\n", "[\r", "[]", "[ ")):
        text, size = [start], len(start)
        for piece in pieces:
            size += len(piece)
            if size > MOST_ARRAY:
                raise NoLog(
                    f"a JSON array must be smaller than {MOST_ARRAY >> 20} MiB; JSON lines may be larger"
                )
            text.append(piece)
        start = "".join(text)
        try:
            return array_lines(start)
        except NoLog as error:
            if error.__cause__ is None:
                raise
            # A line of the kernel begins like an array, too.
    return text_lines(_lines(start, pieces), tuple(facts.replicas))


def _lines(start: str, pieces: Iterator[str]) -> Iterator[str]:
    """Split text into lines; a line without an end is cut."""
    rest = start
    while True:
        *lines, rest = rest.split("\n")
        for line in lines:
            yield line.removesuffix("\r")
        if len(rest) > 4 * MOST_TEXT:
            yield rest
            rest = ""
        piece = next(pieces, None)
        if piece is None:
            break
        rest += piece
    if rest:
        yield rest


def _pieces(path: Path) -> Iterator[str]:
    """Yield the text of a file, whatever its compression. Raises OSError."""
    import codecs
    import time

    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    source = TextInput(path)
    try:
        while (data := source.read()) != b"":
            if data is None:
                time.sleep(0.02)
                continue
            yield decoder.decode(data)
        yield decoder.decode(b"", final=True)
    finally:
        source.close()


def print_verdict(verdict: Verdict, unit: str) -> None:
    """Print a verdict for people. `unit` is the noun for a position in the log."""
    if verdict.family == "none":
        if not verdict.cause:
            out(f"Nothing failed. {verdict.next}".strip())
            return
        out(f"Nothing failed; the job waits: {verdict.cause}")
        if verdict.next:
            out(f"  next step   {verdict.next}")
        return
    if not verdict.cause:
        out("Unknown: the log does not show the cause.")
    else:
        out(f"{verdict.cause}" if verdict.sure else f"Likely: {verdict.cause}")
    out(f"  family      {verdict.family}   confidence {verdict.confidence:.2f}")
    where = [verdict.replica] if verdict.replica else []
    where += [f"{unit} {verdict.line + 1}"] if verdict.line is not None else []
    where += [f"after step {verdict.step}"] if verdict.step is not None else []
    where += [verdict.where] if verdict.where else []
    if where:
        out(f"  where       {', '.join(where)}")
    if verdict.cause:
        out(f"  retry       {RETRY[verdict.retry]}")
    if verdict.next:
        out(f"  next step   {verdict.next}")
    _print_lines("evidence", verdict.evidence)
    _print_lines("led to", verdict.cascade)
    if verdict.cascaded > len(verdict.cascade):
        out(f"  {'':<11} and {verdict.cascaded - len(verdict.cascade)} more lines")
    if not verdict.rule:
        _print_lines("new in log", verdict.new)
    sys.stdout.flush()


def _print_lines(title: str, lines: Sequence[Shown | NewLine]) -> None:
    for at, shown in enumerate(lines):
        mark = "▸" if isinstance(shown, Shown) and shown.role == "root" else " "
        number, text = shown.line.index + 1 or "", shown.json()["text"]
        out(f"  {title if at == 0 else '':<10}{mark} {number:>6}  {shown.line.replica}  {text}")
