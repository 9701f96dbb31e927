"""The KV cache of the synthetic engine, in blocks: who holds how many, and which full blocks a later prompt may share.

Pure bookkeeping, no time and no I/O. A block is free, held, or *cached*: full, known by the key of the token prefix that
it completes, and held by nobody. Cached blocks count as free and are given away oldest first, as vLLM's block pool does.
"""

from __future__ import annotations

from collections.abc import Sequence


def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that hold ``tokens`` tokens: the ceiling of ``tokens / block_size``."""
    return -(-tokens // block_size)


def extend_chain(chain: list[int], tokens: Sequence[int], block_size: int) -> None:
    """Grow ``chain`` to one key per full block of ``tokens``; equal keys mean equal prefixes, not merely equal blocks."""
    parent = chain[-1] if chain else 0
    for start in range(len(chain) * block_size, len(tokens) // block_size * block_size, block_size):
        # The hash of a tuple of integers is the same in every process: only text is salted.
        parent = hash((parent, *tokens[start : start + block_size]))
        chain.append(parent)


class Lease:
    """The blocks that one request holds."""

    __slots__ = ("keys", "private")

    def __init__(self) -> None:
        self.keys: list[int] = []
        """Full blocks that others may share, in the order of the sequence."""
        self.private = 0
        """Blocks that only this request knows."""

    @property
    def blocks(self) -> int:
        """All blocks held; a shared one counts for each of its holders."""
        return len(self.keys) + self.private


class BlockPool:
    """``total`` blocks, given out by lease."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._blank = total
        self._holders: dict[int, int] = {}
        self._cached: dict[int, None] = {}  # a dict keeps insertion order: the first is the least recently released

    @property
    def free(self) -> int:
        """Blocks that a request can still be given."""
        return self._blank + len(self._cached)

    @property
    def usage(self) -> float:
        """Held blocks as a share of all, 0 to 1; a shared block counts once."""
        return (self.total - self.free) / self.total

    def cached_prefix(self, chain: Sequence[int]) -> int:
        """How many leading blocks of ``chain`` are in the pool, held or cached."""
        for count, key in enumerate(chain):
            if key not in self._holders and key not in self._cached:
                return count
        return len(chain)

    def acquire(self, lease: Lease, shared: Sequence[int], fresh: int) -> bool:
        """Give the blocks named by ``shared`` (all in the pool) and ``fresh`` new ones; all of them or none."""
        if fresh > self.free - sum(key in self._cached for key in shared):
            return False
        for key in shared:
            self._cached.pop(key, None)
            self._holders[key] = self._holders.get(key, 0) + 1
        lease.keys.extend(shared)
        for _ in range(fresh):
            self._take_one()
        lease.private += fresh
        return True

    def publish(self, lease: Lease, key: int) -> None:
        """A private block of the lease is full and may be shared under ``key``.

        A block that is in the pool already stays private here: the twin keeps its memory, as in vLLM.
        """
        if key not in self._holders and key not in self._cached:
            self._holders[key] = 1
            lease.keys.append(key)
            lease.private -= 1

    def release(self, lease: Lease) -> None:
        """Take every block back. What can be shared stays cached; the tail of a sequence is forgotten before its head."""
        for key in reversed(lease.keys):
            if self._holders[key] == 1:
                del self._holders[key]
                self._cached[key] = None
            else:
                self._holders[key] -= 1
        self._blank += lease.private
        lease.keys.clear()
        lease.private = 0

    def forget_cached(self) -> None:
        """Blocks that nobody holds are no longer known by what is in them."""
        self._blank += len(self._cached)
        self._cached.clear()

    def _take_one(self) -> None:
        if self._blank:
            self._blank -= 1
        else:
            del self._cached[next(iter(self._cached))]
