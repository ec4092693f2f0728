"""Finds the first failure among the evidence, the failures that followed, and the confidence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from tui.domain.core.diagnosis import FOLLOWED, signal_of
from tui.domain.diagnosis.evidence import Activity, Evidence, Findings
from tui.domain.diagnosis.exits import REPLICA, exit_verdict
from tui.domain.diagnosis.fallback import CERTAIN, exception_cause, exception_family
from tui.domain.diagnosis.line import JobFacts, LogLine
from tui.domain.diagnosis.rules import Match, Rules
from tui.domain.diagnosis.stream import GIVEN_UP
from tui.domain.diagnosis.verdict import Shown, Verdict

SURVIVED = 2
"""Number of further steps of a stream that show that the stream survived an error."""
SURVIVED_ELSEWHERE = 4
"""Number of further steps of other replicas that show that the job survived an error."""
HEALTHY_LINES = 25
HEALTHY_TIME = 60.0
"""Number of ordinary lines, and of seconds, that a replica must continue after an error to make the error
doubtful."""
CLOCKS = 2.0
"""Maximum difference between the clocks of two replicas that is ignored, in seconds."""
TOGETHER = 2.0
"""Maximum time between two errors, in seconds, for which a launcher's report decides which was first."""
MOST_LAST_WORDS = 12
"""Number of ordinary lines of a replica after an error, above which the error may not have ended it."""
MOST_CASCADE = 5
SERVICE = "service"
"""Replica name of the service's own entries in a log."""
_PROBES = frozenset(
    {"KeyError", "AttributeError", "ImportError", "ModuleNotFoundError", "StopIteration", "IndexError"}
)
_NEVER_RAN = frozenset({"quota-capacity", "image"})
"""Families of what keeps a replica from its start: a time limit is then a consequence."""
_WORD = re.compile(r"[\w-]+")
_STOPPED = re.compile(r"(?i)\b(?:received|got|caught) (?:signal )?(?:SIGTERM|15\b)|SIGTERM (?:was )?received")
_DONE = re.compile(
    r"(?i)\b(?:training|run|job|fit|fine-?tuning)\b.{0,20}\b(?:completed?|finished|done|ended)\b"
    r"|\bsuccess(?:ful(?:ly)?)?\b|\bsaved (?:the )?(?:final|model)|exit(?:ed)? (?:with )?(?:code|status) 0\b"
)
_COLLECTIVE = re.compile(r"\[Rank (\d+)\].*?SeqNum=(\d+), OpType=(\w+)")
_RETRIED = re.compile(
    r"[Rr]etry(?:ing)?\b|[Ww]ill retry|re-try|[Ff]all(?:ing)? ?back|[Ss]kipping|[Ii]gnoring"
    r"|[Cc]ontinuing (?:with|anyway|without)|[Aa]ttempt [1-9] ?(?:/|of) ?\d"
    r"|[Rr]ecovered|[Rr]econnect|succeeded (?:on|after)|proceeding without"
)


def decide(findings: Findings, job: JobFacts, rules: Rules) -> Verdict:
    """Return why the run failed."""
    return _Decision(findings, job, rules).verdict()


