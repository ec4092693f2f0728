"""What a node keeps of the memberships that it gets."""

from __future__ import annotations

from trainer.elastic.context import NewMembership, NodeContext
from trainer.elastic.leader import ElasticRules
from trainer.elastic.membership import Member, Membership
from trainer.placement.sources import find_topology


def test_each_membership_has_a_store_of_its_own() -> None:
    """The last store may still be open: no rank of the next membership may connect to it."""
    context = NodeContext(find_topology({}), ElasticRules(1, 1), 10.0)
    ports = []
    for epoch in range(1, 4):
        context.enter(Membership(epoch, (Member(0, 1, 7, "127.0.0.1", 1),), 5), 0, "", "")
        ports.append(context.state.store_port)
    assert len(set(ports)) == 3
    assert [event.membership.epoch for event in context.events if isinstance(event, NewMembership)] == [
        1,
        2,
        3,
    ]
