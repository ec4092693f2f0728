"""The bucket server against Google's own client: what it stores, lists, refuses and survives."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
import requests
from google.api_core import exceptions
from google.cloud.storage import transfer_manager
from google.cloud.storage._media.requests import ResumableUpload

from tests.waiting import wait_for
from tests.wire.control import QUICK, connect, emulator, python, state_dir
from tests.wire.storage import Buckets, buckets, serving
from tui.emulator.client import FAULTS
from tui.emulator.config import EmulatorConfig
from tui.emulator.server import Emulator
from tui.emulator.storage.faults import BucketFaults

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def shared() -> Iterator[Buckets]:
    """One server for all tests that use a bucket of their own."""
    with buckets() as found:
        yield found


@pytest.fixture
def bucket(shared: Buckets, request: pytest.FixtureRequest) -> Any:
    name = "b-" + hashlib.sha256(request.node.name.encode()).hexdigest()[:20]
    return shared.client.create_bucket(name)


def content(size: int, seed: int = 0) -> bytes:
    """Reproducible bytes that do not repeat in a block."""
    return hashlib.shake_128(seed.to_bytes(4, "big")).digest(size)


def test_a_bucket_is_made_with_place_and_class_changed_and_deleted(shared: Buckets) -> None:
    client = shared.client
    made = client.bucket("placed-bucket")
    made.storage_class = "NEARLINE"
    made.labels = {"team": "a"}
    client.create_bucket(made, location="europe-west4")
    found = client.get_bucket("placed-bucket")
    assert (found.location, found.location_type, found.storage_class) == (
        "EUROPE-WEST4",
        "region",
        "NEARLINE",
    )
    assert found.project_number > 10**11 and found.metageneration == 1
    labels = found.labels
    del labels["team"]
    found.labels = {**labels, "use": "b"}
    found.patch()
    again = client.get_bucket("placed-bucket")
    assert (again.labels, again.metageneration) == ({"use": "b"}, 2)
    assert again.test_iam_permissions(["storage.objects.create"]) == ["storage.objects.create"]
    client.create_bucket(client.bucket("multi-bucket"), location="eu")
    assert client.get_bucket("multi-bucket").location_type == "multi-region"
    assert {"placed-bucket", "multi-bucket"} <= {b.name for b in client.list_buckets(page_size=1)}
    with pytest.raises(exceptions.Conflict, match="you already own it"):
        client.create_bucket("placed-bucket")
    again.blob("x/y").upload_from_string("1")
    with pytest.raises(exceptions.Conflict, match="not empty"):
        again.delete()
    again.delete(force=True)
    with pytest.raises(exceptions.NotFound, match="The specified bucket does not exist"):
        client.get_bucket("placed-bucket")
    with pytest.raises(exceptions.BadRequest, match="Invalid bucket name"):
        client.create_bucket("Not_A_Bucket")


def test_what_is_uploaded_in_each_way_is_a_file_with_the_right_sums(bucket: Any, shared: Buckets) -> None:
    data = content(3 * MIB + 17)
    bucket.blob("dir/multi.bin").upload_from_string(data, content_type="image/png")
    chunked = bucket.blob("dir/chunked.bin", chunk_size=256 * 1024)
    chunked.metadata = {"k": "v"}
    chunked.upload_from_file(io.BytesIO(data))
    reply = shared.call(
        "POST", f"/upload/storage/v1/b/{bucket.name}/o?uploadType=media&name=dir/simple.bin", data=data
    )
    assert reply.status_code == 200, reply.text
    crc = base64.b64encode(google_crc32c.Checksum(data).digest()).decode()
    md5 = base64.b64encode(hashlib.md5(data).digest()).decode()
    for name in ("multi", "chunked", "simple"):
        blob = bucket.get_blob(f"dir/{name}.bin")
        assert shared.file(f"{bucket.name}/dir/{name}.bin").read_bytes() == data
        assert (blob.size, blob.crc32c, blob.md5_hash, blob.metageneration) == (len(data), crc, md5, 1)
        # The client itself checks what it downloads against the service's sum.
        assert blob.download_as_bytes() == data
    assert bucket.get_blob("dir/multi.bin").content_type == "image/png"
    assert bucket.get_blob("dir/chunked.bin").metadata == {"k": "v"}
    assert bucket.get_blob("dir/none") is None


def test_a_large_file_goes_in_parts_side_by_side_and_comes_in_ranges(
    bucket: Any, shared: Buckets, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(content(9 * MIB + 5))
    blob = bucket.blob("large.bin")
    transfer_manager.upload_chunks_concurrently(
        str(source), blob, chunk_size=4 * MIB, max_workers=3, worker_type=transfer_manager.THREAD
    )
    found = bucket.get_blob("large.bin")
    assert (found.size, found.component_count, found.md5_hash) == (9 * MIB + 5, 3, None)
    transfer_manager.download_chunks_concurrently(
        found, str(target), chunk_size=4 * MIB, max_workers=3, worker_type=transfer_manager.THREAD
    )
    assert target.read_bytes() == source.read_bytes()
    assert not list((shared.state.buckets / ".uploads").glob("x*"))


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 3, slice(0, 4)),
        (5, None, slice(5, None)),
        (990, 5000, slice(990, None)),
        (999, 999, slice(999, 1000)),
    ],
)
def test_a_range_is_what_was_asked_for(bucket: Any, start: int, end: int | None, expected: slice) -> None:
    data = content(1000)
    bucket.blob("r").upload_from_string(data)
    assert bucket.blob("r").download_as_bytes(start=start, end=end) == data[expected]


def test_odd_ranges_are_answered_as_the_service_does(bucket: Any, shared: Buckets) -> None:
    data = content(1000)
    bucket.blob("r").upload_from_string(data)
    bucket.blob("empty").upload_from_string(b"")
    where = f"/download/storage/v1/b/{bucket.name}/o/r?alt=media"
    last = shared.call("GET", where, headers={"Range": "bytes=-10"})
    assert (last.status_code, last.content) == (206, data[-10:])
    assert last.headers["content-range"] == "bytes 990-999/1000"
    beyond = shared.call("GET", where, headers={"Range": "bytes=1000-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */1000")
    whole = shared.call("GET", where, headers={"Range": "lines=1-2"})
    assert (whole.status_code, whole.content) == (200, data)
    assert bucket.blob("empty").download_as_bytes() == b""
    with pytest.raises(exceptions.RequestRangeNotSatisfiable):
        bucket.blob("r").download_as_bytes(start=1000)


def test_lists_have_prefixes_delimiters_pages_and_the_service_s_order(bucket: Any) -> None:
    names = ["a", "a-b", "b/1", "b/2", "b/c/3", "b0", "ä/1", "z/"]
    for name in reversed(names):
        bucket.blob(name).upload_from_string(name if not name.endswith("/") else b"")
    assert [b.name for b in bucket.list_blobs(page_size=2)] == sorted(names)
    top = bucket.list_blobs(delimiter="/", page_size=1)
    assert [b.name for b in top] == ["a", "a-b", "b0"] and top.prefixes == {"b/", "z/", "ä/"}
    below = bucket.list_blobs(prefix="b/", delimiter="/")
    assert [b.name for b in below] == ["b/1", "b/2"] and below.prefixes == {"b/c/"}
    with_folders = bucket.list_blobs(delimiter="/", include_trailing_delimiter=True)
    assert [b.name for b in with_folders] == ["a", "a-b", "b0", "z/"]
    assert [b.name for b in bucket.list_blobs(start_offset="b/2", end_offset="ä")] == [
        "b/2",
        "b/c/3",
        "b0",
        "z/",
    ]
    assert [b.name for b in bucket.list_blobs(prefix="b/", start_offset="b/c")] == ["b/c/3"]
    dashed = bucket.list_blobs(delimiter="-")
    assert [b.name for b in dashed if b.name.startswith("a")] == ["a"] and dashed.prefixes == {"a-"}
    assert list(bucket.list_blobs(prefix="nothing")) == []
    with pytest.raises(exceptions.NotFound):
        list(bucket.client.list_blobs("no-such-bucket"))


def test_preconditions_hold_or_nothing_changes(bucket: Any) -> None:
    blob = bucket.blob("lock")
    blob.upload_from_string("first", if_generation_match=0)
    first = blob.generation
    for wrong in ({"if_generation_match": 0}, {"if_generation_match": first + 1}):
        with pytest.raises(exceptions.PreconditionFailed, match="pre-conditions"):
            bucket.blob("lock").upload_from_string("second", **wrong)
        with pytest.raises(exceptions.PreconditionFailed):
            bucket.blob("lock", chunk_size=256 * 1024).upload_from_file(io.BytesIO(b"second"), **wrong)
    assert bucket.blob("lock").download_as_bytes() == b"first"
    bucket.blob("lock").upload_from_string("third", if_generation_match=first)
    now = bucket.get_blob("lock")
    assert now.generation > first
    now.metadata = {"a": "b"}
    now.patch(if_metageneration_match=1)
    with pytest.raises(exceptions.PreconditionFailed):
        now.patch(if_metageneration_match=1)
    with pytest.raises(exceptions.NotFound):
        bucket.blob("lock", generation=first).download_as_bytes()
    with pytest.raises(exceptions.PreconditionFailed):
        now.delete(if_generation_match=first)
    with pytest.raises(exceptions.NotModified):
        bucket.blob("lock").reload(if_generation_not_match=now.generation)
    now.delete(if_generation_match=now.generation)
    with pytest.raises(exceptions.NotFound, match="No such object"):
        now.delete()


def test_objects_are_composed_copied_renamed_and_their_sums_stay_right(bucket: Any, shared: Buckets) -> None:
    parts = [bucket.blob(f"part/{n}") for n in range(3)]
    for number, part in enumerate(parts):
        part.upload_from_string(content(MIB, number))
    whole = bucket.blob("whole")
    whole.compose(parts, if_generation_match=0)
    data = b"".join(content(MIB, n) for n in range(3))
    assert bucket.get_blob("whole").component_count == 3 and whole.download_as_bytes() == data
    other = shared.client.create_bucket(bucket.name + "-2")
    copy = bucket.copy_blob(parts[0], other, "deep/copy")
    assert (copy.crc32c, copy.size) == (bucket.get_blob("part/0").crc32c, MIB)
    token, done, total = other.blob("again").rewrite(copy)
    assert (token, done, total) == (None, MIB, MIB)
    bucket.rename_blob(parts[1], "moved")
    assert bucket.get_blob("part/1") is None and bucket.blob("moved").download_as_bytes() == content(MIB, 1)
    with pytest.raises(exceptions.NotFound):
        whole.compose([bucket.blob("gone")])


def test_a_file_that_a_job_wrote_is_an_object_and_an_object_is_a_file(bucket: Any, shared: Buckets) -> None:
    path = shared.file(f"{bucket.name}/logs/run.json")
    path.parent.mkdir()
    path.write_text("{}")
    found = bucket.get_blob("logs/run.json")
    assert (found.size, found.content_type) == (2, "application/json")
    assert found.crc32c == base64.b64encode(google_crc32c.Checksum(b"{}").digest()).decode()
    path.write_text("[1]")
    later = bucket.get_blob("logs/run.json")
    assert later.generation > found.generation and later.download_as_bytes() == b"[1]"
    found.metadata = {"a": "b"}
    with pytest.raises(exceptions.NotFound):
        bucket.blob("logs/run.json", generation=found.generation).download_as_bytes()
    path.unlink()
    assert bucket.get_blob("logs/run.json") is None and list(bucket.list_blobs()) == []
    # A folder that is left empty does not stand in an object's way.
    bucket.blob("logs").upload_from_string("now a file")
    with pytest.raises(exceptions.Conflict, match="as a folder or file"):
        bucket.blob("logs/again").upload_from_string("x")
    assert shared.file(f"{bucket.name}/logs").read_text() == "now a file"


@pytest.mark.parametrize(
    "name",
    ["../escape", "a/../../escape", "..", ".", "/etc/passwd", "a//b", "a\0b", "a\nb", "x" * 300, "é" * 600],
)
def test_no_name_leads_out_of_a_bucket(bucket: Any, shared: Buckets, name: str) -> None:
    before = sorted(p for p in shared.state.root.rglob("*") if ".uploads" not in p.parts)
    for method, path in (
        (
            "POST",
            f"/upload/storage/v1/b/{bucket.name}/o?uploadType=media&name={requests.utils.quote(name, '')}",
        ),
        ("GET", f"/storage/v1/b/{bucket.name}/o/{requests.utils.quote(name, '')}?alt=media"),
        ("DELETE", f"/storage/v1/b/{bucket.name}/o/{requests.utils.quote(name, '')}"),
    ):
        reply = shared.call(method, path, data=b"evil" if method == "POST" else None)
        # A dot by itself is taken off the address by the client before it is sent.
        assert reply.status_code in {400, 404}, (method, reply.text)
    assert sorted(p for p in shared.state.root.rglob("*") if ".uploads" not in p.parts) == before


def test_no_link_leads_out_of_a_bucket(bucket: Any, shared: Buckets, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    shared.file(f"{bucket.name}/link").symlink_to(tmp_path)
    shared.file(f"{bucket.name}/file").symlink_to(tmp_path / "secret")
    with pytest.raises(exceptions.BadRequest, match="leaves its bucket"):
        bucket.blob("link/secret").download_as_bytes()
    with pytest.raises(exceptions.BadRequest):
        bucket.blob("link/new").upload_from_string("x")
    assert bucket.get_blob("file") is None and list(bucket.list_blobs()) == []
    assert [p.name for p in tmp_path.iterdir()] == ["secret"]


def test_only_who_has_the_secret_gets_in_and_no_page_of_a_browser(shared: Buckets) -> None:
    root = shared.url.rpartition("/")[0]
    bare = requests.get(f"{root}/storage/v1/b", timeout=30)
    assert bare.status_code == 401 and "STORAGE_EMULATOR_HOST" in bare.json()["error"]["message"]
    assert requests.get(f"{root}/wrong/storage/v1/b", timeout=30).status_code == 401
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        assert shared.call("GET", "/storage/v1/b", headers=headers).status_code == 403
    assert shared.state.bucket_address.stat().st_mode & 0o077 == 0
    refused = shared.call("GET", "/storage/v1/b/no-such-bucket").json()["error"]
    assert refused["code"] == 404 and refused["errors"][0]["reason"] == "notFound"


def test_wrong_sums_and_broken_requests_change_nothing(bucket: Any, shared: Buckets) -> None:
    where = f"/upload/storage/v1/b/{bucket.name}/o?name=x&uploadType="
    wrong = shared.call("POST", where + "media", data=b"1", headers={"x-goog-hash": "crc32c=AAAAAA=="})
    assert wrong.status_code == 400 and "doesn't match" in wrong.json()["error"]["message"]
    torn = {"Content-Type": "multipart/related; boundary=b"}
    for body in (b"", b"--b\r\n\r\n{}", b"--b\r\n\r\n{}\r\n--b\r\nContent-Type: a/b\r\n\r\ncut off"):
        assert shared.call("POST", where + "multipart", data=body, headers=torn).status_code == 400
    assert shared.call("POST", where + "other").status_code == 400
    assert shared.call("POST", where + "resumable", data="[]").status_code == 400
    assert shared.call("PUT", where + "resumable&upload_id=" + "a" * 32, data=b"1").status_code == 404
    assert shared.call("GET", f"/storage/v1/b/{bucket.name}/o?pageToken=%%%").status_code == 400
    assert shared.call("GET", f"/storage/v1/b/{bucket.name}/o?matchGlob=*").status_code == 400
    assert list(bucket.list_blobs()) == []
    left = [p for p in (shared.state.buckets / ".uploads").iterdir() if p.suffix == ".part"]
    assert left == []


class Resumed:
    """A resumable upload by the client's own machinery, a chunk at a time."""

    def __init__(self, url: str, bucket: str, data: bytes, chunk: int = 256 * 1024) -> None:
        self.session = requests.Session()
        where = f"{url}/upload/storage/v1/b/{bucket}/o?uploadType=resumable"
        self.upload = ResumableUpload(where, chunk, checksum=None)
        self.upload.initiate(
            self.session,
            io.BytesIO(data),
            {"name": "resumed"},
            "application/octet-stream",
            total_bytes=len(data),
        )

    def chunk(self) -> None:
        self.upload.transmit_next_chunk(self.session)


