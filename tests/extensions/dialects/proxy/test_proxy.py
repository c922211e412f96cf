"""The proxy between real clients and a real server. Other hosts are servers of the test with their own certificates."""

import asyncio
import json
import os
import signal
import socket
import ssl
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scholarbase_dialects.proxy.authority import Authority
from scholarbase_dialects.proxy.destinations import HOSTS
from scholarbase_dialects.proxy.serving import Backend, Proxy
from tests.conftest import run_cli, run_process, succeeded
from tests.forks import CLI, COMMANDS, Fork, fork
from tests.sessions.agents import wait_recorded, wait_until

SERPER: Final = "https://google.serper.dev/search"
TITLE: Final = "Two Dimensional QCD is a String Theory"
SCRIPT: Final = """
import json, urllib.request
import httpx, requests

url, body = "https://google.serper.dev/search", {"q": "Two Dimensional QCD is a String Theory", "num": 3}
request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
found = [
    requests.post(url, json=body, headers={"X-API-KEY": "mine"}, timeout=120).json(),
    httpx.post(url, json=body, timeout=120).json(),
    json.load(urllib.request.urlopen(request, timeout=120)),
    requests.post(url.replace("https", "http"), json=body, timeout=120).json(),
]
print(json.dumps([[one["title"] for one in answer["organic"]] for answer in found]))
raise SystemExit(7)
"""
"""A program that knows nothing of the proxy."""


@contextmanager
def proxying(proxy: Proxy) -> Iterator[str]:
    """The URL of a proxy in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(proxy.start(0), loop).result(60)
    try:
        yield proxy.url
    finally:
        asyncio.run_coroutine_threadsafe(proxy.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), HOSTS, {})


@pytest.fixture(scope="module")
def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.bundle))


@pytest.fixture(scope="module")
def proxy(authority: Authority, server: str) -> Iterator[str]:
    with proxying(Proxy(authority, Backend(server), {})) as url:
        yield url


def client(proxy: str, trusting: ssl.SSLContext) -> httpx.Client:
    return httpx.Client(proxy=proxy, verify=trusting, trust_env=False, timeout=120)


def own_certificate(folder: Path, name: str) -> Path:
    """A file with a key and a self-signed certificate for a host."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


