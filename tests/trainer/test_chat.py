"""Conversations: the text that a template renders, the learned part, and their samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, PreTrainedTokenizerFast

from tests.trainer.ranks import Ranks
from trainer.config import parse
from trainer.data.chat import ChatML, ChatTemplate, chat_pieces, load_template
from trainer.data.data_cache import DataProgress
from trainer.data.documents import files_of
from trainer.data.fingerprint import data_fingerprint
from trainer.data.loader import IGNORED
from trainer.data.tokenizer import ByteTokenizer, TokenizerFile, train_bpe
from trainer.errors import DataError
from trainer.models.build import build_workload
from trainer.models.language import prepare_gpt
from trainer.models.workload import Workload
from trainer.prepare import main as prepare

pytestmark = pytest.mark.arithmetic

TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "One and one?"},
    {"role": "assistant", "content": "Two."},
    {"role": "user", "content": "And ünder?"},
    {"role": "assistant", "content": "Über 🙂"},
]
LAST_ONLY = (
    "{% for m in messages %}<|{{ m.role }}|>"
    "{% if m.role == 'assistant' and not loop.last %}{{ m.content.split('#')[-1] }}{% else %}{{ m.content }}"
    "{% endif %}<|end|>\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""A template that drops the reasoning, up to #, of earlier answers, as reasoning models' templates do."""


def write(path: Path, *conversations: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps({"messages": each}) + "\n" for each in conversations))
    return path


def learned(path: Path, template: ChatTemplate) -> list[list[tuple[str, bool]]]:
    documents: list[list[tuple[str, bool]]] = [[]]
    for piece in chat_pieces(files_of([path]), "messages", template):
        documents[-1].append((piece.text, piece.is_target))
        if piece.ends_document:
            documents.append([])
    return documents[:-1]


def folder(path: Path, template: str) -> Path:
    """A tokenizer with a chat template, as `save_pretrained` writes it."""
    path.mkdir()
    train_bpe(["user assistant one two brief"], 300, path / "bpe.json")
    saved = json.loads((path / "bpe.json").read_text())
    (path / "bpe.json").unlink()
    raw = Tokenizer.from_str(json.dumps(saved))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|endoftext|>")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|end|>", "<|assistant|>", "<|user|>"]})
    tokenizer.chat_template = template
    tokenizer.save_pretrained(path)
    return path