def test_a_broken_off_upload_goes_on_where_it_was_even_by_another_server() -> None:
    data = content(MIB)
    with state_dir() as state:
        with serving(state) as first:
            first.client.create_bucket("keep")
            one = Resumed(first.url, "keep", data)
            one.chunk()
            # A chunk that breaks off in its middle: what came of it stays.
            address = one.upload.resumable_url.removeprefix("http://")
            host, _, path = address.partition("/")
            with socket.create_connection(("127.0.0.1", int(host.partition(":")[2])), 10) as broken:
                broken.sendall(
                    f"PUT /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 262144\r\n"
                    f"Content-Range: bytes 262144-524287/{len(data)}\r\n\r\n".encode()
                    + data[262144:300000]
                )
                (part,) = (state.buckets / ".uploads").glob("*.part")
                wait_for(lambda: part.stat().st_size == 300_000, "the bytes before the break")
            url = first.url
        with serving(state) as second:
            assert second.url == url
            asked = requests.put(
                one.upload.resumable_url, headers={"Content-Range": f"bytes */{len(data)}"}, timeout=30
            )
            assert (asked.status_code, asked.headers["range"]) == (308, "bytes=0-299999")
            one.upload._invalid = True
            one.upload.recover(one.session)
            while not one.upload.finished:
                one.chunk()
            assert second.client.bucket("keep").blob("resumed").download_as_bytes() == data
            # Told twice that all has come, it says the same.
            again = requests.put(one.upload.resumable_url, headers={"Content-Range": "bytes */*"}, timeout=30)
            assert again.status_code == 200 and again.json()["size"] == str(len(data))


