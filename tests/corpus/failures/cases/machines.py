"""Faults of data, disks, memory, checkpoints and the machine."""

# fmt: off
from __future__ import annotations

from tests.corpus.failures.case import Case, Root, hook
from tests.corpus.failures.cases.mix import mixed


def data() -> list[Case]:
    f, d = "data", "data."
    return [
        mixed("jpeg_truncated", f, "truncated", "image file is truncated", d + "read_image", replicas=16),
        mixed("jpeg_is_html", f, "cannot identify image", "UnidentifiedImageError: cannot identify image file", d + "read_image", options={"kind": "html"}, replicas=8),
        mixed("jsonl_cut", f, "JSONDecodeError", "json.decoder.JSONDecodeError: Expecting value", d + "read_jsonl", replicas=6),
        mixed("latin_text", f, "utf-8", "UnicodeDecodeError: 'utf-8' codec can't decode byte", d + "read_text", replicas=12),
        mixed("parquet_magic", f, "parquet", "ArrowInvalid: .*Parquet magic bytes not found", d + "read_parquet", light=False, replicas=4),
        mixed("gzip_cut", f, "end-of-stream", "EOFError: Compressed file ended", d + "read_gzip", replicas=32),
        mixed("gzip_bad_magic", f, "gzipped", "BadGzipFile: Not a gzipped file", d + "read_gzip", options={"kind": "magic"}, replicas=3),
        mixed("zlib_block", f, "zlib|decompress", "zlib.error: Error -3 while decompressing data", d + "read_zlib", replicas=48),
        mixed("tar_is_xml", f, "could not be opened", "tarfile.ReadError", d + "read_tar", replicas=8, platform="kubernetes"),
        mixed("zip_crc", f, "CRC", "zipfile.BadZipFile: Bad CRC-32 for file 'x.npy'", d + "read_zip"),
        mixed("csv_na", f, "N/A", "could not convert string to float: 'N/A'", d + "read_csv", stage="build", on="all", replicas=4),
        mixed("index_missing", f, "/data/imagenet/train/index.json", "No such file or directory: '/data/imagenet/train/index.json'", d + "open_missing", stage="build", on="all", replicas=8),
        mixed("split_empty", f, "/data/shards/train", "no shards match /data/shards/train", d + "empty_split", stage="build", replicas=6),
        mixed("label_unknown", (f, "code"), "zebra_crossing", "KeyError: 'zebra_crossing'", d + "encode", replicas=24),
        mixed("lengths_differ", f, "88213|0042", "sample 88213 of shard 0042", d + "check_lengths", replicas=64, ranks=1),
        mixed("mmap_empty", f, "empty file", "ValueError: cannot mmap an empty file", d + "load_mmap", stage="build"),
        mixed("npy_cut", f, "Failed to read all data", "Failed to read all data for array", d + "load_npy", light=False, replicas=2, stage="build"),
        mixed("tokenizer_json", (f, "package", "checkpoint"), "", "Exception: \\w+", d + "tokenizer_file", light=False, stage="build", replicas=3),
        mixed("dataset_column", ("data", "code", "config-flag"), "summary", "KeyError: 'summary'", d + "hf_dataset", light=False, replicas=2, stage="build"),
        mixed("data_gcs_missing", (f, "storage-gcs"), "/gcs/acme-data/shards/index.json", "No such file or directory: '/gcs/acme-data/shards/index.json'", d + "open_missing", stage="build", on="all", options={"path": "/gcs/acme-data/shards/index.json"}, replicas=16, ranks=1),
    ]


