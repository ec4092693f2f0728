"""Filters as the public documentation of Cloud Logging and Cloud Monitoring has them, and what they select.

The entries and series are made up, so that each expression selects some and not all. An expression is of the
documented form, mostly with the documented names. Sources: "Logging query language", "Sample queries using
the Logs Explorer" (cloud.google.com/logging/docs/view) and "Monitoring filters"
(cloud.google.com/monitoring/api/v3/filters).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

DAY = (datetime.now(UTC) - timedelta(days=2)).strftime("%Y-%m-%d")
"""Of all entries but one, which is of the day before."""
BEFORE = (datetime.now(UTC) - timedelta(days=3)).strftime("%Y-%m-%d")

_VM = {"type": "gce_instance", "labels": {"instance_id": "6731710280662790612", "zone": "us-central1-a"}}
_AUDIT = "cloudaudit.googleapis.com%2Factivity"


def _entry(
    name: str, clock: str, log: str = "app", resource: Any = None, day: str = DAY, **said: Any
) -> dict[str, Any]:
    return {
        "insertId": name,
        "timestamp": f"{day}T{clock}Z",
        "logName": f"projects/p/logs/{log}",
        "resource": resource or {"type": "k8s_cluster", "labels": {"location": "us-east1"}},
        **said,
    }


ENTRIES: list[dict[str, Any]] = [
    _entry("hat", "23:10:00.000250", "syslog", _VM, severity="ERROR", textPayload="The Cat in The Hat"),
    _entry("kitty", "22:00:00.750", "syslog", severity="INFO", textPayload="Hello Kitty", day=BEFORE),
    _entry(
        "shop", "10:00:00", severity="WARNING", labels={"env": "prod-1-server", "a.b/c": "x"},
        jsonPayload={
            "cat": "longhair", "animal": "A nice old Pet", "shoeSize": [8.5, 9, 6],
            "realClientIP": "10.1.2.77", "x": {"age": 24, "height": 67}, "ok": True, "field": None,
            ":name": "apple", "foo.bar": "apple",
            "count": 12, "big": "9223372036854775807", "end_time": "late",
        },
    ),
    _entry(
        "barn", "11:00:00.500", severity="NOTICE", labels={"env": "test-1"},
        jsonPayload={
            "cat": "Siamese", "animal": "nice", "realClientIP": ["192.168.0.1", "10.1.2.0/25"], "ok": False,
            "count": "7", "field": "set", "title": "world peace", "message": "say Hello: field1=\"bars\"",
        },
    ),
    _entry(
        "request", "12:00:00", "requests", severity="WARNING", trace="projects/p/traces/1",
        httpRequest={
            "status": 500, "latency": "1.5s", "requestSize": "123456", "remoteIp": "1:2::9", "cacheHit": True,
            "requestMethod": "GET",
        },
        jsonPayload={"realClientIP": "not an address", "count": "many"},
    ),
    _entry(
        "audit", "13:00:00", _AUDIT, _VM, operation={"id": "op-1", "first": True}, severity="NOTICE",
        sourceLocation={"file": "src/foo.py", "line": "42"}, textPayload="GCE_OPERATION_DONE unicorn phoenix",
    ),
    _entry("ashes", "14:00:00", textPayload="A phoenix. A unicorn."),
    _entry("wide", "15:00:00", textPayload="worldwide"),
    _entry("greeting", "16:00:00", severity="DEBUG", textPayload="World, hello!"),
]  # fmt: skip

_ALL = "hat kitty shop barn request audit ashes wide greeting"
_JSON = "shop barn request"


def _but(*left_out: str) -> str:
    return " ".join(name for name in _ALL.split() if name not in left_out)


LOG_FILTERS: list[tuple[str, str]] = [
    ("", _ALL),
    ('"The Cat in The Hat"', "hat"),
    ('resource.type = "gce_instance"', "hat audit"),
    ('resource.type = "gce_instance" AND severity = "ERROR"', "hat"),
    ('resource.type = ("gce_instance" OR "aws_ec2_instance")', "hat audit"),
    ('resource.type = "k8s_cluster" AND (severity = "WARNING" OR "phoenix")', "shop request ashes"),
    ('resource.type = "gce_instance" AND severity >= "NOTICE" AND NOT textPayload:robot', "hat audit"),
    # Operators of logic: NOT, then OR, then AND.
    ('"cat" OR NOT "world" AND NOT "unicorn" OR "peace"', "hat kitty shop request"),
    ('("cat" OR (NOT "world")) AND ((NOT "unicorn") OR "peace")', "hat kitty shop request"),
    ('severity="WARNING" labels.env="prod-1-server" -jsonPayload.cat="siamese"', "shop"),
    ('textPayload:"hello" or', "greeting"),
    # Comparisons.
    ("resource.labels.zone = us-central1-a", "hat audit"),
    ('insertId = "wide"', "wide"),
    ('labels."a.b/c" = "x"', "shop"),
    ("jsonPayload.field = NULL_VALUE", "shop"),
    ("NOT jsonPayload.field = NULL_VALUE", _but("shop")),
    ('jsonPayload.cat = ("longhair" OR "shorthair")', "shop"),
    ('jsonPayload.animal : ("nice" AND "pet")', "shop"),
    ('jsonPayload.":name":apple', "shop"),
    ('jsonPayload."foo.bar":apple', "shop"),
    ("jsonPayload.end_time:*", "shop"),
    ("jsonPayload.endTime:*", ""),
    # Missing, defaulted.
    ("operation.id:*", "audit"),
    ('NOT jsonPayload.cat="longhair"', _but("shop")),
    ('jsonPayload.cat!="longhair"', "barn"),
    ('trace=""', _but("request")),
    ("httpRequest.status=0", _but("request")),
    ("operation.first=true", "audit"),
    # Objects and arrays.
    ("jsonPayload.x.age = 24", "shop"),
    ("jsonPayload.x:67", "shop"),
    ("jsonPayload.shoeSize < 7", "shop"),
    ("jsonPayload.shoeSize > 9", ""),
    # Values and conversions.
    ('jsonPayload.ok = "True"', "shop"),
    ("jsonPayload.ok < true", "barn"),
    ('httpRequest.latency > "999ms"', "request"),
    ('httpRequest.latency <= "1.5s"', _ALL),
    ("httpRequest.requestSize > 99999", "request"),
    ("httpRequest.status >= 500", "request"),
    ("httpRequest.cacheHit = true", "request"),
    ("severity = warning", "shop request"),
    ("severity < INFO", "ashes wide greeting"),
    ('jsonPayload.count >= "9"', "shop request"),
    ('jsonPayload.big = "9223372036854775807"', "shop"),
    ('textPayload = "hello kitty"', "kitty"),
    ('textPayload = "\uff28ello Kitty"', "kitty"),
    # Comments.
    ('-- Looking for a cat.\njsonPayload.cat = "longhair"\n-- jsonPayload.cat = "siamese"', "shop"),
    # Global restrictions.
    ('("cat" AND ("hat" OR "bat"))', "hat"),
    (f'logName = "projects/p/logs/{_AUDIT}" AND "GCE_OPERATION_DONE"', "audit"),
    ("unicorn phoenix", "audit ashes"),
    ("textPayload:(unicorn phoenix)", "audit ashes"),
    ('textPayload:"unicorn phoenix"', "audit"),
    ('NOT textPayload: "unicorn phoenix"', _but("audit")),
    # Functions.
    ('log_id("cloudaudit.googleapis.com/activity")', "audit"),
    ("source(projects/p)", _ALL),
    ("source(folders/folder_123)", ""),
    ("sample(insertId, 1)", _ALL),
    ("sample(jsonPayload.cat, 1)", "shop barn"),
    ("sample(trace, 1.0)", _ALL),
    ('ip_in_net(jsonPayload.realClientIP, "10.1.2.0/24")', "shop barn"),
    ('ip_in_net(jsonPayload.realClientIP, "10.1.2.77")', "shop"),
    ('NOT ip_in_net(jsonPayload.realClientIP, "10.0.0.0/8") AND jsonPayload.realClientIP:*', "request"),
    ('ip_in_net(httpRequest.remoteIp, "1:2::/48")', "request"),
    (f'cast(timestamp, STRING) =~ "^{DAY}T1[0-2]"', "shop barn request"),
    (f'cast(timestamp, STRING, TIMEZONE("America/New_York")) =~ "^{DAY}T0"', "shop barn request audit ashes"),
    ("cast(jsonPayload.count, INT64) > 6", "shop barn"),
    ("cast(jsonPayload.count, FLOAT64) < 8.5", "barn"),
    ('cast(jsonPayload.ok, STRING) = "true"', "shop"),
    (r'CAST(REGEXP_EXTRACT(CAST(timestamp, STRING), "\\d+:\\d+:\\d+\\.(\\d+)"), INT64) < 500', "hat"),
    ('regexp_extract(jsonPayload.message, "field1=.(\\\\w+)") = "bars"', "barn"),
    # SEARCH: whole words.
    ('SEARCH("world")', "barn greeting"),
    ('SEARCH("World hello")', "barn greeting"),
    ('SEARCH(textPayload, "hello world")', "greeting"),
    ('SEARCH(jsonPayload.title, "WORLD")', "barn"),
    ('SEARCH("`hello kitty`")', "kitty"),
    ('SEARCH("`kitty hello`")', ""),
    ('SEARCH("Hello Kit")', ""),
    ('SEARCH("cat hat") OR SEARCH("`a unicorn`")', "hat ashes"),
    # Time.
    (f'timestamp >= "{DAY}T23:00:00Z"\ntimestamp <= "{DAY}T23:30:00Z"', "hat"),
    (f'timestamp > "{DAY}"', _but("kitty")),
    (f'timestamp >= "{DAY}T11:40:00-04:00" AND timestamp <= "{DAY}T23:00:00Z"', "greeting"),
    # Regular expressions.
    ('sourceLocation.file =~ "foo"', "audit"),
    ('labels.env =~ "(?i)PROD"', "shop"),
    ('labels.env =~ "PROD"', ""),
    (r'jsonPayload.message =~ "field1=\"bar.*\""', "barn"),
    ('labels.env =~ "(prod|stage)"', "shop"),
    ('logName =~ "/requests$"', "request"),
    ('labels.env !~ "prod"', "barn"),
    ('labels.env =~ ("^prod.*server" OR "^staging.*server")', "shop"),
    ('jsonPayload:"hello"', "barn"),
]
"""Each with the names of the entries it selects."""

REFUSED: list[tuple[str, str]] = [
    ("thud=1", "unknown field 'thud'"),
    ("operation.thud=1", "unknown field 'operation.thud'"),
    ("textPayload.thud=1", "textPayload has no part 'thud'"),
    ("sample(insertId, 2)", "sample(): '2' must be a fraction"),
    ("sample(insertId)", "sample(): must have a field and a fraction"),
    ('ip_in_net(jsonPayload.ip, "10.1.2")', "ip_in_net(): '10.1.2' must be an IP address"),
    ('regexp_extract(textPayload, "a") = "a"', "regexp_extract(): 'a' must have one group"),
    ('regexp_extract(textPayload, "(a)(b)") = "a"', "must have one group in parentheses, not 2"),
    ('regexp_extract(textPayload, "(") = "a"', "must be a regular expression of RE2"),
    ("cast(textPayload, DATE) = 1", "cast(): must convert to STRING"),
    ('cast(timestamp, STRING, TIMEZONE("Mars")) = 1', "'Mars' must be a time zone"),
    ("cast(textPayload, INT64)", "cast() makes a value; an operator"),
    ("SEARCH(textPayload)", "SEARCH(): must have its words in quotes"),
    ('SEARCH("...")', "must contain a word"),
    ("source(p)", "source(): 'p' must be projects/ID"),
    ('rank("a") = 1', "rank() can't stand before an operator"),
    ('rank("a")', "rank() can't stand alone"),
]

_CPU = "ml.googleapis.com/training/cpu/utilization"
_OF_CPU = f'metric.type = "{_CPU}"'

METRIC_FILTERS: list[tuple[str, str]] = [
    (_OF_CPU, "1/0 1/1 2/0 2/1"),
    (f'{_OF_CPU} AND resource.type = "cloudml_job"', "1/0 1/1 2/0 2/1"),
    (f'{_OF_CPU} AND resource.type = "gce_instance"', ""),
    (f'{_OF_CPU} AND project = "p"', "1/0 1/1 2/0 2/1"),
    (f'{_OF_CPU} AND resource.labels.region = "europe-west4"', "2/0 2/1"),
    (f'{_OF_CPU} AND resource.label.region != "europe-west4"', "1/0 1/1"),
    (f'{_OF_CPU} AND resource.labels.region = starts_with("us-")', "1/0 1/1"),
    (f'{_OF_CPU} AND metric.labels.replica_id = ends_with("-1")', "1/1 2/1"),
    (f'{_OF_CPU} AND metric.labels.replica_id = has_substring("pool0-0")', "1/0 2/0"),
    (f'{_OF_CPU} AND resource.labels.job_id = one_of("1", "3")', "1/0 1/1"),
    (f'{_OF_CPU} AND metric.labels.replica_id = monitoring.regex.full_match("workerpool0-[1-9]")', "1/1 2/1"),
    (f'{_OF_CPU} AND metric.labels.replica_id != monitoring.regex.full_match("pool0-1")', "1/0 1/1 2/0 2/1"),
    (f'{_OF_CPU} AND NOT resource.labels.job_id = "1"', "2/0 2/1"),
    (f'{_OF_CPU} AND (resource.labels.job_id=1 OR metric.labels.replica_id="workerpool0-0")', "1/0 1/1 2/0"),
    (f'{_OF_CPU} resource.labels.job_id="2" metric.labels.replica_id="workerpool0-1"', "2/1"),
    (f'metric.type = "{_CPU.replace("cpu", "memory")}"', ""),
]  # fmt: skip
"""Each with `job/replica` of the series that it selects."""