def test_a_cancelled_upload_is_forgotten(bucket: Any, shared: Buckets) -> None:
    one = Resumed(shared.url, bucket.name, content(MIB))
    one.chunk()
    assert requests.delete(one.upload.resumable_url, timeout=30).status_code == 499
    assert requests.put(one.upload.resumable_url, data=b"1", timeout=30).status_code == 404
    assert list(bucket.list_blobs()) == []


def test_faults_do_what_they_say_and_end() -> None:
    with buckets() as here:
        bucket = here.client.create_bucket("faulty")
        other = here.client.create_bucket("sound")
        bucket.blob("x").upload_from_string("1")
        data = content(2 * MIB)
        for kind, error in (
            ("denied", exceptions.Forbidden),
            ("missing", exceptions.NotFound),
            ("unavailable", exceptions.ServiceUnavailable),
            ("rate", exceptions.TooManyRequests),
        ):
            here.server.faults.set(BucketFaults(kind, "faulty"))
            with pytest.raises(error):
                bucket.blob("x").download_as_bytes(retry=None)
            other.blob("x").upload_from_string("1")
            if kind == "denied":
                assert bucket.test_iam_permissions(["storage.objects.get"]) == []
        # It comes back, and the client's own retries get over it.
        here.server.faults.set(BucketFaults("unavailable", times=2))
        assert bucket.blob("x").download_as_bytes() == b"1"
        # The connection breaks in the middle of a chunk, twice; the client takes the upload up again.
        here.server.faults.set(BucketFaults(cut_after=100_000, times=2))
        bucket.blob("cut", chunk_size=MIB).upload_from_file(io.BytesIO(data), if_generation_match=0)
        assert bucket.blob("cut").download_as_bytes() == data
        here.server.faults.set(BucketFaults())
        assert bucket.blob("x").download_as_bytes(retry=None) == b"1"


