"""The model and its arithmetic."""

import math


class Config(dict):
    def __getattr__(self, name):
        return self.get(name)


def attribute_of_none(trainer):
    batch = {"pixel_values": None}
    return batch["pixel_values"].shape[0]


def unexpected_argument(trainer):
    def forward(input_ids, attention_mask=None):
        return input_ids

    return forward(input_ids=[1, 2], token_type_ids=[0, 0])


def heads(trainer, hidden=1000, count=16):
    assert hidden % count == 0, (
        f"hidden size {hidden} must be divisible by the number of attention heads {count}"
    )


def nested(trainer):
    def flatten(node):
        return [flatten(child) for child in node]

    tree = []
    tree.append(tree)
    return flatten(tree)


def undefined_name(trainer):
    return optimiser_state["step"]  # noqa: F821


def unbound(trainer):
    if trainer.step > 10**9:
        warmup = 1
    return warmup * 3


def divide(trainer):
    seen = {"tokens": 0}
    return math.exp(12.5 / seen["tokens"])


def metric_key(trainer, key="eval/bleu"):
    metrics = {"eval/loss": 2.11, "eval/ppl": 8.2}
    return metrics[key]


def index(trainer):
    layers = list(range(24))
    return layers[trainer.step + 24]


def pickle_lambda(trainer):
    import multiprocessing

    def collate(batch):
        return batch

    context = multiprocessing.get_context("spawn")
    worker = context.Process(target=collate, args=([],))
    worker.start()


def unpicklable(trainer):
    import pickle
    import threading

    return pickle.dumps({"lock": threading.Lock()})


def broadcast(trainer):
    import numpy as np

    return np.zeros((32, 768)) @ np.zeros((1024, 4096))


def reshape(trainer):
    import numpy as np

    return np.zeros((32, 197, 768)).reshape(32, 196, 768)


def loss_guard(trainer):
    x = 700.0
    for _ in range(3):
        x = math.exp(x) if x < 709 else float("inf")
    loss = x - x
    if math.isnan(loss) or math.isinf(loss):
        raise FloatingPointError(
            f"loss is {loss} at step {trainer.step}, stopping (learning rate 3e-2, grad norm inf)"
        )


def overflow(trainer):
    return math.exp(trainer.step * 1000)


def not_implemented(trainer):
    class Block:
        def forward(self, x):
            raise NotImplementedError(f"{type(self).__name__}.forward")

    return Block().forward(1)


def wrong_type(trainer):
    return "3e-4" * 0.1


def strings(trainer):
    return 1e-3 + None


def stop_iteration(trainer):
    return next(iter([]))


def jax_shapes(trainer):
    import jax.numpy as jnp

    return jnp.dot(jnp.ones((8, 512)), jnp.ones((256, 8)))


def jax_tracer(trainer):
    import jax

    @jax.jit
    def step(x):
        if x > 0:
            return x
        return -x

    return step(1.0)


def lightning_hook(trainer):
    import lightning.pytorch as pl

    class Lit(pl.LightningModule):
        pass

    pl.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, accelerator="cpu").fit(Lit())
