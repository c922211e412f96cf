"""Sessions as conversations in the format of LLaMA-Factory."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest, PaperNotFound, ReplayDiffers
from scholarbase.responses.text import as_text
from scholarbase.search.library import Library
from scholarbase.sessions.session import CallRecord, Limits, Session
from scholarbase.sessions.store import SessionStore
from scholarbase.tools import Tools
from scholarbase_research.conversations import conversations
from tests.conftest import run_cli, succeeded

QUESTION = "How is two-dimensional QCD related to string theory?"
SEED = "arXiv:hep-th/9301068"
SOON = 120.0


@pytest.fixture(scope="module")
def sample_and_store(
    sample: Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Library, SessionStore]]:
    """Session ``s``: eight calls, of which the third fails, and an answer."""
    with SessionStore(tmp_path_factory.mktemp("sessions")) as store:
        session = Session("s", query=QUESTION, as_of="2003-06", limits=Limits(calls=100))
        tools = Tools(sample, session=session, store=store)
        for place in range(1, 9):
            if place == 3:
                with pytest.raises(PaperNotFound):
                    tools.call("get_citations", {"paper_id": "arXiv:2001.00001"})
            else:
                tools.call("search_papers", {"q": QUESTION, "limit": 2, "offset": place})
        call = CallRecord("answer", "answer", {}, (SEED, "arXiv:hep-th/9303046"))
        store.record(session, [call]).result(SOON)
        Tools(sample, session="mute", store=store).call("search_papers", {"q": QUESTION})
        yield sample, store


def samples(library: Library, store: SessionStore, name: str = "s", **options: Any) -> list[dict[str, Any]]:
    return list(conversations(library, store.session(name).session, store.lines(name), **options))


@pytest.mark.parametrize("window", [1, 2, 5])
def test_the_window_limits_the_turns_before_the_target(
    sample_and_store: tuple[Library, SessionStore], window: int
) -> None:
    for one in samples(*sample_and_store, window=window):
        call = int(one["id"].split(":")[1])
        turns = (len(one["conversations"]) - 2) // 2
        assert turns == min(window, call - 1)


def test_messages_of_calls_and_responses(sample_and_store: tuple[Library, SessionStore]) -> None:
    library, store = sample_and_store
    by_call = {one["id"]: one["conversations"] for one in samples(library, store)}
    question, called, observed, failed, error, target = by_call["s:4"][:1] + by_call["s:4"][-5:]
    assert question == {"from": "human", "value": QUESTION}
    assert (called["weight"], target["weight"]) == (0, 1), "only the last turn is learned"
    call = {"name": "search_papers", "arguments": {"q": QUESTION, "limit": 2, "offset": 2}}
    assert json.loads(called["value"]) == call, "the agent did not send the session's date"
    request = {"q": QUESTION, "limit": 2, "offset": 2, "as_of": "2003-06"}
    content = Tools(library).call("search_papers", request)
    assert isinstance(content, dict)
    assert observed["value"] == as_text({**content, "budget": {"calls": 98}}, offset=2)
    assert json.loads(failed["value"])["arguments"] == {"paper_id": "arXiv:2001.00001"}
    assert error["from"] == "observation"
    assert error["value"] == json.loads(list(store.lines("s"))[2])["error"]
    assert json.loads(target["value"])["arguments"]["offset"] == 4
    assert by_call["s:9"][-1] == {"from": "gpt", "value": f"{SEED}\narXiv:hep-th/9303046", "weight": 1}


def test_sessions_that_cannot_be_exported(
    sample_and_store: tuple[Library, SessionStore], tmp_path: Path
) -> None:
    library, store = sample_and_store
    with pytest.raises(InvalidRequest, match="has no query"):
        samples(library, store, "mute")
    with pytest.raises(InvalidRequest, match="window is 0"):
        samples(library, store, window=0)
    lines = [json.loads(line) for line in store.lines("s")]
    lines[1]["ids"] = lines[1]["ids"][::-1]
    session = store.session("s").session
    with pytest.raises(ReplayDiffers, match=r"call 2 \(search_papers\): ids differ from place 1"):
        list(conversations(library, session, [json.dumps(line).encode() for line in lines]))


@pytest.mark.slow
def test_the_command_line_writes_one_object_per_line(
    sample_and_store: tuple[Library, SessionStore], sample_library: Path, tmp_path: Path
) -> None:
    library, store = sample_and_store
    output = tmp_path / "train.jsonl"
    where = ["--library", sample_library, "--sessions", Path(store.name).parent]
    succeeded("session", "export", "--all", "-o", output, *where)
    assert [json.loads(line) for line in output.read_text().splitlines()] == samples(library, store)
    printed = run_cli("session", "export", "s", "--window", "2", *where)
    assert [json.loads(line) for line in printed.stdout.splitlines()] == samples(library, store, window=2)
    for wrong in (["mute"], ["none"], [], ["s", "--all"]):
        refused = run_cli("session", "export", *wrong, "-o", tmp_path / "other.jsonl", *where)
        assert refused.returncode in (2, 29), refused.stderr
        assert "Traceback" not in refused.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["train.jsonl"]