class _Decision:
    """One decision; it compares times on a clock common to all replicas."""

    def __init__(self, findings: Findings, job: JobFacts, rules: Rules) -> None:
        self._findings = findings
        self._job = job
        self._rules = rules
        self._evidence = self._without_copies()
        self._offsets = clock_offsets(findings.replicas.values())
        handled = [e for e in self._evidence if e.exception and self._handles(e)]
        kinds, equal = Counter(map(_kind, handled)), Counter(map(_kind, self._evidence))
        self._handled = {kind for kind, count in kinds.items() if 2 * count > equal[kind]}
        self._handled |= {_kind(e) for e in handled if self._trained_on(e)}
        """Keys of exceptions that some process handled or survived; equal exceptions of other processes are
        doubtful."""
        self._failing = job.failed or (not job.state and bool(findings.pointers))
        """Whether evidence other than an error's own line shows that the run failed."""
        self._platform = rules.first(job.error, "platform") if job.error else None

    def _without_copies(self) -> list[Evidence]:
        """Return the evidence without the service's copies of a replica's errors."""
        errors = self._findings.evidence
        logged = {(e.exception, e.message) for e in errors if e.replica != SERVICE} | {("", "")}
        return [
            e
            for e in errors
            if e.replica != SERVICE or not e.frames or (e.exception, e.message) not in logged
        ]

    def verdict(self) -> Verdict:
        job = self._job
        if job.state == "SUCCEEDED":
            return Verdict("", "none", confidence=0.95)
        if job.state in {"CANCELLED", "CANCELLING"} and not self._platform:
            return self._cancelled()
        roots = [evidence for evidence in self._evidence if self._fatal(evidence)]
        roots.sort(key=self._order)
        strong = [evidence for evidence in roots if self._strength(evidence) >= 2]
        platform = self._platform
        if platform is not None and platform.rule.sure and platform.rule.role == "root":
            waits = self._first([e for e in strong if self._family(e) in _NEVER_RAN])
            if platform.rule.family == "timeout" and waits is not None:
                return self._of_root(waits, [waits])
            return self._of_platform(platform, strong)
        fresh = [evidence for evidence in strong if self._pointed(evidence) or not self._passed(evidence)]
        root = self._first(fresh)
        if root is not None:
            return self._of_root(root, fresh)
        lost = self._lost()
        if lost is not None:
            return lost
        weak = self._first(
            [
                e
                for e in roots
                if self._strength(e) == 1
                and not self._doubtful(e)
                and (e.exception or not self._follows_cascade(e))
            ]
        )
        if weak is not None and (self._failing or self._ends(weak)):
            return self._of_root(weak, [weak])
        passed = self._first([e for e in strong if self._pointed(e)][-1:] or strong[-1:])
        if passed is not None and (self._failing or not job.state):
            return self._of_root(passed, strong)
        cascade = self._of_cascade()
        if cascade is not None:
            return cascade
        if platform is not None:
            return self._of_platform(platform, [])
        if job.failed:
            return self._by_exit() or Verdict(
                "", confidence=0.3, next=_READ_ON if self._findings.lines else _EMPTY
            )
        return self._ended()

    def _ended(self) -> Verdict:
        """Return the verdict on a log without an error; its end may show success or an external stop."""
        if self._job.state:
            runs = "The job still runs." if self._job.state == "RUNNING" else ""
            return Verdict("", "none", confidence=0.5, next=runs)
        ends = [line for activity in self._findings.replicas.values() for line in activity.recent]
        stop = next((line for line in ends if _STOPPED.search(line.text)), None)
        if stop is not None:
            stopped = exit_verdict(15, stop.replica, self._job.place)
            return replace(stopped, line=_index(stop), replica=stop.replica, evidence=[Shown(stop, "root")])
        done = any(_DONE.search(line.text) for line in ends)
        return Verdict("", "none" if done else "unknown", confidence=0.5, next="" if done else _READ_ON)

    # Which errors count

    def _order(self, evidence: Evidence) -> tuple[float, int]:
        """Return the sort key: the time on the common clock, then the order of the input."""
        return self._placed(evidence.replica, evidence.line)

    def _placed(self, replica: str, line: LogLine) -> tuple[float, int]:
        time = line.time - self._offsets.get(replica, 0.0) if line.time is not None else 0.0
        return (time, line.index)

    def _fatal(self, evidence: Evidence) -> bool:
        """Return whether an error may have ended the run: a root that the training did not survive."""
        if evidence.role not in {"root", "either"}:
            return False
        return not self._survived(evidence)

    def _trained_on(self, evidence: Evidence) -> bool:
        """Return whether the replica reported further steps after the error."""
        lately = self._findings.replicas[evidence.replica].lately
        return sum(line.index > evidence.line.index for _, line in lately) >= SURVIVED

    def _survived(self, evidence: Evidence) -> bool:
        if self._trained_on(evidence):
            return True
        later = evidence.after[:2] if evidence.exception else evidence.after[:1]
        # The name of an exception or its module, e.g. `retry.HttpError`, announces no retry.
        near = [*(line.text for line in later), evidence.message if evidence.exception else evidence.text]
        if any(GIVEN_UP.search(text) for text in near):
            return False
        return any(_RETRIED.search(text) for text in near)

    def _passed(self, evidence: Evidence) -> bool:
        """Return whether other replicas continued to train long after an error, on the common clock."""
        start = self._order(evidence)
        return any(
            sum(self._placed(activity.name, line) > start for _, line in activity.lately)
            >= SURVIVED_ELSEWHERE
            for activity in self._findings.replicas.values()
            if activity.name != evidence.replica
        )

    def _strength(self, evidence: Evidence) -> int:
        """Return the strength of an error: 3 for a rule that proves a failure, 2 for a raised exception, 1
        for a sign, 0 for a doubtful sign."""
        match = evidence.match
        if match is not None:
            strength = (
                3 if match.rule.sure and match.rule.role == "root" else 2 if match.rule.role == "root" else 1
            )
            vague = match.rule.where == "words"
            if evidence.role == "either" or (vague and (evidence.quoted or not evidence.exception)):
                strength = 1
            if vague and not evidence.exception and self._followers(evidence) > 2:
                strength = 0  # Words prove little, unless they are the last ones of a replica.
        else:
            strength = 1 if evidence.quoted else 2
        strength -= 2 if self._doubtful(evidence) else int(evidence.announced)
        return max(strength, 0)

    def _doubtful(self, evidence: Evidence) -> bool:
        """Return whether a process handled or survived the error, or an equal error."""
        return self._handles(evidence) or _kind(evidence) in self._handled

    def _handles(self, evidence: Evidence) -> bool:
        """Return whether the program handled or survived the error; it did not if the error is the replica's
        last output."""
        announced = evidence.announced and (self._followers(evidence) > 0 or self._outlived(evidence))
        # A preemption notice is logged as a warning although the preemption ends the run.
        logged = evidence.logged and not (evidence.match and evidence.match.rule.family == "preemption")
        return logged or announced or self._survived(evidence) or self._lived_on(evidence)

    def _outlived(self, evidence: Evidence) -> bool:
        """Return whether the replica raised another exception later."""
        return any(
            e.frames and e.replica == evidence.replica and not e.logged and e.role != "teardown"
            for e in self._evidence
            if e.line.index > evidence.line.index and _kind(e) != _kind(evidence) and e.cause is not evidence
        )

    def _followers(self, evidence: Evidence) -> int:
        """Return the number of ordinary lines that the replica wrote after the error."""
        activity = self._findings.replicas[evidence.replica]
        return activity.count - activity.busy - evidence.ordinary

    def _lived_on(self, evidence: Evidence) -> bool:
        """Return whether the replica wrote ordinary lines for long after the error."""
        activity, at = self._findings.replicas[evidence.replica], evidence.line
        last = activity.last_ordinary
        if last is None or last.index <= at.index:
            return False
        lines = self._followers(evidence)
        if at.time is not None and last.time is not None:
            return lines >= 3 and last.time - at.time > HEALTHY_TIME
        return lines >= HEALTHY_LINES

    def _ends(self, evidence: Evidence) -> bool:
        """Return whether the log of the replica ends soon after the error."""
        return not self._lived_on(evidence)

    def _pointed(self, evidence: Evidence) -> bool:
        """Return whether a launcher or the service names the process of an error."""
        end = self._job.replicas.get(evidence.replica)
        if (
            end is not None
            and (end.exit_code or 0) not in FOLLOWED
            and self._named() in {"", evidence.replica}
        ):
            return True
        return any(
            pointer.line.replica == evidence.replica
            and (pointer.code is None or pointer.code not in FOLLOWED | {-15})
            and (evidence.rank is None or pointer.rank in {None, evidence.rank})
            for pointer in self._findings.pointers
        )

    def _named(self) -> str:
        """Return the replica that the service's error names, or "" if the error names none."""
        match = REPLICA.search(self._job.error)
        if match is not None:
            return match["replica"]
        ends = self._job.replicas
        words = set(_WORD.findall(self._job.error))
        named = [name for name in ends if name in words]
        failed = (name for name, end in ends.items() if end.exit_code not in FOLLOWED | {None})
        named += [name for name in failed if name.rpartition("-")[0] in words]
        return named[0] if named else ""

    def _first(self, candidates: list[Evidence]) -> Evidence | None:
        """Return the first failure; a launcher's report decides between failures at about the same time."""
        if not candidates:
            return None
        ended = [c for c in candidates if self._pointed(c) or self._followers(c) < HEALTHY_LINES]
        candidates = ended or candidates
        candidates = [c for c in candidates if self._agrees(c)] or candidates
        first = candidates[0]
        start = self._order(first)[0]
        close = [c for c in candidates if self._order(c)[0] - start <= TOGETHER and c.line.time is not None]
        if close and not self._pointed(first):
            first = next((c for c in close if self._pointed(c)), first)
        return self._rooted(first, candidates)

    def _agrees(self, evidence: Evidence) -> bool:
        """Return whether the exit of the replica fits the error: an exception of Python ends no process by a
        signal."""
        end = self._job.replicas.get(evidence.replica)
        return not (evidence.frames and end is not None and signal_of(end.exit_code))

    def _follows_cascade(self, evidence: Evidence) -> bool:
        """Return whether the replica lost a peer just before: it aborts itself then."""
        time, index = self._order(evidence)
        return any(
            e.replica == evidence.replica
            and e.role == "cascade"
            and e.line.index < index
            and time - self._order(e)[0] < HEALTHY_TIME
            and not self._survived(e)
            for e in self._evidence
        )

    def _rooted(self, evidence: Evidence, candidates: list[Evidence]) -> Evidence:
        """Return the exception of a chain that shows the cause."""
        later = [c for c in candidates if c.cause is evidence]
        while later:
            following = later[0]
            same = following.chain == "direct" and self._family(following) == self._family(evidence)
            if following.match is not None and (evidence.match is None or same):
                return self._rooted(following, candidates)
            if evidence.match is None and following.chain == "during" and evidence.exception in _PROBES:
                return following
            later = [c for c in candidates if c.cause is following]
        return evidence

    # Verdicts

    def _of_root(self, root: Evidence, candidates: list[Evidence]) -> Verdict:
        match = root.match
        rule = match.rule if match is not None else None
        if match is not None and rule is not None:
            cause = match.fill(rule.cause) or exception_cause(root)
            family, retry, advice = rule.family, rule.retry, match.fill(rule.advice(self._job.place))
            short = match.fill(rule.short) or cause
        else:
            cause = exception_cause(root)
            family, retry, advice = exception_family(root)
            short = cause
        confidence = self._confidence(root, candidates, family)
        rank = self._rank(root)
        where = [f"rank {rank}"] if rank is not None else []
        where += [root.frame.words] if root.frame is not None else []
        return Verdict(
            cause,
            family,
            root.replica,
            _index(root.line),
            confidence,
            retry,
            advice,
            short,
            root.step,
            rule.id if rule is not None else "",
            ", ".join(where),
            self._shown(root),
            *self._cascade(root),
        )

    def _rank(self, root: Evidence) -> int | None:
        """Return the rank that wrote the error, from the line's prefix or the launcher's report."""
        if root.rank is not None:
            return root.rank if "pid=" not in root.line.text else None
        named = {p.rank for p in self._findings.pointers if p.first and p.line.replica == root.replica}
        return named.pop() if len(named) == 1 else None

    def _confidence(self, root: Evidence, candidates: list[Evidence], family: str) -> float:
        strength = self._strength(root)
        confidence = {3: 0.86, 2: 0.68, 1: 0.5, 0: 0.3}[strength]
        if strength == 2 and root.frame is not None and family == "code":
            confidence = 0.74
        others = [c for c in candidates if c is not root and self._strength(c) >= strength]
        rivals = {self._family(c) for c in others if not (c.chain and c.cause is root)} - {family}
        if rivals:
            confidence -= 0.3
        named = self._named()
        if self._pointed(root) or (named and named == root.replica):
            confidence += 0.08
        elif named or self._job.replicas:
            confidence -= 0.25
        if self._doubtful(root) or self._passed(root) or self._followers(root) > MOST_LAST_WORDS:
            confidence -= 0.3
        if not self._failing and not self._ends(root):
            confidence -= 0.3
        # Without a rule, the exception is known but not its cause.
        plain = (
            not root.match.rule.sure
            if root.match
            else not (root.exception in CERTAIN and root.frames and not root.frames[-1].package)
        )
        return min(0.69 if plain else 0.97, max(0.1, confidence))

    def _family(self, evidence: Evidence) -> str:
        if evidence.match is not None:
            return evidence.match.rule.family
        return exception_family(evidence)[0]

    def _shown(self, root: Evidence) -> list[Shown]:
        shown = [Shown(line, "context") for line in root.before[-2:] if line.index != root.line.index]
        shown.append(Shown(root.line, "root"))
        return [*shown, *(Shown(line, "context") for line in root.after[:1])]

    def _cascade(self, root: Evidence | None, replica: str = "") -> tuple[list[Shown], int]:
        """Return the first consequence of the failure in each replica, and the number of all consequences."""
        start = self._order(root) if root is not None else (float("-inf"), -1)
        lines: dict[str, LogLine] = {}
        count = 0
        for evidence in self._evidence:
            if (
                evidence is root
                or self._survived(evidence)
                or evidence.role in {"noise", "survived", "pointer"}
            ):
                continue
            if evidence.role in {"root", "either"} and evidence.replica == replica:
                continue
            if self._order(evidence) >= start or evidence.role == "cascade":
                count += 1
                lines.setdefault(evidence.replica, evidence.line)
        return [Shown(line, "cascade") for line in list(lines.values())[:MOST_CASCADE]], count

    def _of_platform(self, match: Match, strong: list[Evidence]) -> Verdict:
        rule = match.rule
        replica = match.groups.get("replica", "") or self._named()
        support = [evidence for evidence in strong if self._family(evidence) == rule.family]
        own = [evidence for evidence in support if evidence.replica == replica or not replica]
        root = self._first(own or support)
        killed = self._last_of(replica)
        if root is not None and root.match is not None and rule.family == root.match.rule.family:
            replica = root.replica or replica
        cause = match.fill(rule.cause)
        conflict = bool(strong) and root is None
        confidence = (0.9 if rule.sure and not conflict else 0.6) if rule.role == "root" else 0.5
        shown = self._shown(root) if root is not None else [Shown(killed, "context")] if killed else []
        return Verdict(
            cause,
            rule.family,
            replica,
            _index(root.line) if root is not None else None,
            confidence,
            rule.retry,
            match.fill(rule.advice(self._job.place)),
            match.fill(rule.short) or cause,
            root.step if root is not None else None,
            rule.id,
            "",
            shown,
            *self._cascade(root, replica),
        )

    def _last_of(self, replica: str) -> LogLine | None:
        activity = self._findings.replicas.get(replica)
        return activity.last if activity is not None else None

    def _cancelled(self) -> Verdict:
        """Return the verdict on a cancelled job: the job did not fail, regardless of its programs' last
        lines."""
        sign = next(
            (e for e in self._evidence if e.match is not None and e.match.rule.family == "user-cancel"),
            None,
        )
        return Verdict(
            "Somebody cancelled the job",
            "user-cancel",
            sign.replica if sign else "",
            sign.line.index if sign else None,
            0.9,
            "no",
            "Nothing to do: the job did not fail.",
            "cancelled",
            evidence=self._shown(sign) if sign else [],
        )

    def _killed(self) -> list[tuple[str, int]]:
        """Return the replicas that a signal ended, each with the signal's number, as the service or a
        launcher reports."""
        ended = [
            (name, signal_of(end.exit_code)) for name, end in self._job.replicas.items() if end.exit_code
        ]
        if not ended and (match := REPLICA.search(self._job.error)) is not None:
            ended = [(match["replica"], signal_of(int(match["code"])))]
        ended += [(p.line.replica, signal_of(p.code)) for p in self._findings.pointers if p.code]
        return [(name, number) for name, number in dict.fromkeys(ended) if number]

    def _lost(self) -> Verdict | None:
        """Return the verdict on a replica that a signal ended without a line that gives the reason."""
        killed = [(name, number) for name, number in self._killed() if number not in {15, 2}]
        # After an abort (SIGABRT), the process's own output says more than the signal.
        killed = [(name, number) for name, number in killed if number not in {6}]
        if not killed:
            return None
        killed.sort(key=lambda pair: self._silent_since(pair[0]))
        name, number = next(((n, s) for n, s in killed if s == 9), killed[0])
        verdict = exit_verdict(number, name, self._job.place)
        pointer = next(
            (p for p in self._findings.pointers if p.line.replica == name and signal_of(p.code) == number),
            None,
        )
        last = pointer.line if pointer is not None else None
        activity = self._findings.replicas.get(name)
        alone = len({n for n, s in killed if s == number}) == 1
        cascade, cascaded = self._cascade(None, name)
        return replace(
            verdict,
            replica=name,
            line=last.index if last is not None else None,
            confidence=0.62 if alone else 0.5,
            step=activity.step if activity is not None else None,
            evidence=[Shown(last, "root")] if last is not None else [],
            cascade=cascade,
            cascaded=cascaded,
        )

    def _silent_since(self, name: str) -> float:
        """Return the time of a replica's last line on the common clock."""
        last = self._last_of(name)
        if last is None or last.time is None:
            return float("inf")
        return last.time - self._offsets.get(name, 0.0)

    def _of_cascade(self) -> Verdict | None:
        """For a log of consequences only, return the verdict on the replica without a consequence, or the
        first silent one."""
        errors = [e for e in self._evidence if e.role == "cascade" and not self._survived(e)]
        cascades = [e for e in errors if not self._handles(e)] or [e for e in errors if not self._lived_on(e)]
        if not cascades:
            return None
        cascades.sort(key=self._order)
        first = cascades[0]
        affected = {e.replica for e in cascades}
        silent = sorted(
            (n for n in self._findings.replicas if n and n not in affected), key=self._silent_since
        )
        telling = [e for e in cascades if e.match is not None and e.match.rule.sure]
        hung = bool(silent) and self._order(cascades[-1])[0] - self._silent_since(silent[0]) > HEALTHY_TIME
        if not telling and len(self._job.replicas) > 1:
            # The loss of a peer does not explain why the peer was lost.
            return None
        first = first if hung or not telling else telling[0]
        match = first.match
        assert match is not None
        rule = match.rule
        replica = first.replica
        cause = match.fill(rule.cause) or exception_cause(first)
        confidence = 0.5
        line = first.line
        odd = self._odd_rank()
        if odd is not None:
            return replace(odd, evidence=self._shown(first))
        lost = self._lost_node()
        if lost:
            return replace(
                exit_verdict(77, "", self._job.place, signal=False),
                cause=f"{lost} was lost: the other replicas had no word from it",
                family="network",
                replica=lost,
                line=_index(line),
                retry="node",
                short="node lost",
                evidence=self._shown(first),
            )
        if silent and self._silent_since(silent[0]) + CLOCKS < self._order(first)[0]:
            replica = silent[0]
            cause = f"{replica} fell silent while the others waited: {cause[:1].lower()}{cause[1:]}"
        return Verdict(
            cause,
            rule.family,
            replica,
            line.index,
            confidence,
            rule.retry,
            match.fill(rule.advice(self._job.place)),
            match.fill(rule.short) or cause,
            first.step,
            rule.id,
            "",
            self._shown(first),
            *self._cascade(first),
        )

    def _lost_node(self) -> str:
        """Return the replica whose silence most others report; "" if no name is known. Node 0 hears from all
        nodes, so its word decides between two."""
        names = list(self._job.replicas) or list(self._findings.replicas)
        words = [e for e in self._evidence if e.match is not None and e.match.rule.id == "node_silent"]
        words.sort(key=lambda e: e.replica != names[0])
        blamed = {(e.replica, int(e.match.groups["node"])): None for e in words if e.match is not None}
        counts = Counter(node for _, node in blamed)
        node = counts.most_common(1)[0][0] if counts else len(names)
        return names[node] if node < len(names) else ""

    def _odd_rank(self) -> Verdict | None:
        """Return the verdict on the one rank whose watchdog names another collective than all others do."""
        calls: dict[str, tuple[tuple[str, ...], Evidence]] = {}
        for evidence in self._evidence:
            call = _COLLECTIVE.search(evidence.text)
            if call is not None:
                calls.setdefault(call[1], (call.groups()[1:], evidence))
        counts = Counter(call for call, _ in calls.values())
        if len(counts) != 2 or len(calls) < 3 or min(counts.values()) != 1:
            return None
        (usual, _), (odd, _) = counts.most_common()
        rank, error = next((rank, error) for rank, (call, error) in calls.items() if call == odd)
        cause = f"Rank {rank} was in {odd[1]} {odd[0]} while the others were in {usual[1]} {usual[0]}"
        advice = "Look for a branch that only that rank takes, or for its missing batch; then launch again."
        where = f"rank {rank}"
        index, short = _index(error.line), f"rank {rank} out of step"
        return Verdict(cause, "nccl-desync", error.replica, index, 0.6, "change", advice, short, where=where)

    def _by_exit(self) -> Verdict | None:
        """Return the verdict from the exit code alone, if the code has a meaning."""
        ended = {name: end.exit_code for name, end in self._job.replicas.items() if end.exit_code}
        if (match := REPLICA.search(self._job.error)) is not None:
            ended = {match["replica"]: int(match["code"]), **ended}
        aborted = any(e.role == "cascade" for e in self._evidence)
        for name, code in ended.items():
            if signal_of(code) == 6 and aborted:
                continue  # A watchdog aborts the process after another replica has failed.
            others = {signal_of(other) for other in ended.values()} - {6, 15}
            if signal_of(code) in {6, 15} and others and name != self._named():
                continue  # The replica followed another.
            verdict = exit_verdict(
                signal_of(code) or code, name, self._job.place, signal=bool(signal_of(code))
            )
            if verdict.cause:
                last = self._last_of(name)
                shown = [Shown(last, "context")] if last is not None else []
                return replace(verdict, replica=name, evidence=shown)
        return None


