"""The marker of services that a group of contexts routes by job."""

from __future__ import annotations

from abc import ABC


class JobReader(ABC):  # noqa: B024 - a mark that a group of contexts routes by
    """A service whose operations accept the jobs to read as first argument.

    The argument is a job's full resource name, an object with a `job_name`, or a sequence of jobs.
    """
