"""Evaluation by generated answers: which are right, how they are generated, also under each strategy."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from tests.trainer.in_turn import InTurn
from tests.trainer.ranks import Ranks
from tests.trainer.vision import MARKS, drawn, prompts
from trainer.data.loader import IGNORED
from trainer.models.arr_coc.answers import AnswerCheck, accuracy, normalised, relaxed
from trainer.models.arr_coc.backbone import Backbone, build_qwen
from trainer.models.arr_coc.dataset import ImageLimits, QuestionFile, collate, images_of
from trainer.models.arr_coc.model import ArrCoc
from trainer.models.arr_coc.prompts import PADDING

LINES = 32
STRATEGIES = ("ddp", "fsdp", "zero1", "zero2", "zero3")
FLAGS = ("--model=arr-coc", "--stage=both", "--image-tokens=16", "--context=64", "--eval-every=1")


def test_texts_are_compared_after_normalisation() -> None:
    assert normalised("  Ｒed\n Square. ") == "red square"
    assert relaxed("The two, red-ish cats!") == "2 red ish cats" and relaxed("3.5 m.") == "3.5 m"
    assert accuracy("RED.", ["red"], "exact") == 1 and accuracy("a red", ["red"], "exact") == 0
    assert accuracy("a red", ["red"], "vqa") == 1 and accuracy("blue", ["red"], "vqa") == 0


@pytest.mark.parametrize(
    ("agreeing", "expected"),
    # Each of the ten is left out once: of those who agree n - 1 are left then, of the others n.
    [(0, 0.0), (1, 0.3), (2, 0.6), (3, 0.9), (4, 1.0), (10, 1.0)],
)
def test_an_answer_of_people_is_right_as_far_as_three_of_them_gave_it(agreeing: int, expected: float) -> None:
    references = ["red"] * agreeing + [f"other {n}" for n in range(10 - agreeing)]
    assert accuracy("Red", references, "vqa") == pytest.approx(expected)
    most = "red" if agreeing else "other 0"
    assert accuracy(most, ["x", *references, most], "exact") == 1


def model(stage: str = "both") -> ArrCoc:
    torch.manual_seed(0)
    qwen = build_qwen("tiny", torch.float32)
    return ArrCoc(Backbone(qwen), stage=stage, min_tokens=4, max_tokens=12, answer_tokens=8)


@pytest.mark.arithmetic
def test_each_token_of_an_answer_is_the_most_probable_one_after_those_before_it() -> None:
    found, batch = model().eval(), drawn(3)
    pixels, sides, tokens, spans, targets = batch
    asked = AnswerCheck(lambda _: ("red",), prompts().answer, "exact").prompts(batch)
    assert torch.equal(asked[2] == PADDING, (targets != IGNORED) | (tokens == PADDING))
    with torch.no_grad():
        answers = found(*asked)
        assert answers.shape == (3, 8)
        # All of it at once, as in training.
        ends = (asked[2] != PADDING).sum(1)
        whole = torch.full((3, int(ends.max()) + 8), PADDING)
        for row, (end, answer) in enumerate(zip(ends.tolist(), answers, strict=True)):
            whole[row, :end], whole[row, end : end + 8] = asked[2][row, :end], answer
        words = found.backbone.embed(whole.clamp_min(0))
        visual = found.select_visual([image / 255 for image in images_of(pixels, sides)], words, spans)
        best = found.backbone.logits(found.backbone.hidden_states(whole, words, visual)).argmax(-1)
    for row, end in enumerate(ends.tolist()):
        assert best[row, end - 1 : end + 7].tolist() == answers[row].tolist()


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with questions whose answer is "red" except the last one's, and weights that always answer
    so."""
    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("learned")
    Image.new("RGB", (64, 64), (255, 0, 0)).save(home / "x.png")
    answers = ["red"] * (LINES - 1) + ["blue"]
    lines = [{"image": "x.png", "question": "Which?", "answer": answer} for answer in answers]
    (home / "q.jsonl").write_text("\n".join(map(json.dumps, lines)))
    questions = QuestionFile(
        home / "q.jsonl", prompts(), ImageLimits(32, 16, 16), cache=home / "cache"
    )  # fmt: skip
    batch, found = collate([questions[0]]), model()
    # All of its weights, so that few steps are enough.
    optimizer = torch.optim.AdamW([w.requires_grad_() for w in found.parameters()], lr=1e-2)
    check = AnswerCheck(questions.references, prompts().answer, "exact")
    for _ in range(40):
        found.train()
        found(*batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        found.eval()
        with torch.no_grad():
            said = found(*check.prompts(batch))
        if check.accuracies([0], said) == [1.0]:
            break
    assert said[0, :4].tolist() == [*b"red", MARKS["<|im_end|>"]], "it knows where its turn ends"
    assert check.accuracies([LINES - 1], said) == [0.0]
    save_file({name: w.detach().clone() for name, w in found.named_parameters()}, home / "w.safetensors")
    return home


@pytest.mark.arithmetic
def test_all_strategies_evaluate_by_the_same_answers(learned: Path, tmp_path: Path) -> None:
    data = (f"--data={learned / 'q.jsonl'}", f"--init-weights={learned / 'w.safetensors'}")
    size = ("--batch=4", "--micro-batch=2", "--eval-samples=4", "--steps=1", "--learning-rate=0", "--grace=0")
    runs = {
        f"{strategy}-{tokens}": [
            *FLAGS, *data, *size, f"--strategy={strategy}", f"--answer-tokens={tokens}"
        ]
        for strategy in STRATEGIES
        for tokens in (8, 0)[: 2 if strategy == "ddp" else 1]
    }  # fmt: skip
    found = InTurn(tmp_path, 2, runs).wait()
    evaluated = {}
    for name, run in found.items():
        assert run.code == 0, (name, run.errors[-900:])
        evaluated[name] = [line for line in run.lines if line["kind"] == "eval"]
    assert "accuracy" not in evaluated.pop("ddp-0")[0]
    # The two held-out questions, twice each: one is answered rightly.
    assert {name: [line["accuracy"] for line in lines] for name, lines in evaluated.items()} == {
        f"{strategy}-8": [0.5] for strategy in STRATEGIES
    }
    assert len({round(lines[0]["loss"], 4) for lines in evaluated.values()}) == 1


def test_a_signal_ends_an_evaluation_by_answers(learned: Path, tmp_path: Path) -> None:
    data = (f"--data={learned / 'q.jsonl'}", "--batch=4", "--micro-batch=2", "--steps=9")
    run = Ranks(tmp_path, 2, *FLAGS, *data, "--strategy=fsdp", "--eval-samples=1000000")
    run.wait_step(1)
    run.signal(signal.SIGTERM, 1)
    assert run.wait(60) == [75, 75], run.errors()
    kinds = [line["kind"] for line in run.lines()]
    assert "eval" not in kinds and "preempted" in kinds
