"""Settings of a rank, from its environment."""

import json
import os
import random
import time
from types import SimpleNamespace


def load_settings():
    s = SimpleNamespace(**json.loads(os.environ["RUN_SETTINGS"]))
    s.rank = int(os.environ.get("RANK", "0"))
    s.world = int(os.environ.get("WORLD_SIZE", "1"))
    s.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    s.replica = os.environ.get("REPLICA", "workerpool0-0")
    s.node = int(os.environ.get("GROUP_RANK", "0"))
    s.rng = random.Random(s.seed * 1000 + s.rank)
    s.started = float(os.environ["RUN_STARTED"])
    s.now = lambda: s.epoch + (time.time() - s.started) * s.scale
    s.sleep = lambda seconds: time.sleep(seconds / s.scale)
    s.asctime = lambda: time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(s.now()))
    return s
