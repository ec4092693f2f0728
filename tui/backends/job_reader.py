"""The mark of services that a group of contexts routes by the job."""

from __future__ import annotations

from abc import ABC


class JobReader(ABC):  # noqa: B024 - a mark that a group of contexts routes by
    """A service whose every operation says first which jobs it reads.

    That is a job's full resource name, something with a `job_name`, or a sequence of jobs.
    """
