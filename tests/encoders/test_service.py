import base64
import json
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from scholarbase.encoders import Encoder, open_encoder
from scholarbase.encoders.http import HttpEncoder
from scholarbase.encoders.paired import PairedEncoder
from scholarbase.encoders.service import create_service, serve_encoder
from scholarbase.encoders.static import StaticEncoder
from scholarbase.errors import AddressError
from scholarbase.models.encoders import PACKAGED
from tests.encoders.servers import running
from tests.encoders.static_models import VECTORS, make_model


@pytest.fixture
def http(packaged_service: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=packaged_service.removesuffix("/v1"), trust_env=False) as client:
        yield client


def test_health_has_the_spec(http: httpx.Client, packaged: Encoder) -> None:
    response = http.get("/healthz")
    assert response.status_code == 200
    assert response.json() == {"status": "ok", "encoder": packaged.spec.to_dict()}


def test_openais_request_and_response(http: httpx.Client, packaged: Encoder) -> None:
    response = http.post(
        "/v1/embeddings", json={"input": ["one", "two"], "model": "arxiv-static-v1", "user": "someone"}
    ).json()
    assert (response["object"], response["model"]) == ("list", "arxiv-static-v1")
    assert [(item["object"], item["index"]) for item in response["data"]] == [
        ("embedding", 0),
        ("embedding", 1),
    ]
    vectors = np.array([item["embedding"] for item in response["data"]], dtype=np.float32)
    np.testing.assert_array_equal(vectors, packaged.encode_documents(["one", "two"]).dense)


def test_a_single_text_and_base64(http: httpx.Client, packaged: Encoder) -> None:
    response = http.post("/v1/embeddings", json={"input": "one", "encoding_format": "base64"}).json()
    packed = base64.b64decode(response["data"][0]["embedding"])
    np.testing.assert_array_equal(np.frombuffer(packed, "<f4"), packaged.encode_documents(["one"]).dense[0])


def test_unknown_or_invalid_fields_are_rejected(http: httpx.Client) -> None:
    bodies: list[tuple[dict[str, Any], str]] = [
        ({"input": ["x"], "truncate": True}, "truncate"),
        ({"input": []}, "input"),
        ({"input": [1, 2]}, "input"),
        ({"input": ["x"] * 2049}, "input"),
        ({}, "input"),
        ({"input": "x", "input_type": "passage"}, "input_type"),
        ({"input": "x", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "x", "model": "text-embedding-3-small"}, "text-embedding-3-small"),
        ({"input": "x", "dimensions": 300}, "dimensions is 300"),
    ]
    sent = [(json.dumps(body).encode(), named) for body, named in bodies]
    for content, named in (*sent, (b"{", "JSON")):
        response = http.post("/v1/embeddings", content=content, headers={"Content-Type": "application/json"})
        assert response.status_code == 400
        error = response.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert named in error["message"]


def test_queries_and_documents_are_encoded_by_their_own_models(tmp_path: Path) -> None:
    documents = StaticEncoder(make_model(tmp_path / "documents"))
    queries = StaticEncoder(make_model(tmp_path / "queries", {"embeddings": VECTORS[::-1].copy()}))
    with (
        running(create_service(PairedEncoder(documents, queries))) as url,
        closing(HttpEncoder(url)) as client,
    ):
        for ours, theirs in (
            (client.encode_documents, documents.encode_documents),
            (client.encode_queries, queries.encode_queries),
        ):
            np.testing.assert_array_equal(ours(["dark matter"]).dense, theirs(["dark matter"]).dense)


def test_a_failure_of_the_model_is_a_503() -> None:
    encoder = open_encoder(PACKAGED)
    with running(create_service(encoder)) as url:
        encoder.close()
        response = httpx.post(f"{url}/embeddings", json={"input": "x"}, trust_env=False)
    assert response.status_code == 503
    assert "is closed" in response.json()["error"]["message"]


def _wait_until_connected(path: Path, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with socket.socket(socket.AF_UNIX) as client, suppress(OSError):
            client.connect(str(path))
            return
        time.sleep(0.05)


def _serve(name: str, socket_path: Path) -> subprocess.Popen[bytes]:
    code = (
        "import sys; from scholarbase.encoders.service import serve_encoder; "
        "serve_encoder(sys.argv[1], uds=sys.argv[2])"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, name, str(socket_path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


# httpcore leaves the socket of a refused connection to the garbage collector.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_service_process_on_a_socket(packaged_service: str, packaged: Encoder, tmp_path: Path) -> None:
    """A service whose encoder is another service: all of serve_encoder, without loading a model again."""
    path = tmp_path / "encoder.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))  # left by a killed service
    process = _serve(packaged_service, path)
    try:
        _wait_until_connected(path, process)
        encoder = HttpEncoder(f"unix:{path}", retries=7, backoff=0.1)
        assert encoder.spec == packaged.spec
        np.testing.assert_allclose(
            encoder.encode_queries(["citations"]).dense,
            packaged.encode_queries(["citations"]).dense,
            atol=1e-7,
        )
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(AddressError, match="A service already listens on"):
            serve_encoder(packaged_service, uds=str(path))
        encoder.encode_queries(["still there"])
        encoder.close()
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=120)
    assert b"Traceback" not in output, output.decode()
    assert process.returncode == 0
    assert not path.exists()


def test_a_file_is_not_replaced_and_a_folder_not_created(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(AddressError, match="is not a socket and is not replaced"):
        serve_encoder("http://127.0.0.1:9/v1", uds=str(path))
    assert path.read_text() == "mine"
    with pytest.raises(AddressError, match="in a folder that exists"):
        serve_encoder("http://127.0.0.1:9/v1", uds=str(tmp_path / "no" / "encoder.sock"))


def test_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressError, match=rf"Port {port} on 127\.0\.0\.1 is in use"):
            serve_encoder("http://127.0.0.1:9/v1", port=port)