_EMPTY = (
    "The log is empty: the account of the job may lack roles/logging.logWriter, the image may be built for "
    "another processor, or its output is buffered (PYTHONUNBUFFERED=1)."
)
_READ_ON = (
    "The log does not show the cause. Read its last lines, and the events of the replica that ended first."
)


def _kind(evidence: Evidence) -> tuple[str, str, str]:
    """Return a key that equal exceptions of different processes share."""
    where = evidence.frames[-1].words if evidence.frames else ""
    return (evidence.exception, evidence.message[:80], where)


def _index(line: LogLine) -> int | None:
    """Return the index of a line in the input; `None` for a line of the service's message."""
    return line.index if line.index >= 0 else None


def clock_offsets(replicas: Iterable[Activity]) -> dict[str, float]:
    """Return the seconds by which each replica's clock is ahead of the first, from shared steps."""
    offsets: dict[str, float] = {}
    reference: dict[int, float] = {}
    for activity in replicas:
        shared = [time - reference[step] for step, time in activity.marks.items() if step in reference]
        ahead = median(shared) if len(shared) >= 2 else 0.0
        offsets[activity.name] = ahead = ahead if abs(ahead) > CLOCKS else 0.0
        for step, time in activity.marks.items():
            reference.setdefault(step, time - ahead)
    return offsets
