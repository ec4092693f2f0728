"""The process groups of a rank of an elastic run, from one membership to the next."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from tests.trainer.ranks import _SERVER
from trainer.elastic.group import ElasticGroup
from trainer.elastic.link import MembershipNotice
from trainer.elastic.membership import Member, Membership
from trainer.elastic.store import Superseded
from trainer.network.addresses import free_port

LIMIT = 30.0
"""Seconds after which a waiting rank gives up."""


def told(epoch: int, node: int, port: int) -> MembershipNotice:
    members = tuple(Member(each, 1, each, "127.0.0.1", 1) for each in range(2))
    return MembershipNotice(Membership(epoch, members, port), node, "127.0.0.1", "lo")


def _join(node: int, ports: tuple[int, int], answer: str) -> None:
    """The leader of the first membership gets only as far as the names of torch's groups."""
    os.environ.update(LOCAL_RANK="0")
    group, device = ElasticGroup(), torch.device("cpu")
    if node == 0:
        try:
            group.join(told(1, node, ports[0]), device, LIMIT, lambda: True)
        except Superseded:
            Path(answer).write_text("superseded ")
        group.leave()
    group.join(told(2, node, ports[1]), device, LIMIT, lambda: False)
    with Path(answer).open("a") as file:
        file.write(str(group.all_gather(node)))
    group.leave()
    os._exit(0)


def test_a_rank_whose_groups_were_not_made_meets_the_others_in_the_next_ones(tmp_path: Path) -> None:
    ports = (free_port(), free_port())
    answers = [tmp_path / f"{node}" for node in range(2)]
    ranks = [
        _SERVER.Process(target=_join, args=(node, ports, str(answer))) for node, answer in enumerate(answers)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0, 0]
    assert [answer.read_text() for answer in answers] == ["superseded [0, 1]", "[0, 1]"]
