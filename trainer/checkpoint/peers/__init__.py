"""Copies of a node's part of a checkpoint in the memory of the next node: they outlive the node's disk.

A store is a process of its own beside each supervisor (`process`, `server`): it keeps the copies of the node
before (`store`, within `memory`), and sends this node's new checkpoints to the store of the next one
(`sender`). The training processes only say which checkpoint is complete, and fetch what their disk lacks
(`client`). All of them speak by `connection`.
"""