@pytest.mark.parametrize(
    "asked", [{"kind": "odd"}, {"delay": -1}, {"times": "x"}, {"cut_after": True}, {"bucket": 1}]
)
def test_a_fault_that_makes_no_sense_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(asked))):
        FAULTS["buckets"].read(asked)


def test_a_full_disk_is_said_and_not_tried_again(bucket: Any, shared: Buckets, monkeypatch: Any) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("tui.emulator.storage.upload.checksums_of", full)
    with pytest.raises(exceptions.GoogleAPICallError, match="No space left") as failed:
        bucket.blob("x").upload_from_string("1")
    assert failed.value.code == 507 and list(bucket.list_blobs()) == []


async def test_a_job_uploads_resumably_to_the_emulator_s_buckets() -> None:
    code = (
        "from google.cloud import storage\n"
        "import os\n"
        "bucket = storage.Client().bucket('of-the-job')\n"
        "bucket.create()\n"
        "open('f', 'wb').write(b'ab' * 600_000)\n"
        "bucket.blob('out/f', chunk_size=262144).upload_from_filename('f', if_generation_match=0)\n"
        "print(open(os.environ['VXTUI_GCS_ROOT'] + '/of-the-job/out/f', 'rb').read() == b'ab' * 600_000)\n"
    )
    async with emulator() as (running, clients):
        info = await clients.admin(do="status")
        assert info["buckets"] == running.buckets.url
        assert running.buckets._server_thread is None, "what serves it is loaded when somebody asks"
        job = await clients.create(python(code))
        await clients.reach(job.name, "SUCCEEDED")
        assert (running.state.buckets / "of-the-job/out/f").stat().st_size == 1_200_000
        answer = await clients.admin(do="buckets", kind="unavailable", times=1)
        assert answer["kind"] == "unavailable"
        url = running.buckets.url + "/storage/v1/b"
        codes = [(await asyncio.to_thread(requests.get, url, timeout=30)).status_code for _ in range(2)]
        assert codes == [503, 200]


