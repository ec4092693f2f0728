"""The loop: set up, step, evaluate, save."""

import os
import sys

import callbacks
import console


class Trainer:
    def __init__(self, settings):
        self.s = settings
        self.step = 0
        self.comm = None

    def fit(self):
        s = self.s
        console.startup(s)
        callbacks.fire("setup", self)
        if s.collective != "none" and s.world > 1:
            import distributed_c10d

            self.comm = distributed_c10d.ProcessGroup(s)
        console.ready(s)
        callbacks.fire("build", self)
        for step in range(1, s.steps + 1):
            self.step = step
            self.training_step(step)
            if step % s.save_every == 0:
                self.save_checkpoint(step)
        callbacks.fire("end", self)
        console.finished(s)

    def training_step(self, step):
        callbacks.fire("step", self)
        self.s.sleep(self.s.step_seconds * (0.8 + 0.4 * self.s.rng.random()))
        if self.comm is not None:
            self.comm.all_reduce(step)
        console.progress(self.s, step)

    def save_checkpoint(self, step):
        if self.s.rank == 0 or self.s.all_save:
            print(console.stamp(self.s, f"Saving model checkpoint to {self.s.output}/checkpoint-{step}"))
            callbacks.fire("save", self)
            print(console.stamp(self.s, f"Checkpoint {step} saved in {self.s.rng.uniform(2, 30):.1f}s"))
        sys.stdout.flush()


def leave(code):
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