def disks() -> list[Case]:
    f, c = "disk", "checkpointing."
    small = {"save_every": 5, "all_save": False}
    return [
        mixed("disk_full_save", f, "No space left", "No space left on device", c + "write_full", stage="save", on="zero", settings=small, replicas=8),
        mixed("disk_full_save_rank", f, "No space left", "No space left on device", c + "write_full", stage="save", settings=small | {"all_save": True}, replicas=16, ranks=1),
        mixed("disk_full_copy", f, "No space left", "No space left on device", c + "copy_full", stage="build", replicas=4),
        mixed("disk_full_numpy", f, "free space", "Not enough free space to write|No space left|requested and", c + "numpy_full", light=False, stage="save", on="zero", settings=small, replicas=2),
        mixed("disk_full_sqlite", f, "full", "sqlite3.OperationalError: database or disk is full", c + "sqlite_full", stage="build", replicas=3),
        mixed("disk_read_only", (f, "permission"), "Read-only file system", "Read-only file system", c + "read_only", stage="save", on="zero", settings=small, replicas=6),
        mixed("disk_file_limit", f, "File too large", "File too large", "system.file_limit", replicas=4),
        mixed("disk_quota", f, "quota", "Disk quota exceeded", c + "quota", stage="save", on="zero", really=False, replicas=12, settings=small),
        mixed("inodes_pod", f, "ephemeral", "ephemeral", "worded.say_and_die", really=False, replicas=4, ranks=1, platform="kubernetes", options={"text": "saving spill file /tmp/spill/part-{rank}", "number": 9}, root=Root((), ("train-worker-1",)), on=[2], error="Pod train-worker-1 was evicted: The node was low on resource: ephemeral-storage. Threshold quantity: 10120387530, available: 9731416Ki. Container pytorch was using 91337412Ki, request is 0, has larger consumption of ephemeral-storage."),
    ]


def memory() -> list[Case]:
    f, s = "memory-host", "system."
    one = {"ranks": 1}
    return [
        mixed("oom_kernel", f, "memory", "", s + "eat_memory", on=[3], replicas=8, platform="vertex", oom=("workerpool1-2",), root=Root((), ("workerpool1-2",)), settings={"collective": "gloo"}, grace=60.0, **one),
        mixed("oom_kernel_pool", f, "memory", "", s + "eat_memory", on=[1, 2, 3], replicas=4, platform="vertex", oom=("workerpool1-0", "workerpool1-1", "workerpool1-2"), root=Root((), ("workerpool1-0", "workerpool1-1", "workerpool1-2")), **one),
        mixed("oom_killed_pod", f, "memory", "", s + "eat_memory", on=[12], replicas=16, platform="kubernetes", oom=("train-worker-11",), root=Root((), ("train-worker-11",)), **one),
        mixed("oom_kernel_line", f, "memory", "Out of memory: Killed process", s + "kill_self", on=[5], replicas=12, really=False, extra=[hook("worded.say", [5], "step", 9, text="[ 8123.412003] Out of memory: Killed process {pid} (python) total-vm:412345678kB, anon-rss:380123456kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:790012kB oom_score_adj:900")], settings={"steps": 40}, at_step=10, **one),
        mixed("memory_error", f, "MemoryError", "^MemoryError|rank\\d+\\]: MemoryError", s + "limit_memory", replicas=6, **one),
        mixed("numpy_huge", f, "Unable to allocate", "Unable to allocate .* for an array", s + "huge_array", light=False, stage="build", on="zero", replicas=2),
        mixed("cxx_bad_alloc", f, "bad_alloc", "std::bad_alloc", s + "cxx_throw", replicas=3, **one),
        mixed("too_many_files", (f, "config-flag", "code", "data"), "Too many open files", "Too many open files", s + "many_files", replicas=16, **one),
        mixed("no_new_thread", (f, "config-flag", "code"), "thread", "can't start new thread", s + "many_threads", replicas=8, **one),
        mixed("fork_unavailable", (f, "config-flag", "code"), "Resource temporarily unavailable", "Resource temporarily unavailable", s + "many_processes", replicas=4, **one),
        mixed("worker_bus_error", (f,), "DataLoader worker", "DataLoader worker .* exited unexpectedly", "data.worker_pool", options={"how": "bus"}, replicas=8, **one),
        mixed("worker_killed", (f, "code", "data"), "DataLoader worker", "DataLoader worker .* exited unexpectedly", "data.worker_pool", options={"how": "kill"}, replicas=32, **one),
        mixed("worker_segv", ("code", "memory-host", "data"), "DataLoader worker", "DataLoader worker .* exited unexpectedly", "data.worker_pool", options={"how": "segv"}, replicas=4, **one),
        mixed("worker_json", ("data", "code"), "JSONDecodeError", "JSONDecodeError: Expecting ',' delimiter", "data.worker_pool", options={"how": "json"}, replicas=8, **one),
    ]