class Website(BaseHTTPRequestHandler):
    """Answers with what it was sent. Of a proxy too: it connects every tunnel to ``tunnels_to``."""

    protocol_version = "HTTP/1.1"
    tunnels_to: tuple[str, int] | None = None
    tunnelled: list[str]

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        seen = {"path": self.path, "headers": dict(self.headers.items()), "body": body.decode()}
        content = json.dumps(seen).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def do_CONNECT(self) -> None:
        self.tunnelled.append(f"{self.path} {self.headers.get('Proxy-Authorization')}")
        assert self.tunnels_to is not None
        with socket.create_connection(self.tunnels_to) as upstream:
            self.send_response(200)
            self.end_headers()

            def forward(source: socket.socket, target: socket.socket) -> None:
                while data := source.recv(65536):
                    target.sendall(data)
                with suppress(OSError):
                    target.shutdown(socket.SHUT_WR)

            thread = threading.Thread(target=forward, args=(upstream, self.connection))
            thread.start()
            forward(self.connection, upstream)
            thread.join()
        self.close_connection = True

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def website(certificate: Path | None = None, tunnels_to: tuple[str, int] | None = None) -> Iterator[Any]:
    handler = type("Site", (Website,), {"tunnels_to": tunnels_to, "tunnelled": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as site:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            site.socket = context.wrap_socket(site.socket, server_side=True)
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        try:
            yield site
        finally:
            site.shutdown()
            thread.join()


def tunnel(proxy: str, target: str) -> tuple[socket.socket, bytes]:
    """A connection to the proxy after ``CONNECT``, and the head of the response."""
    address = httpx.URL(proxy)
    connection = socket.create_connection((address.host, address.port or 0), timeout=60)
    connection.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head and (data := connection.recv(1)):
        head += data
    return connection, head


# -- answers of the library -----------------------------------------------------------------------------


def test_one_connection_has_many_requests(proxy: str, trusting: ssl.SSLContext) -> None:
    def pieces() -> Iterator[bytes]:
        text = json.dumps({"q": TITLE, "num": 1})
        yield from (text[:10].encode(), text[10:].encode())

    with client(proxy, trusting) as http:
        first = http.post(SERPER, json={"q": TITLE, "num": 100})  # compressed
        chunked = http.post(SERPER, content=pieces(), headers={"Content-Type": "application/json"})
        waiting = http.post(SERPER, json={"q": TITLE, "num": 1}, headers={"Expect": "100-continue"})
        streams = [one.extensions["network_stream"] for one in (first, chunked, waiting)]
        assert first.headers["Content-Encoding"] == "gzip"
        assert len({one.get_extra_info("client_addr") for one in streams}) == 1
    assert len(first.json()["organic"]) == 100
    assert chunked.json() == waiting.json()
    assert chunked.json()["organic"][0]["title"] == TITLE


def test_everything_that_passes_is_in_the_session(
    authority: Authority, trusting: ssl.SSLContext, server: str
) -> None:
    headers = {"X-ScholarBase-Session": "through-proxy", "X-ScholarBase-As-Of": "1993-06"}
    with proxying(Proxy(authority, Backend(server, headers), {})) as url, client(url, trusting) as http:
        later = {"X-ScholarBase-As-Of": "2020-01", "X-ScholarBase-Session": "another"}
        found = http.post(SERPER, json={"q": "string theory", "num": 50}, headers=later)
        assert len(found.json()["organic"]) == 50
    papers = httpx.post(
        f"{server}/v1/papers/batch", json={"ids": [one["link"] for one in found.json()["organic"]]}
    ).json()["results"]
    assert max(paper["publication_date"] for paper in papers) < "1993-07"
    wait_recorded(server, "through-proxy")
    [line] = httpx.get(f"{server}/v1/sessions/through-proxy").text.splitlines()
    assert json.loads(line)["ids"] == [paper["id"] for paper in papers]
    assert httpx.get(f"{server}/v1/sessions/another").status_code == 404


@pytest.mark.slow
def test_keys_of_the_original_are_not_passed_on(authority: Authority, trusting: ssl.SSLContext) -> None:
    """The server that answers may be another machine."""
    with (
        website() as site,
        proxying(
            Proxy(
                authority, Backend(f"http://127.0.0.1:{site.server_port}/below", {"Authorization": "own"}), {}
            )
        ) as url,
        client(url, trusting) as http,
    ):
        headers = {"X-API-KEY": "secret", "Authorization": "Bearer secret", "Proxy-Authorization": "secret"}
        seen = http.post(f"{SERPER}?a=b", content=b"text", headers=headers | {"X-Other": "kept"}).json()
    assert "secret" not in json.dumps(seen)
    assert (seen["path"], seen["body"]) == ("/below/serper/search?a=b", "text")
    assert seen["headers"]["Authorization"] == "own"
    assert seen["headers"]["X-Other"] == "kept"
    assert seen["headers"]["Host"] == f"127.0.0.1:{site.server_port}"


def test_a_server_that_is_gone_is_a_502(authority: Authority, trusting: ssl.SSLContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        proxying(Proxy(authority, Backend(f"http://127.0.0.1:{port}"), {})) as url,
        client(url, trusting) as http,
    ):
        failed = http.post(SERPER, json={"q": TITLE})
    assert failed.status_code == 502
    assert f"The ScholarBase server at 127.0.0.1:{port} cannot be reached" in failed.text


# -- other hosts ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_another_host_is_tunnelled_untouched(proxy: str, tmp_path: Path) -> None:
    certificate = own_certificate(tmp_path, "elsewhere.example")
    with website(certificate) as site:
        connection, head = tunnel(proxy, f"127.0.0.1:{site.server_port}")
        assert head.startswith(b"HTTP/1.1 200 ")
        context = ssl.create_default_context(cafile=str(certificate))
        with context.wrap_socket(connection, server_hostname="elsewhere.example") as secure:
            expected = x509.load_pem_x509_certificate(certificate.read_bytes())
            assert secure.getpeercert(binary_form=True) == expected.public_bytes(serialization.Encoding.DER)
            secure.sendall(b"GET /a HTTP/1.0\r\nX-API-KEY: mine\r\n\r\n")
            answer = b""
            while data := secure.recv(65536):
                answer += data
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["headers"] == {"X-API-KEY": "mine"}


@pytest.mark.slow
def test_plain_requests_to_other_hosts_are_passed_on(proxy: str, trusting: ssl.SSLContext) -> None:
    with website() as site, client(proxy, trusting) as http:
        headers = {"X-API-KEY": "theirs", "Proxy-Authorization": "mine", "Connection": "X-Hop", "X-Hop": "1"}
        seen = http.post(
            f"http://127.0.0.1:{site.server_port}/a?b=c", content=b"text", headers=headers
        ).json()
    assert (seen["path"], seen["body"]) == ("/a?b=c", "text")
    assert seen["headers"]["X-API-KEY"] == "theirs"
    assert seen["headers"]["Host"] == f"127.0.0.1:{site.server_port}"
    assert not {"Proxy-Authorization", "X-Hop"} & set(seen["headers"])


@pytest.mark.slow
def test_other_pages_of_arxiv_come_from_arxiv(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site of the test stands for arxiv.org. The proxy reaches it through the proxy of the user's environment."""
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    certificate = own_certificate(tmp_path, "arxiv.org")
    authority = Authority(tmp_path / "authority", HOSTS, {"SSL_CERT_FILE": str(certificate)})
    trusting = ssl.create_default_context(cafile=str(authority.bundle))
    with website(certificate) as arxiv, website(tunnels_to=("127.0.0.1", arxiv.server_port)) as upstream:
        own = f"http://me:p%40ss@127.0.0.1:{upstream.server_port}"
        proxies = {"https": own, "http": own}
        with proxying(Proxy(authority, Backend(server), proxies)) as url, client(url, trusting) as http:
            seen = http.get("https://arxiv.org/pdf/1706.03762").json()
            assert (seen["path"], seen["headers"]["Host"]) == ("/pdf/1706.03762", "arxiv.org")
            plain = http.get("http://arxiv.org/abs/1706.03762").json()
            assert plain["path"] == "http://arxiv.org/abs/1706.03762"
            answered = http.get("https://arxiv.org/api/query")
            assert "X-ScholarBase-Snapshot" in answered.headers
            # Another host through the same proxy, whose certificate does not name it.
            connection, head = tunnel(url, "elsewhere.example:443")
            connection.close()
            assert head.startswith(b"HTTP/1.1 200 ")
        assert upstream.RequestHandlerClass.tunnelled == [
            "arxiv.org:443 Basic bWU6cEBzcw==",
            "elsewhere.example:443 Basic bWU6cEBzcw==",
        ]


@pytest.mark.slow
def test_a_site_with_an_untrusted_certificate_is_a_502(
    server: str,
    authority: Authority,
    trusting: ssl.SSLContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("no_proxy", "")
    certificate = own_certificate(tmp_path, "arxiv.org")
    with website(certificate) as arxiv, website(tunnels_to=("127.0.0.1", arxiv.server_port)) as upstream:
        proxies = {"https": f"http://127.0.0.1:{upstream.server_port}"}
        with proxying(Proxy(authority, Backend(server), proxies)) as url, client(url, trusting) as http:
            failed = http.get("https://arxiv.org/pdf/1706.03762")
    assert failed.status_code == 502
    assert "arxiv.org cannot be reached: " in failed.text
    assert "certificate verify failed" in failed.text


# -- certificates ---------------------------------------------------------------------------------------


def test_the_private_key_is_the_user_s_alone_and_stays(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    Authority(folder, HOSTS, {})
    key = folder / "authority.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert "PRIVATE KEY" not in (folder / "certificates.pem").read_text()
    content = key.read_bytes()
    assert Authority(folder, HOSTS, {}).context("arxiv.org") is not None
    assert key.read_bytes() == content
    Authority(folder, [*HOSTS, "other.example"], {})
    assert key.read_bytes() != content
    key.write_bytes(b"damaged")
    Authority(folder, HOSTS, {})
    assert b"PRIVATE KEY" in key.read_bytes()


def handshake(authority: Authority, host: str, trusting: ssl.SSLContext) -> None:
    """A TLS handshake in memory with a certificate of the authority."""
    sides = [ssl.MemoryBIO() for _ in range(4)]
    of_server = authority.context(host).wrap_bio(sides[0], sides[1], server_side=True)
    of_client = trusting.wrap_bio(sides[2], sides[3], server_hostname=host)
    for _ in range(4):
        for one, out, into in ((of_client, sides[3], sides[0]), (of_server, sides[1], sides[2])):
            with_retry(one.do_handshake)
            into.write(out.read())


def with_retry(step: Callable[[], None]) -> None:
    with suppress(ssl.SSLWantReadError):
        step()


def test_the_authority_is_valid_for_its_hosts_alone(tmp_path: Path) -> None:
    """With its key nobody can pose as another site."""
    authority = Authority(tmp_path, HOSTS, {})
    trusting = ssl.create_default_context(cafile=str(authority.bundle))
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT  # the default since Python 3.13
    for host in HOSTS:
        handshake(authority, host, trusting)
    with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree violation"):
        handshake(authority, "example.org", trusting)


# -- the command ----------------------------------------------------------------------------------------


def command(*arguments: str) -> Fork:
    return fork(CLI, "proxy", *arguments, imports=["scholarbase_dialects.proxy.command", *COMMANDS])


@pytest.mark.slow
def test_a_command_runs_under_the_proxy_of_a_library(sample_library: Path, tmp_path: Path) -> None:
    sessions, cwd = tmp_path / "sessions", tmp_path / "cwd"
    cwd.mkdir()
    (cwd / "mcp.py").write_text("raise SystemExit('a file in the working directory was run')")
    done = run_process(
        *("proxy", "--library", sample_library, "--certificates", tmp_path / "ca", "--session", "script"),
        *("--as-of", "1993-06", "--", sys.executable, "-c", SCRIPT),
        cwd=cwd,
        SCHOLARBASE_SESSIONS=str(sessions),
    )
    assert done.returncode == 7, done.stderr
    assert [titles[0] for titles in json.loads(done.stdout)] == [TITLE] * 4
    shown = run_cli("session", "show", "script", "--sessions", sessions)
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [row["tool"] for row in rows] == ["search_papers"] * 4
    assert {row["arguments"]["as_of"] for row in rows} == {"1993-06"}
    succeeded("session", "replay", "script", "--library", sample_library, "--sessions", sessions)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_leaves_no_server_behind(sample_library: Path, tmp_path: Path, number: int) -> None:
    """SIGTERM ends the command too, which goes on where the proxy is killed."""
    script = "import os, sys, time; print(os.getpid(), os.getppid(), flush=True); time.sleep(600)"
    options = ("--library", str(sample_library), "--certificates", str(tmp_path))
    with command(*options, "--", sys.executable, "-c", script) as process:
        assert process.stdout is not None
        pid, parent = map(int, process.stdout.readline().split())
        assert parent == process.pid
        children = {
            int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        }
        assert pid in children
        assert len(children) == 2
        process.send_signal(number)
        assert process.wait(60) == (128 + number if number == signal.SIGTERM else -number)
    if number == signal.SIGKILL:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(_runs(child) for child in children))


def _runs(pid: int) -> bool:
    """Whether a process has not ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
