import re

import pytest
from pydantic import SecretStr

from scholarbase.errors import InvalidRequest
from scholarbase.settings import PREFIX, load_settings, state_folder
from tests.conftest import run_cli


def test_an_unknown_variable_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHOLARBASE_LIBARY", "/somewhere")
    with pytest.raises(InvalidRequest, match="SCHOLARBASE_LIBARY"):
        load_settings()
    done = run_cli("info", SCHOLARBASE_LIBARY="/somewhere")
    assert done.returncode == 2
    assert "SCHOLARBASE_LIBARY" in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "http"),
        ("PORT", "70000"),
        ("WORKERS", "0"),
        ("FUSION_DEPTH", "9"),
        ("FUSION_WEIGHTS", "dense"),
        ("FUSION_WEIGHTS", "dense=much"),
        ("FUSION_WEIGHTS", "dense=-1"),
        ("FUSION_WEIGHTS", "dense=inf"),
        ("FUSION_WEIGHTS", "dense=1,dense=2"),
        ("FUSION_WEIGHTS", "bm52=1"),
        ("RERANKERS", "minilm"),
        ("RERANKERS", "a=/one,a=/two"),
        ("RERANKERS", "a=/one,"),
        ("RERANKERS", "a="),
        ("RERANKERS", "=/one"),
        ("RERANKERS", "two words=/one"),
        ("RERANKERS", f"{'a' * 65}=/one"),
        ("RERANKERS", ",".join(f"r{number}=/one" for number in range(9))),
        ("FTS5_TITLE_WEIGHT", "-1"),
        ("FTS5_TITLE_WEIGHT", "inf"),
        ("LOG_LEVEL", "loud"),
        ("KEEP", "all"),
        ("RATE_LIMIT", "0"),
        ("RATE_LIMIT", ""),
        ("MAX_BODY_BYTES", "1000"),
        ("HOSTS", "http://example.org"),
        ("HOSTS", "example.org:8000"),
        ("MAX_CONNECTIONS", "0"),
        ("PROGRESS_SECONDS", "inf"),
        ("CORS_ORIGINS", "example.org"),
        ("CORS_ORIGINS", "https://example.org/page"),
        ("CORS_ORIGINS", "https://*.example.org"),
        ("CORS_ORIGINS", "https://a.org,,https://b.org"),
    ],
)
def test_an_invalid_value_is_rejected(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(PREFIX + name, value)
    with pytest.raises(InvalidRequest, match=re.escape(f"{PREFIX}{name} is '{value}'")):
        load_settings()


def test_fusion_weights_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().fusion_weights is None
    monkeypatch.setenv("SCHOLARBASE_FUSION_WEIGHTS", " dense = 1.5, bm25=1 ")
    assert load_settings().fusion_weights == {"dense": 1.5, "bm25": 1.0}
    monkeypatch.setenv("SCHOLARBASE_FUSION_WEIGHTS", "")
    assert load_settings().fusion_weights is None


def test_rerankers_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().rerankers is None
    text = " minilm = /path/to/model, service=http://localhost:8080/x?a=b#m,colbert=BAAI/bge-m3"
    monkeypatch.setenv("SCHOLARBASE_RERANKERS", text)
    assert load_settings().rerankers == {
        "minilm": "/path/to/model",
        "service": "http://localhost:8080/x?a=b#m",
        "colbert": "BAAI/bge-m3",
    }
    monkeypatch.setenv("SCHOLARBASE_RERANKERS", "")
    assert load_settings().rerankers is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("minilm", "'minilm' is not a reranker: use names and models, such as minilm=/path/to/cross-encoder."),
        ("a=/one,a=/two", "the reranker 'a' has two models: give each a name of its own."),
        ("a b=/one", "'a b' is not a reranker's name: use up to 64 letters, digits, dots, hyphens and underscores."),
        ("a=", "the reranker 'a' has no model: give a folder, a hub name or a URL."),
        (",".join(f"r{n}=/x" for n in range(9)), "it has 9 rerankers, and the maximum is 8: leave some out."),
    ],
)  # fmt: skip
def test_wrong_rerankers_are_named(monkeypatch: pytest.MonkeyPatch, text: str, sentence: str) -> None:
    monkeypatch.setenv("SCHOLARBASE_RERANKERS", text)
    with pytest.raises(InvalidRequest) as caught:
        load_settings()
    assert str(caught.value) == f"SCHOLARBASE_RERANKERS is {text!r}: {sentence}"


def test_origins_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().cors_origins is None
    monkeypatch.setenv("SCHOLARBASE_CORS_ORIGINS", "https://a.org, http://localhost:3000,*")
    assert load_settings().cors_origins == ("https://a.org", "http://localhost:3000", "*")
    monkeypatch.setenv("SCHOLARBASE_CORS_ORIGINS", " ")
    assert load_settings().cors_origins is None


def test_an_unknown_leg_is_rejected_with_the_valid_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHOLARBASE_FUSION_WEIGHTS", "{bm52}=1")
    with pytest.raises(InvalidRequest) as error:
        load_settings()
    assert str(error.value) == (
        "SCHOLARBASE_FUSION_WEIGHTS is '{bm52}=1': '{bm52}' is not a leg of a hybrid search: the legs are bm25, "
        "feedback, fts5, learned, dense."
    )


def test_arguments_take_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHOLARBASE_PORT", "9000")
    assert load_settings().port == 9000
    assert load_settings(port=9001).port == 9001
    assert load_settings(port=None).port == 9000


def test_keys_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHOLARBASE_ENCODER_API_KEY", "a-secret")
    monkeypatch.setenv("SCHOLARBASE_API_KEY", "sb_a-third")
    settings = load_settings(qdrant_api_key=SecretStr("another"))
    assert "a-third" not in repr(settings)
    assert "a-secret" not in repr(settings)
    assert "another" not in repr(settings)


def test_a_fusion_without_weights_is_rejected() -> None:
    """With both weights 0 a hybrid search returned the papers of both legs in the order of their ids."""
    with pytest.raises(InvalidRequest, match="bm25 and dense both have the weight 0"):
        load_settings(fusion_weights="dense=0,bm25=0")
    with pytest.raises(InvalidRequest, match="fts5 and dense both have the weight 0"):
        load_settings(fusion_weights="bm25=1,fts5=0,dense=0")
    for text in ("dense=0", "bm25=0,fts5=0,learned=0", "dense=0,bm25=0.1"):
        assert load_settings(fusion_weights=text).fusion_weights


def test_a_k_too_large_for_a_float_is_rejected() -> None:
    """A search then failed with an OverflowError, a 500."""
    with pytest.raises(InvalidRequest, match="SCHOLARBASE_RRF_K"):
        load_settings(rrf_k=10**400)


def test_a_password_and_a_long_value_were_in_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value, expected in (
        ("QDRANT_URL", "http://me:a-secret@host", "is 'http://***@host': 'host' has a user name or password"),
        ("PORT", "9" * 5000, f"is '{'9' * 199}...: "),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(PREFIX + name, value)
            with pytest.raises(InvalidRequest) as error:
                load_settings()
        assert expected in str(error.value)
        assert "a-secret" not in str(error.value)


def test_an_empty_path_was_the_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LIBRARY", "SESSIONS"):
        monkeypatch.setenv(PREFIX + name, "")
    assert load_settings().library is None
    assert load_settings().sessions_location == state_folder()
    assert load_settings(sessions=" ").sessions is None