def native() -> list[Case]:
    s = "system."
    one = {"ranks": 1}
    return [
        mixed("segfault_only_code", ("code", "hardware-gpu"), "SIGSEGV", "", s + "segfault_quiet", on=[2], replicas=4, platform="vertex", root=Root((), ("workerpool1-1",)), settings={"collective": "gloo"}, grace=30.0, **one),
        mixed("segfault_launcher", ("code", "hardware-gpu"), "SIGSEGV", "failed \\(exitcode: -11\\)|Signal 11 \\(SIGSEGV\\)|exitcode  : -11", s + "segfault_quiet", on=[5], replicas=2, ranks=4, settings={"launcher": "torchrun", "collective": "gloo"}),
        mixed("illegal_instruction", ("package", "image", "code"), "SIGILL", "died with <Signals.SIGILL|failed \\(exitcode: -4\\)|Signal 4", s + "illegal", on=[1], replicas=2, ranks=2, settings={"launcher": "torchrun", "collective": "gloo"}),
        mixed("deepspeed_segv", ("code", "hardware-gpu"), "", "exits with return code = -11", s + "segfault_quiet", on=[6], replicas=2, ranks=4, settings={"launcher": "deepspeed", "collective": "none", "dialect": "megatron"}),
        mixed("mpirun_segv", ("code", "hardware-gpu"), "", "exited on signal 11", s + "segfault_quiet", on=[9], replicas=4, ranks=4, settings={"launcher": "mpirun", "collective": "none"}),
        mixed("deepspeed_sigkill", "memory-host", "", "exits with return code = -9", s + "eat_memory", on=[1], replicas=2, ranks=2, settings={"launcher": "deepspeed", "collective": "none"}, retry=("change", "yes")),
        mixed("accelerate_sigabrt", "code", "", "died with <Signals.SIGABRT", s + "abort", on=[3], replicas=2, ranks=4, settings={"launcher": "accelerate", "collective": "none"}),
    ]


def checkpoints() -> list[Case]:
    f, c = "checkpoint", "checkpointing."
    return [
        mixed("ckpt_pickle_cut", f, "pickle data was truncated", "UnpicklingError: pickle data was truncated", c + "read_pickle", stage="build", replicas=8),
        mixed("ckpt_safetensors", f, "header", "SafetensorError: .*header", c + "read_safetensors", light=False, stage="build", on="all", replicas=2),
        mixed("ckpt_state_json", (f, "data"), "JSONDecodeError", "json.decoder.JSONDecodeError", c + "read_state", stage="build", on="zero", replicas=16, ranks=1),
        mixed("ckpt_missing_file", f, "checkpoint-1200", "No such file or directory: .*checkpoint-1200", c + "resume_missing", stage="build", on="all", replicas=6),
        mixed("ckpt_no_valid", f, "No valid checkpoint", "No valid checkpoint found in output directory", c + "resume_latest", stage="build", on="all", replicas=24, ranks=1),
        mixed("ckpt_size_mismatch", f, "wte.weight", "size mismatch for wte.weight|Error\\(s\\) in loading state_dict for GPT", c + "compare_shapes", stage="build", on="all", replicas=8),
        mixed("ckpt_world_size", f, "world size", "used a DP world size of 8", c + "world_size", stage="build", on="all", replicas=4, ranks=4, really=False),
        mixed("ckpt_one_rank_pickle", f, "truncated", "UnpicklingError: pickle data was truncated", c + "read_pickle", stage="build", replicas=48, ranks=1, on=[31]),
    ]


def machines() -> list[Case]:
    return [*data(), *disks(), *memory(), *native(), *checkpoints()]
