"""Trouble that the run survives."""

import logging
import sys
import time
import traceback

import console


def _log(trainer, text, level="WARNING"):
    console.err(console.stamp(trainer.s, text, level))


def gcs_retry(trainer):
    for n in range(1, 4):
        url = "https://storage.googleapis.com/upload/storage/v1/b/train-artifacts/o?uploadType=resumable"
        _log(
            trainer,
            f"upload of events.out.tfevents failed: 503 POST {url}: Service Unavailable; retry {n}/5 in {2**n}s",
        )
        trainer.s.sleep(2**n / 4)
    _log(trainer, "upload of events.out.tfevents succeeded after 3 retries", "INFO")


def bad_sample(trainer):
    import io

    from PIL import Image

    try:
        Image.open(io.BytesIO(b"\xff\xd8\xff\xe0 not an image at all"))
    except Exception as e:
        _log(trainer, f"skipping sample 0{trainer.s.rng.randint(10000, 99999)}.jpg: {type(e).__name__}: {e}")


def library_traceback(trainer):
    try:
        {"scalars": 1}["histograms"]
    except KeyError:
        console.err("ERROR:tensorboard_writer:Failed to flush summaries, metrics of this step are lost")
        traceback.print_exc()


def logged_exception(trainer):
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        import socket

        socket.create_connection(("127.0.0.1", 9), timeout=1)
    except OSError:
        logging.getLogger("metrics_pusher").exception(
            "push to prometheus gateway failed, will try again later"
        )


def wandb_network(trainer):
    console.err("wandb: Network error (ConnectionError), entering retry loop.")
    console.err(
        "wandb: 429 encountered (Filestream rate limit exceeded, retrying in 2.3 seconds.), retrying request"
    )
    console.err("wandb: ERROR Error while calling W&B API: context deadline exceeded (<Response [504]>)")


def oom_recovered(trainer):
    _log(
        trainer,
        "caught torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB (GPU 0); batch size 64 -> 32, trying the step again",
    )


def loss_scale(trainer):
    console.out(
        f"[{trainer.s.asctime()}] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank {trainer.s.rank} Skipping step. Attempted loss scale: 65536, reducing to 32768"
    )


def nan_skipped(trainer):
    _log(
        trainer,
        f"step {trainer.step}: loss is nan on rank {trainer.s.rank}, gradient skipped (1 of at most 20)",
    )


def worker_restart(trainer):
    _log(trainer, "data worker 3 died (exit code 1), a new one was started", "ERROR")


def nccl_warn(trainer):
    console.out(
        f"{trainer.s.replica}:71:212 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.128.0.9<43121> returned Connection refused, retrying (1/35) after sleep for 100 msec"
    )


def checkpoint_fallback(trainer):
    _log(
        trainer,
        "could not read /gcs/train-artifacts/run/checkpoint-400: RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory; falling back to checkpoint-300",
    )


def eval_assert(trainer):
    try:
        assert trainer.step < 0, "bleu score needs references"
    except AssertionError:
        _log(trainer, "evaluation callback raised and was disabled", "ERROR")
        console.err(traceback.format_exc())


def deprecation(trainer):
    for _ in range(3):
        console.err(
            "/app/engine.py:212: DeprecationWarning: `np.bool` error handling will raise an error in a future version: invalid use of a deprecated alias"
        )


def straggler(trainer):
    _log(trainer, f"slow step: {trainer.s.step_seconds * 9:.1f}s, timeout of the watchdog not reached")
    trainer.s.sleep(trainer.s.step_seconds * 3)


def errors_metric(trainer):
    console.out(
        console.stamp(
            trainer.s,
            f"eval: word error rate 0.{trainer.s.rng.randint(100, 400)}, fatal_accident_class recall 0.71, failed=0 error=0.034",
        )
    )


def xid_other(trainer):
    console.err(
        f"[{trainer.s.now() % 1e6:.6f}] NVRM: Xid (PCI:0000:00:05): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row (0x000000000a3b1d1c) marked for remapping, reset gpu to activate."
    )


def hub_retry(trainer):
    console.err(
        "'(ReadTimeoutError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Read timed out. (read timeout=10)\"), '(Request ID: 61d2)')' thrown while requesting HEAD https://huggingface.co/gpt2/resolve/main/config.json"
    )
    console.err("Retrying in 1s [Retry 1/5].")


def long_history(trainer):
    for n in range(12):
        console.err(f"wandb:   train/metric_{n} ▁▂▃▅▆█")


def pause(trainer, seconds=60.0):
    time.sleep(seconds / trainer.s.scale)
