"""A 64-bit hash of a tensor, computed on the tensor's device.

The hash is a sum modulo 2^64 over all 64-bit words, each mixed with odd numbers of its index: a single
flipped bit always changes the hash, and other differences are missed about once in 2^60 cases. The hash does
not protect against attackers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

_BLOCK = 1 << 18
"""Number of words that are summed at once: 2 MiB, which fit into a processor's cache."""
_NEXT_BLOCK = 0x5851F42D4C957F2D
_LANES = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_factors: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}


@torch.no_grad()
def hashes(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the hash of the bits and the length of each tensor, int64 [len(tensors)] on their device."""
    if not tensors:
        return torch.zeros(0, dtype=torch.int64)
    return torch.stack([_hash(tensor) for tensor in tensors])


def combined(values: torch.Tensor) -> torch.Tensor:
    """Combine several hashes into one, a scalar."""
    return _sum(values)


def _hash(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().contiguous().view(-1)
    if flat.is_complex() or flat.dtype.itemsize not in _LANES:
        flat = torch.view_as_real(flat).reshape(-1)
    lanes = flat.view(_LANES[flat.dtype.itemsize])
    per_word = 8 // lanes.dtype.itemsize
    whole = len(lanes) // per_word * per_word
    body = lanes[:whole]
    if lanes.storage_offset() % per_word:
        # This part of another tensor does not start at a word boundary.
        body = body.clone()
    words = body.view(torch.int64)
    total = torch.zeros((), dtype=torch.int64, device=lanes.device)
    for start in range(0, len(words), _BLOCK):
        total = total * _NEXT_BLOCK + _sum(words[start : start + _BLOCK])
    return total * _NEXT_BLOCK + _sum(lanes[whole:].to(torch.int64)) + len(lanes)


def _sum(words: torch.Tensor) -> torch.Tensor:
    """Return the sum of at most one block of words."""
    first, second = _factors_on(words.device)
    mixed = words * first[: len(words)]
    # Mix the high bits into all others: otherwise two flipped signs would cancel out.
    mixed ^= mixed >> 32
    mixed *= second[: len(words)]
    return mixed.sum()


def _factors_on(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two odd pseudorandom numbers for each word of a block, the same on every rank."""
    factors = _factors.get(device)
    if factors is None:
        mixed = torch.arange(1, _BLOCK + 1, dtype=torch.int64, device=device) * -0x61C8864680B583EB
        for factor in (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15):
            # The finaliser of splitmix64; its shifts are arithmetic here, which mixes as well.
            mixed = (mixed ^ (mixed >> 30)) * factor
        odd = (mixed ^ (mixed >> 31)) | 1
        factors = _factors[device] = (odd, odd.flip(0))
    return factors
