"""Capacities: units that are lent in turn, fairly among callers, and for how long."""

import asyncio
import re
import time

import pytest

from scholarbase.api.admission import Capacity
from scholarbase.errors import Busy
from tests.api.test_admission import SECONDS


async def test_a_unit_that_became_free_before_the_wait_began_stopped_all_requests() -> None:
    """With 45 clients at once, all requests waited for ever: nobody was left to release a unit."""
    units = Capacity(1, 10, "units")
    assert units.take(1)
    assert not units.take(1)
    waiting = asyncio.create_task(units.wait(1))
    units.release(1)  # before the task has begun
    await asyncio.wait_for(waiting, SECONDS)
    units.release(1)
    assert units.take(1)


async def test_a_turn_cancelled_before_it_was_lent_raised_a_value_error() -> None:
    units = Capacity(1, 10, "units")
    assert units.take(1)
    waiting = asyncio.create_task(units.wait(1))
    await asyncio.sleep(0)
    waiting.cancel()
    units.release(1)  # finds the cancelled turn first
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert units.take(1)


async def test_a_request_waited_for_room_without_end() -> None:
    units = Capacity(2, 10, "room")
    assert units.take(1)
    with pytest.raises(
        Busy, match=r"The request waited for room of this server for 0\.0[01]\d* seconds: retry later"
    ):
        await units.wait(2, time.monotonic() + 0.01)
    assert units.take(1)  # nobody waits any more


async def test_units_are_lent_in_the_order_of_arrival() -> None:
    units = Capacity(3, 10, "units")
    order: list[str] = []

    async def borrow(name: str, count: int) -> None:
        if not units.take(count):
            await units.wait(count)
        order.append(name)

    assert units.take(2)
    tasks = [asyncio.create_task(borrow(*one)) for one in (("large", 3), ("small", 1), ("last", 1))]
    await asyncio.sleep(0)
    assert order == []  # the small one does not pass the large one
    units.release(2)
    await tasks[0]
    assert order == ["large"]
    units.release(3)
    await asyncio.gather(*tasks)
    assert order == ["large", "small", "last"]


async def test_quick_work_waits_for_one_long_request_not_for_all() -> None:
    """A search of some milliseconds waited behind 45 long ones, for 5.9 s."""
    units = Capacity(1, 10, "units")
    order: list[str] = []

    async def borrow(name: str, quick: bool) -> None:
        await units.wait(1, None, (None, quick))
        order.append(name)
        units.release(1, (None, quick))

    assert units.take(1)
    names = ["long 1", "long 2", "long 3", "quick 1", "quick 2"]
    tasks = [asyncio.create_task(borrow(name, name.startswith("quick"))) for name in names]
    await asyncio.sleep(0)
    units.release(1)
    await asyncio.gather(*tasks)
    # The two queues take turns, so that none keeps the other from being served.
    assert order == ["long 1", "quick 1", "long 2", "quick 2", "long 3"]


async def test_a_client_waits_for_one_request_of_another_not_for_all() -> None:
    """One client that sent 1,200 searches at once let another wait for all of them."""
    units = Capacity(1, 10, "units")
    order: list[str] = []

    async def borrow(name: str) -> None:
        await units.wait(1, None, (name[0], True))
        order.append(name)
        units.release(1)

    assert units.take(1)
    tasks = [asyncio.create_task(borrow(name)) for name in ("a1", "a2", "a3", "b1", "c1", "b2")]
    await asyncio.sleep(0)
    units.release(1)
    await asyncio.gather(*tasks)
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_a_full_queue_has_room_for_a_client_with_few_requests() -> None:
    """One client that sent 5,000 searches at once had those of all others refused."""
    units = Capacity(1, 4, "units")
    assert units.take(1)

    def send(client: str, *, quick: bool = True) -> asyncio.Task[None]:
        return asyncio.create_task(units.wait(1, None, (client, quick)))

    many = [send("many", quick=place > 0) for place in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="4 requests wait for units of this server"):
        await units.wait(1, None, ("many", True))
    few = send("few")
    with pytest.raises(Busy, match="4 requests wait"):  # the last of the client with the most
        await many.pop()
    second = send("few")
    with pytest.raises(Busy, match="4 requests wait"):
        await many.pop()
    third = send("few")
    with pytest.raises(Busy, match="4 requests wait"):  # which would have more than the other
        await third
    for caller in ((None, True), ("many", False), ("many", True), ("few", True)):
        units.release(1, caller)
    await asyncio.gather(few, second, *many)


def test_one_caller_had_every_thread_for_five_seconds() -> None:
    """A caller with ten long requests let the quick ones of another wait for 4.6 s, and the long ones too."""
    units = Capacity(8, 10, "threads", share=4, reserved=2)
    many, other, third = ((name, False) for name in ("many", "other", "third"))
    assert [units.take(1, many) for _ in range(5)] == [True] * 4 + [False]
    assert [units.take(1, other) for _ in range(3)] == [True, True, False]
    assert [units.take(1, third) for _ in range(2)] == [True, False]  # its first
    assert [units.take(1, ("many", True)) for _ in range(2)] == [True, False]  # quick work has the rest
    units.release(1, ("many", True))
    assert not units.take(1, third)
    units.release(1, many)
    assert not units.take(1, third)
    assert units.take(1, ("third", True))


async def test_requests_of_a_caller_with_its_share_do_not_hold_up_those_of_others() -> None:
    units = Capacity(4, 10, "threads", share=2, reserved=1)
    many, other = ("many", False), ("other", False)
    waiting = [asyncio.create_task(units.wait(1, None, many)) for _ in range(4)]
    await asyncio.sleep(0)
    await asyncio.wait_for(units.wait(1, None, other), SECONDS)
    await asyncio.wait_for(units.wait(1, None, ("many", True)), SECONDS)
    assert [task.done() for task in waiting] == [True, True, False, False]
    units.release(1, many)
    await waiting[2]
    waiting[3].cancel()


async def test_a_queue_longer_than_the_deadline_refuses_at_once_and_says_when_it_is_not() -> None:
    """Requests waited for 20 s and were then stopped at the limit of 5 s."""
    units = Capacity(2, 100, "a thread")
    for _ in range(100):  # each has a unit for 3 s
        assert units.take(1)
        units.release(1, seconds=3.0)
    assert units.take(2)
    waiting = [asyncio.create_task(units.wait(1, time.monotonic() + SECONDS)) for _ in range(5)]
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="5 requests wait for a thread of this server: retry in 9 sec") as full:
        await units.wait(1, time.monotonic() + 8)  # six requests of 3 s, two at once
    assert full.value.retry_after == 9
    assert units.waiting == 5
    later = asyncio.create_task(units.wait(1, time.monotonic() + SECONDS))
    for task in (*waiting, later):
        task.cancel()


async def test_a_request_got_its_turn_too_late_for_its_work() -> None:
    """Of 5,000 searches at once, the last that were let in ended with 504."""
    units = Capacity(1, 10, "room")
    units.release(0, seconds=80.0)
    assert units.take(1)
    with pytest.raises(Busy) as caught:
        await units.wait(1, time.monotonic() + 0.2)
    match = re.search(r"for ([0-9.]+) seconds", str(caught.value))
    assert match is not None
    assert float(match[1]) <= 0.1  # half of its time


def test_quick_work_has_no_more_than_its_part() -> None:
    units = Capacity(8, 10, "a thread", quick=2)
    assert [units.take(1, ("a", True)) for _ in range(3)] == [True, True, False]
    assert units.take(1, ("a", False))
    units.release(1, ("b", True))
    assert units.take(1, ("b", True))
