"""Cassettes: recorded once, replayed offline; what they lack is an error."""

from pathlib import Path

import orjson
import pytest

from scholarbase.errors import CassetteMiss, ModelError, QueryFileError
from scholarbase_research.llm.base import Message, ModelRequest
from scholarbase_research.llm.cassette import Cassette
from scholarbase_research.llm.http import open_model
from tests.extensions.research.llm.model_server import Reply, in_order, model_server

ONE = ModelRequest((Message("user", "one"),))
TWO = ModelRequest((Message("user", "two"),))


def recorded(path: Path) -> str:
    with model_server(in_order(Reply("first"), Reply("second"))) as server:
        with Cassette(path, record=True) as cassette:
            model = open_model(server.url, cassette=cassette)
            assert [model.complete(one).text for one in (ONE, TWO, ONE)] == ["first", "second", "first"]
            model.close()
        assert len(server.requests) == 2
        return server.url


def test_a_recorded_model_repeats_offline(tmp_path: Path) -> None:
    url = recorded(tmp_path / "tape.jsonl")
    with Cassette(tmp_path / "tape.jsonl") as cassette:
        model = open_model(url, cassette=cassette)  # nothing listens there any more
        assert [model.complete(one).text for one in (TWO, ONE)] == ["second", "first"]
        assert model.complete(ONE).usage.input_tokens == 100
        # Replies do not depend on the address, but on the model.
        assert open_model("http://elsewhere/v1#scripted", cassette=cassette).complete(ONE).text == "first"
        with pytest.raises(CassetteMiss, match="no reply of other"):
            open_model("http://elsewhere/v1#other", cassette=cassette).complete(ONE)
        with pytest.raises(CassetteMiss, match=r"has no reply of scripted .*'three'"):
            model.complete(ModelRequest((Message("user", "three"),)))


def test_a_cassette_that_a_killed_process_left_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    recorded(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with model_server(in_order(Reply("second"))) as server, Cassette(path, record=True) as cassette:
        model = open_model(server.url, cassette=cassette)
        assert [model.complete(one).text for one in (ONE, TWO)] == ["first", "second"]
        assert len(server.requests) == 1
        model.close()
    assert path.read_bytes() == whole


def test_a_changed_or_missing_cassette_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    recorded(path)
    path.write_bytes(path.read_bytes().replace(b'"two"', b'"too"'))
    with pytest.raises(ModelError, match="line 2 has another key"):
        Cassette(path)
    path.write_bytes(orjson.dumps({"key": "x"}) + b"\n")
    with pytest.raises(ModelError, match="line 1 is not a recorded reply"):
        Cassette(path)
    with pytest.raises(QueryFileError, match="cannot be read"):
        Cassette(tmp_path / "missing.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 5, 14, 40])
def test_a_cassette_whose_first_line_was_cut_is_continued(tmp_path: Path, size: int) -> None:
    recorded(tmp_path / "tape.jsonl")
    path = tmp_path / "cut.jsonl"
    path.write_bytes((tmp_path / "tape.jsonl").read_bytes()[:size])
    recorded(path)
    assert path.read_bytes() == (tmp_path / "tape.jsonl").read_bytes()
