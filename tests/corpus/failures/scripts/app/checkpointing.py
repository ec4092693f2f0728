"""Reading and writing checkpoints."""

import errno
import json
import os
import pickle
from pathlib import Path


def folder(trainer):
    path = Path(os.environ["WORK"]) / "checkpoints" / "checkpoint-500"
    path.mkdir(parents=True, exist_ok=True)
    return path


def read_pickle(trainer, name="optimizer.pkl"):
    path = folder(trainer) / f"{trainer.s.rank}-{name}"
    path.write_bytes(pickle.dumps({"state": list(range(5000))})[:4000])
    with path.open("rb") as file:
        return pickle.load(file)


def read_safetensors(trainer, name="model-00003-of-00007.safetensors"):
    from safetensors import safe_open

    path = folder(trainer) / f"{trainer.s.rank}-{name}"
    path.write_bytes((5000).to_bytes(8, "little") + b'{"lm_head.weight":{"dtype":"F32"')
    with safe_open(str(path), framework="numpy") as file:
        return list(file.keys())


def read_state(trainer, name="trainer_state.json"):
    path = folder(trainer) / f"{trainer.s.rank}-{name}"
    path.write_text('{"global_step": 500, "log_history": [{"loss": 2.')
    with path.open() as file:
        return json.load(file)


def resume_missing(trainer, name="checkpoint-1200"):
    with open(folder(trainer).parent / name / "pytorch_model.bin", "rb") as file:
        return file.read()


def resume_latest(trainer):
    raise ValueError(f"No valid checkpoint found in output directory ({trainer.s.output})")


def compare_shapes(trainer):
    stored, model = (
        {"wte.weight": (50257, 1024), "h.0.ln.bias": (1024,)},
        {"wte.weight": (50304, 1024), "h.0.ln.bias": (1024,)},
    )
    wrong = [
        f"size mismatch for {k}: copying a param with shape {v} from checkpoint, the shape in current model is {model[k]}."
        for k, v in stored.items()
        if model[k] != v
    ]
    if wrong:
        raise RuntimeError("Error(s) in loading state_dict for GPT:\n\t" + "\n\t".join(wrong))


def world_size(trainer, stored=8):
    raise RuntimeError(
        f"The checkpoint being loaded used a DP world size of {stored} but the current world size is {trainer.s.world}. "
        "Automatic adjustment of ZeRO's optimizer state partitioning with a new world size is not currently supported."
    )


def write_full(trainer, megabytes=8):
    """The file system of the checkpoints is small and really fills up."""
    path = Path(os.environ["SMALL_DISK"]) / f"checkpoint-{trainer.step}"
    path.mkdir(exist_ok=True)
    with open(path / "model.safetensors", "wb") as file:
        for _ in range(megabytes):
            file.write(os.urandom(1 << 20))


def copy_full(trainer):
    import shutil

    source = Path(os.environ["WORK"]) / "weights.bin"
    source.write_bytes(os.urandom(6 << 20))
    shutil.copy(source, Path(os.environ["SMALL_DISK"]) / "weights.bin")


def numpy_full(trainer):
    import numpy as np

    np.save(Path(os.environ["SMALL_DISK"]) / "ema.npy", np.zeros(2 << 20))


def sqlite_full(trainer):
    import sqlite3

    base = sqlite3.connect(Path(os.environ["SMALL_DISK"]) / "cache.db")
    base.execute("create table features (id integer, value blob)")
    for n in range(64):
        base.execute("insert into features values (?, ?)", (n, os.urandom(1 << 16)))
        base.commit()


def read_only(trainer):
    with open(Path(os.environ["READ_ONLY_DISK"]) / "checkpoint.pt", "wb") as file:
        file.write(b"0")


def quota(trainer):
    raise OSError(
        errno.EDQUOT,
        os.strerror(errno.EDQUOT),
        f"/mnt/nfs/users/ana/run/checkpoint-{trainer.step}/optimizer.pt",
    )


def fuse_gone(trainer, number=errno.ENOTCONN, path="/gcs/train-artifacts/run/checkpoint-400"):
    raise OSError(number, os.strerror(number), path)
