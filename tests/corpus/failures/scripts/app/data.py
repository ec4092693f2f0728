"""Reading samples."""

import csv
import gzip
import io
import json
import os
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path


def shard_path(trainer, name):
    folder = Path(os.environ["WORK"]) / "datasets"
    folder.mkdir(exist_ok=True)
    return folder / f"{trainer.s.rank}-{name}"


def read_image(trainer, name="n02102040_7293.jpg", kind="truncated"):
    from PIL import Image

    path = shard_path(trainer, name)
    whole = io.BytesIO()
    Image.new("RGB", (512, 512), (9, 90, 200)).save(whole, "JPEG")
    path.write_bytes(whole.getvalue()[:900] if kind == "truncated" else b"<html><body>404</body></html>")
    with Image.open(path) as image:
        return image.convert("RGB").resize((224, 224))


def read_jsonl(trainer, name="train-00017.jsonl"):
    path = shard_path(trainer, name)
    path.write_text('{"text": "a"}\n{"text": "b"}\n{"text": "c", "label": \n')
    return [json.loads(line) for line in path.read_text().splitlines()]


def read_text(trainer, name="corpus-004.txt"):
    path = shard_path(trainer, name)
    path.write_bytes("Grüße".encode("latin-1") * 40)
    with path.open(encoding="utf-8") as file:
        return file.readlines()


def read_parquet(trainer, name="part-00031.parquet"):
    import pyarrow.parquet as pq

    path = shard_path(trainer, name)
    path.write_bytes(b"PAR1" + b"\0" * 4000)
    return pq.read_table(path)


def read_gzip(trainer, name="shard-000812.jsonl.gz", kind="cut"):
    path = shard_path(trainer, name)
    data = gzip.compress(os.urandom(200_000))
    path.write_bytes(data[:90_000] if kind == "cut" else b"\x1f\x8c" + data[2:])
    with gzip.open(path, "rb") as file:
        return file.read()


def read_zlib(trainer):
    block = bytearray(zlib.compress(b"tokens" * 5000))
    block[20] ^= 0xFF
    return zlib.decompress(bytes(block))


def read_tar(trainer, name="laion-001182.tar"):
    path = shard_path(trainer, name)
    path.write_bytes(b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>")
    with tarfile.open(path) as tar:
        return tar.getnames()


def read_zip(trainer, name="features.npz"):
    path = shard_path(trainer, name)
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("x.npy", b"0" * 5000)
    raw = bytearray(path.read_bytes())
    raw[300] ^= 0xFF
    path.write_bytes(bytes(raw))
    with zipfile.ZipFile(path) as z:
        return z.read("x.npy")


def read_csv(trainer, name="prices_2026.csv"):
    path = shard_path(trainer, name)
    path.write_text("id,price\n" + "".join(f"{n},{n / 7}\n" for n in range(200)) + "201,N/A\n")
    with path.open() as file:
        return [float(row["price"]) for row in csv.DictReader(file)]


def open_missing(trainer, path="/data/imagenet/train/index.json"):
    with open(path) as file:
        return json.load(file)


def empty_split(trainer, folder="/data/shards/train"):
    files = sorted(Path(folder).glob("*.tar"))
    if not files:
        raise ValueError(f"no shards match {folder}/*.tar: the training split is empty")
    return files


def encode(trainer, label="zebra_crossing"):
    classes = {"car": 0, "person": 1, "bicycle": 2}
    labels = ["car", "person", label]
    return [classes[x] for x in labels]


def check_lengths(trainer):
    tokens, labels = list(range(2048)), list(range(2047))
    if len(tokens) != len(labels):
        raise ValueError(f"sample 88213 of shard 0042 has {len(tokens)} tokens and {len(labels)} labels")


def load_mmap(trainer, name="openwebtext_text_document.bin"):
    import mmap

    path = shard_path(trainer, name)
    path.write_bytes(b"")
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def load_npy(trainer, name="embeddings.npy"):
    import numpy as np

    path = shard_path(trainer, name)
    np.save(path, np.zeros((1000, 64)))
    path.write_bytes(path.read_bytes()[:3000])
    return np.load(path)


def tokenizer_file(trainer, name="tokenizer.json"):
    from tokenizers import Tokenizer

    path = shard_path(trainer, name)
    path.write_text('{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]}}')
    return Tokenizer.from_file(str(path))


def worker_pool(trainer, how="segv"):
    """A data worker in a process of its own dies; its parent notices."""
    import multiprocessing
    import signal

    def work(queue):
        console_read(queue, how)

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    worker = context.Process(target=work, args=(queue,), daemon=True)
    worker.start()
    worker.join(20)
    if worker.exitcode:
        name = signal.Signals(-worker.exitcode).name if worker.exitcode < 0 else worker.exitcode
        raise RuntimeError(f"DataLoader worker (pid(s) {worker.pid}) exited unexpectedly ({name})")


def console_read(queue, how):
    import os as system
    import signal

    if how == "segv":
        system.kill(system.getpid(), signal.SIGSEGV)
    if how == "bus":
        system.kill(system.getpid(), signal.SIGBUS)
    if how == "kill":
        system.kill(system.getpid(), signal.SIGKILL)
    queue.put(json.loads("[1, 2"))


def hf_dataset(trainer, column="summary"):
    import datasets

    rows = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]})
    return rows.map(lambda row: {"length": len(row[column])})


def scratch(name=""):
    return tempfile.mkdtemp(prefix=name)
