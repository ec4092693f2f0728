"""What checks are made of: names of images and buckets, places, and values that a fix comes from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.domain.vertex.preflight import bucket_near, buckets_of, image_of, substituted


@pytest.mark.parametrize(
    ("uri", "parent", "package", "tag"),
    [
        ("us-docker.pkg.dev/p/r/x", "projects/p/locations/us/repositories/r", "x", "latest"),
        ("us-docker.pkg.dev/p/r/deep/x:1", "projects/p/locations/us/repositories/r", "deep/x", "1"),
        ("us-docker.pkg.dev/a.com/p/r/x:1", "projects/a.com:p/locations/us/repositories/r", "x", "1"),
        ("eu.gcr.io/p/x@sha256:00", "projects/p/locations/europe/repositories/eu.gcr.io", "x", ""),
    ],
)
def test_images_of_artifact_registry(uri: str, parent: str, package: str, tag: str) -> None:
    image = image_of(uri)
    assert (image.parent, image.package, image.tag) == (parent, package, tag)


@pytest.mark.parametrize(
    ("uri", "host"), [("python:3.11", "docker.io"), ("quay.io/a/b", "quay.io"), ("x:5000/a:b", "x:5000")]
)
def test_images_of_other_registries(uri: str, host: str) -> None:
    assert image_of(uri).host == host and not image_of(uri).repository


def test_buckets_are_found_wherever_they_stand() -> None:
    pool = {
        "containerSpec": {"args": ["--data=/gcs/data/x,gs://more/y"], "env": [{"name": "A", "value": "b"}]}
    }
    job = {"jobSpec": {"workerPoolSpecs": [pool], "baseOutputDirectory": {"outputUriPrefix": "gs://out"}}}
    assert set(buckets_of(job)) == {"data", "more", "out"}


def test_places_of_buckets() -> None:
    found = [bucket_near(x, "us-central1") for x in ("us-central1", "US", "nam4", "eu", "us-east1", "mars")]
    assert found == [True, True, True, False, False, None]


@given(
    st.text("ab/", max_size=4),
    st.text("ab/", min_size=1, max_size=6),
    st.text("ab/", max_size=4),
    st.text("xyz"),
)
def test_a_value_that_is_carried_over_makes_what_was_wanted(
    head: str, value: str, tail: str, wanted: str
) -> None:
    old, new = head + value + tail, head + wanted + tail
    found = substituted(value, old, new)
    assert found is None or old.replace(value, found, 1) == new
    assert substituted(value, value, new) == new
