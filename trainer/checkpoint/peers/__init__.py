"""Copies of a node's part of a checkpoint in the next node's memory, for recovery after a disk loss.

A store is a separate process beside each supervisor (`process`, `server`). The store holds the copies of the
previous node (`store`, within the limit of `memory`), and sends this node's new checkpoints to the store of
the next node (`sender`). The training processes only announce a complete checkpoint, and fetch the
checkpoints that their disk lacks (`client`). All of them communicate through `connection`.
"""