def test_without_a_template_a_conversation_is_chatml_and_answers_are_learned(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", TALK)
    (parts,) = learned(path, load_template("bytes"))
    assert "".join(text for text, _ in parts) == ChatML().render(TALK, prompt=False).rstrip("\n")
    assert [text for text, is_target in parts if is_target] == ["Two.<|im_end|>", "Über 🙂<|im_end|>"]
    assert all(text.endswith("<|im_start|>assistant\n") for text, is_target in parts if not is_target)


def test_a_sample_has_targets_at_the_answers_only(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", TALK, TALK[1:3])
    flags = [f"--data={path}", "--format=chat", "--context=300", "--batch=2", f"--data-cache={tmp_path}/c"]
    workload = build_workload(parse(flags))
    assert len(workload.train) == 2
    tokenizer = ByteTokenizer()
    for number, answers in ((0, "Two.<|im_end|>Über 🙂<|im_end|>"), (1, "Two.<|im_end|>")):
        inputs, targets = workload.train[number]
        assert len(inputs) == len(targets) == 300
        assert tokenizer.decode(targets[targets != IGNORED].tolist()) == answers
        places = (targets != IGNORED).nonzero()[:-1, 0]
        assert torch.equal(inputs[places + 1], targets[places]), (
            "a target is the next input, but for the last"
        )
    # What stands before the first target is what the model reads when it is asked.
    first = int((targets != IGNORED).nonzero()[0])
    assert tokenizer.decode(inputs[: first + 1].tolist()) == ChatML().render(TALK[1:2], prompt=True)
    assert workload.count_targets is not None
    batch = tuple(torch.stack(column) for column in zip(workload.train[0], workload.train[1], strict=True))
    assert workload.count_targets(batch) == int((batch[1] != IGNORED).sum())
    assert torch.isfinite(workload.materialize(torch.device("cpu"))(*batch))


@pytest.mark.parametrize("masks", ["off", "on"])
def test_conversations_without_an_answer_in_the_context_are_said(
    tmp_path: Path, masks: str, capfd: pytest.CaptureFixture[str]
) -> None:
    # Their loss is 0: a run of them alone would end as if it had learned all.
    long = [{"role": "user", "content": "x" * 100}, {"role": "assistant", "content": "y"}]
    path = write(tmp_path / "a.jsonl", long, TALK[1:3])
    flags = [f"--data={path}", "--format=chat", f"--data-cache={tmp_path}/c", f"--document-masks={masks}"]
    with pytest.raises(
        DataError, match=r"1 of 2 conversations are longer .* 33\.8% of all tokens are lost, more"
    ):
        prepare_gpt(parse([*flags, "--context=80"]), DataProgress())
    capfd.readouterr()
    prepare_gpt(parse([*flags, "--context=80", "--max-truncated=0.5"]), DataProgress())
    assert (
        "1 of 2 samples have no answer in their first 80 tokens (--context): nothing"
        in capfd.readouterr().out
    )
    with pytest.raises(DataError, match=r"2 of 2 samples have no answer in their first 20 tokens"):
        prepare_gpt(parse([*flags, "--context=20"]), DataProgress())


def test_a_template_of_the_tokenizer_s_folder_is_used(tmp_path: Path) -> None:
    where = folder(tmp_path / "t", LAST_ONLY)
    template = load_template(str(where))
    (parts,) = learned(write(tmp_path / "a.jsonl", TALK), template)
    assert [text for text, is_target in parts if is_target] == ["Two.<|end|>", "Über 🙂<|end|>"]
    assert "".join(text for text, _ in parts) == template.render(TALK, prompt=False).rstrip("\n")
    assert load_template(str(where / "tokenizer.json")).identity == template.identity
    LlamaConfig(
        vocab_size=320, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    ).save_pretrained(tmp_path)  # fmt: skip
    flags = ["--model=causal-lm", f"--weights={tmp_path}/config.json", f"--tokenizer={where}", "--batch=1"]
    workload = build_workload(
        parse([*flags, f"--data={tmp_path}/a.jsonl", "--format=chat", f"--data-cache={tmp_path}/c"])
    )
    _, targets = workload.train[0]
    rust: Any = TokenizerFile(where / "tokenizer.json")
    end = rust.encode("<|end|>")
    assert len(end) == 1 and targets[targets != IGNORED].tolist().count(end[0]) == 2
    loss = workload.materialize(torch.device("cpu"))(*(part[None] for part in workload.train[0]))
    assert 4 < float(loss.detach()) < 8


def test_answers_that_a_template_changes_later_are_learned_as_the_model_writes_them(tmp_path: Path) -> None:
    talk = [dict(each) for each in TALK]
    talk[2]["content"] = "thinking#Two."
    documents = learned(
        write(tmp_path / "a.jsonl", talk), load_template(str(folder(tmp_path / "t", LAST_ONLY)))
    )
    assert [[text for text, is_target in parts if is_target] for parts in documents] == [
        ["thinking#Two.<|end|>"], ["Über 🙂<|end|>"],
    ]  # fmt: skip
    assert "thinking" not in documents[1][0][0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"messages": TALK[:2]}, "a.jsonl:2: at least one message must have the role assistant"),
        ({"messages": [{"role": "user"}]}, 'a.jsonl:2: each message must be {"role": …, "content": …}'),
        ({"text": "x"}, 'a.jsonl:2: "messages" must have a list of messages; --field selects another'),
    ],
)
def test_a_line_that_is_no_conversation_is_named(tmp_path: Path, line: dict[str, Any], said: str) -> None:
    path = write(tmp_path / "a.jsonl", TALK)
    path.write_text(path.read_text() + json.dumps(line) + "\n")
    with pytest.raises(DataError) as raised:
        learned(path, ChatML())
    assert said in str(raised.value)
    refusing = load_template(str(folder(tmp_path / "t", "{{ raise_exception('roles must alternate') }}")))
    with pytest.raises(
        DataError, match=r"a\.jsonl:1: the chat template refuses the messages: roles must alternate"
    ):
        learned(path, refusing)


def test_a_token_file_of_another_format_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", TALK)
    assert prepare([str(path), "--out", str(tmp_path / "c.bin"), "--format=chat"]) == 0
    flags = [f"--data={tmp_path / 'c.bin'}", "--context=64", "--batch=1"]

    def build(*more: str) -> Workload:
        return build_workload(parse([*flags, *more]))

    with pytest.raises(DataError, match=r"c\.bin was written with --format chat"):
        build()
    assert len(build("--format=chat").train) == 1
    hashes = {data_fingerprint(build("--format=chat", f"--context={n}").train)["hash"] for n in (64, 32)}
    assert len(hashes) == 2
    (tmp_path / "c.starts").unlink()
    with pytest.raises(DataError, match=r"c\.starts: No such file"):
        build("--format=chat")


def test_two_ranks_learn_answers(tmp_path: Path) -> None:
    talks = [
        [{"role": "user", "content": f"Say {word} {n}"}, {"role": "assistant", "content": word * (n % 3 + 1)}]
        for n in range(40)
        for word in ("red", "green")
    ]
    write(tmp_path / "a.jsonl", *talks)
    ranks = Ranks(
        tmp_path / "run", 2, f"--data={tmp_path / 'a.jsonl'}", "--format=chat", "--context=96", "--steps=40",
        "--batch=8", "--checkpoint-every=0", "--learning-rate=0.01",
    )  # fmt: skip
    assert ranks.wait() == [0, 0], ranks.errors()
    found = [line["loss"] for line in ranks.lines() if line["kind"] == "step"]
    assert len(found) == 40 and sum(found[-5:]) / 5 < found[0] / 2
