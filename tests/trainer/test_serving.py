"""A checkpoint that answers over HTTP and is evaluated with the figures of its own training."""

from __future__ import annotations

import base64
import http.client
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from tests.trainer.in_turn import InTurn, RunFinished
from tests.trainer.vision import prompts
from trainer import evaluate
from trainer.checkpoint.manifest import read
from trainer.checkpoint.weights import newest_good, open_weights
from trainer.config_checks import selected_range
from trainer.errors import CheckpointError, UsageError
from trainer.models.arr_coc.answers import AnswerCheck
from trainer.models.arr_coc.build import build_parts
from trainer.models.arr_coc.dataset import collate
from trainer.network.addresses import LISTEN
from trainer.serving.__main__ import PredictionServer
from trainer.serving.answerer import fetch, open_answerer, settings
from trainer.weights.source import materialize

pytestmark = pytest.mark.arithmetic

FLAGS = (
    "--model=arr-coc", "--stage=both", "--image-tokens=16", "--selected-tokens=4,8", "--context=64",
    "--batch=4", "--micro-batch=4", "--steps=2", "--eval-every=2", "--eval-samples=8", "--answer-tokens=3",
    "--grace=0",
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunFinished]:
    """The folder of the checkpoints of a short training, and its lines."""
    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("trained")
    upload = home / "uploaded"
    (run,) = InTurn(home, 1, {"run": [*FLAGS, f"--upload-dir={upload}"]}).wait().values()
    assert run.code == 0, run.errors
    return upload, run


def picture(colour: tuple[int, int, int]) -> str:
    file = io.BytesIO()
    Image.new("RGB", (100, 80), colour).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


RED = {"image": picture((220, 40, 40)), "question": "Which colour?"}


class Client:
    """One connection to a server."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else None
        self._connection.request(method, path, data)
        reply = self._connection.getresponse()
        return reply.status, json.loads(reply.read())


@pytest.fixture(scope="module")
def client(trained: tuple[Path, RunFinished]) -> Iterator[Client]:
    env = {"AIP_HTTP_PORT": "0", "AIP_PREDICT_ROUTE": "/answers", "AIP_HEALTH_ROUTE": "/alive"} | {
        LISTEN: "127.0.0.1"
    }
    with PredictionServer(open_answerer(str(trained[0])), env) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Client(server.server_port)
        server.shutdown()
        thread.join()


def test_an_answer_is_that_of_the_trained_weights(trained: tuple[Path, RunFinished], client: Client) -> None:
    blue = {"image": picture((50, 80, 220)), "question": "What is it?"}
    status, reply = client.ask("POST", "/answers", {"instances": [RED, blue]})
    assert status == 200
    # The same by the model itself, with the weights of the checkpoint's own file.
    checkpoint = newest_good(trained[0], print)
    parts = build_parts(settings(read(checkpoint)))
    materialize(parts.model, parts.deferred.source(parts.model), torch.device("cpu"))
    saved = open_weights(checkpoint, read(checkpoint))
    saved.fill({name: w.detach() for name, w in parts.model.named_parameters() if name in saved.shapes})
    limits = parts.limits
    samples = []
    for colour, question in (((220, 40, 40), "Which colour?"), ((50, 80, 220), "What is it?")):
        rows, columns = limits.grid(100, 80)
        image = torch.tensor(colour, dtype=torch.uint8)[:, None, None].expand(3, rows * 32, columns * 32)
        samples.append((image.clone(), *prompts().sample(question, "")))
    check = AnswerCheck(lambda _: (), prompts().answer, "exact")
    with torch.inference_mode():
        expected = parts.model.eval()(*check.prompts(collate(samples))).tolist()
    assert [each["tokens"] for each in reply["predictions"]] == expected
    assert [each["answer"] for each in reply["predictions"]] == [prompts().answer(each) for each in expected]
    assert parts.model.min_tokens == 4 and parts.model.max_tokens == 8


def test_a_request_that_is_none_says_why(client: Client) -> None:
    assert client.ask("GET", "/alive") == (200, {})
    assert client.ask("GET", "/predict")[0] == 404 and client.ask("POST", "/predict", {})[0] == 404
    for body, word in (
        (b"{", "the request must be JSON: "),
        ({"instances": 1}, "the request must be a JSON object with a list"),
        ({"instances": [{"image": RED["image"]}]}, "instances[0] must be an object with two strings"),
        ({"instances": [{**RED, "image": "?"}]}, "instances[0].image must be base64"),
        ({"instances": [RED, {**RED, "image": "AAAA"}]}, "instances[1].image can't be read"),
    ):
        status, reply = client.ask("POST", "/answers", body)
        assert status == 400 and word in reply["error"], reply
    assert client.ask("POST", "/answers", {"instances": []}) == (200, {"predictions": []})


def test_the_evaluation_of_a_checkpoint_is_that_of_its_run(
    trained: tuple[Path, RunFinished], tmp_path: Path
) -> None:
    folder, run = trained
    (line,) = [each for each in run.lines if each["kind"] == "eval"]
    out = tmp_path / "deep" / "found.json"
    assert evaluate.main([str(folder), "--samples=8", "--batch=4", f"--out={out}"]) == 0
    found = json.loads(out.read_text())
    assert found["loss"] == pytest.approx(line["loss"], abs=1e-5) and found["accuracy"] == line["accuracy"]
    assert found["samples"] == 8 and found["step"] == 2 and 0 < found["likelihood"] < 1
    assert evaluate.main([str(tmp_path), "--samples=8"]) == 2


def test_what_can_t_be_served_says_why(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has no good checkpoint"):
        fetch(str(tmp_path))
    assert selected_range("4,8") == (4, 8)
    for wrong in ("4", "8,4", "0,8", "a,b", "1,2,3", ",8"):
        with pytest.raises(UsageError, match="selected-tokens"):
            selected_range(wrong)