async def test_a_job_that_outlives_its_emulator_finds_the_buckets_of_the_next_one() -> None:
    code = (
        "from google.cloud import storage\n"
        "import os, time\n"
        "bucket = storage.Client().bucket('kept')\n"
        "while not os.path.exists(os.environ['VXTUI_GCS_ROOT'] + '/kept/go'):\n"
        "    time.sleep(0.05)\n"
        "bucket.blob('after').upload_from_string('yes')\n"
    )
    config = EmulatorConfig.model_validate(QUICK)
    with state_dir() as state:
        async with Emulator(state, config) as first, connect(first.target) as clients:
            job = await clients.create(python(code))
            await clients.reach(job.name, "RUNNING")
            (state.buckets / "kept").mkdir()
            url = first.buckets.url
        async with Emulator(state, config) as second, connect(second.target) as clients:
            assert second.buckets.url == url
            (state.buckets / "kept/go").touch()
            await clients.reach(job.name, "SUCCEEDED")
        assert (state.buckets / "kept/after").read_text() == "yes"


def test_where_the_port_is_taken_another_one_serves() -> None:
    with state_dir() as state:
        with serving(state) as first:
            url = first.url
        port = int(url.partition("127.0.0.1:")[2].partition("/")[0])
        with socket.create_server(("127.0.0.1", port)), serving(state) as second:
            assert second.url != url and second.url.rpartition("/")[2] == url.rpartition("/")[2]
            assert list(second.client.list_buckets()) == []
