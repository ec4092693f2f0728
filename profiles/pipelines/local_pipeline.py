"""The source of local-pipeline.yaml: train, and only if the loss is good, try learning rates.

    pip install kfp==2.17.0
    python local_pipeline.py

All tasks use the trainer's image, so they install nothing at run time.
"""

from pathlib import Path

from kfp import compiler, dsl

IMAGE = "us-docker.pkg.dev/vxtui/vxtui/trainer:latest"

# The trainer reports its loss like a trial of a tuning job, in a file of JSON lines.
TRAIN = """
import json, os, pathlib, subprocess, sys
output, *flags = sys.argv[1:]
report = pathlib.Path("metric").absolute()
os.environ.update(CLOUD_ML_TRIAL_ID="1", CLOUD_ML_HP_METRIC_FILE=str(report))
subprocess.run([sys.executable, "-m", "trainer.task", *flags], check=True)
loss = float(json.loads(report.read_text().splitlines()[-1])["loss"])
print("The loss is", loss)
pathlib.Path(output).parent.mkdir(parents=True, exist_ok=True)
pathlib.Path(output).write_text(str(loss))
"""

BEST = """
import json, pathlib, sys
output, losses = sys.argv[1], json.loads(sys.argv[2])
print("The losses are", losses)
pathlib.Path(output).parent.mkdir(parents=True, exist_ok=True)
pathlib.Path(output).write_text(str(min(losses)))
"""


@dsl.container_component
def train(steps: int, learning_rate: float, loss: dsl.OutputPath(float)):
    """Train the small GPT and write its last loss."""
    return dsl.ContainerSpec(
        image=IMAGE,
        command=["python", "-c", TRAIN, loss],
        args=[
            "--preset=small", "--log-every=2", f"--steps={steps}", f"--learning-rate={learning_rate}",
        ],
    )  # fmt: skip


@dsl.container_component
def best(losses: list, loss: dsl.OutputPath(float)):
    """Write the smallest loss."""
    return dsl.ContainerSpec(image=IMAGE, command=["python", "-c", BEST, loss, losses])


@dsl.pipeline(name="local-pipeline", description="Train; if the loss is good, try learning rates.")
def local_pipeline(
    steps: int = 6,
    good: float = 8.0,
    learning_rates: list = [0.001, 0.003],  # noqa: B006 - the compiler reads it as the default
):
    """Train; if the loss is good, try learning rates.

    Args:
        steps: Optimizer steps of each training.
        good: The loss below which the learning rates are tried.
        learning_rates: Learning rates to try, two at a time.
    """
    first = train(steps=steps, learning_rate=0.001).set_display_name("first look")
    with dsl.If(first.output < good, name="good enough"):
        with dsl.ParallelFor(learning_rates, parallelism=2, name="learning rates") as rate:
            tried = train(steps=steps, learning_rate=rate).set_display_name("try a learning rate")
        best(losses=dsl.Collected(tried.output)).set_display_name("best loss")


if __name__ == "__main__":
    compiler.Compiler().compile(local_pipeline, str(Path(__file__).with_name("local-pipeline.yaml")))
