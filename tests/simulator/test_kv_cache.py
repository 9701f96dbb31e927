"""Blocks: given, shared, kept for the next prompt, and given away oldest first."""

from __future__ import annotations

from llm_locust.simulator.kv_cache import BlockPool, Lease, blocks_for, extend_chain


def chain_of(*tokens: int) -> list[int]:
    chain: list[int] = []
    extend_chain(chain, tokens, 2)
    return chain


def filled(pool: BlockPool, chain: list[int]) -> Lease:
    lease = Lease()
    assert pool.acquire(lease, (), len(chain))
    for key in chain:
        pool.publish(lease, key)
    return lease


def test_blocks_are_counted_up() -> None:
    assert [blocks_for(tokens, 16) for tokens in (1, 16, 17)] == [1, 1, 2]


def test_keys_name_prefixes_not_blocks() -> None:
    assert chain_of(1, 2, 3, 4, 5) == chain_of(1, 2, 3, 4)
    assert len(chain_of(1, 2, 3, 4)) == 2
    assert chain_of(9, 9, 3, 4)[1] != chain_of(1, 2, 3, 4)[1]


def test_a_chain_grows_where_it_ended() -> None:
    chain = chain_of(1, 2)
    extend_chain(chain, [1, 2, 3, 4], 2)
    assert chain == chain_of(1, 2, 3, 4)


def test_all_or_nothing() -> None:
    pool, lease = BlockPool(2), Lease()
    assert not pool.acquire(lease, (), 3)
    assert (pool.free, lease.blocks) == (2, 0)
    assert pool.acquire(lease, (), 2)
    assert pool.usage == 1.0


def test_released_full_blocks_are_free_and_known() -> None:
    pool, chain = BlockPool(4), chain_of(1, 2, 3, 4)
    pool.release(filled(pool, chain))
    assert pool.usage == 0
    assert pool.cached_prefix(chain) == 2
    again = Lease()
    assert pool.acquire(again, chain, 2)
    assert (again.blocks, pool.free) == (4, 0)


def test_a_cached_block_that_is_to_be_shared_cannot_be_given_away_as_well() -> None:
    pool, chain = BlockPool(2), chain_of(1, 2, 3, 4)
    pool.release(filled(pool, chain))
    assert not pool.acquire(Lease(), chain, 1)
    assert pool.cached_prefix(chain) == 2


def test_the_oldest_is_forgotten_first_and_of_one_sequence_its_tail() -> None:
    pool, old, new = BlockPool(4), chain_of(1, 2, 3, 4), chain_of(5, 6, 7, 8)
    first, second = filled(pool, old), filled(pool, new)
    pool.release(first)
    pool.release(second)
    assert pool.acquire(Lease(), (), 1)
    assert (pool.cached_prefix(old), pool.cached_prefix(new)) == (1, 2)


def test_a_shared_block_is_free_when_its_last_holder_lets_go() -> None:
    pool, chain = BlockPool(3), chain_of(1, 2)
    first, second = filled(pool, chain), Lease()
    assert pool.acquire(second, chain, 0)
    pool.release(first)
    assert pool.free == 2
    pool.release(second)
    assert pool.free == 3


def test_a_twin_of_a_known_block_keeps_its_own_memory() -> None:
    pool, chain = BlockPool(3), chain_of(1, 2)
    first, twin = filled(pool, chain), filled(pool, chain)
    assert (twin.keys, twin.private, pool.free) == ([], 1, 1)
    pool.release(twin)
    pool.release(first)
    assert pool.free == 3
