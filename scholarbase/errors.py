"""The errors that ScholarBase raises.

A message is a sentence that names the value, what was expected and what to do. ``status`` is the HTTP status,
``exit_code`` the exit status of the command line and ``slug`` the end of the problem document's ``type``
(docs/errors.md).
"""

from __future__ import annotations

import re
from typing import ClassVar

PROBLEM_TYPE_BASE = "https://github.com/scholarbase/scholarbase/blob/main/docs/errors.md#"


class ScholarBaseError(Exception):
    """The base of all errors that ScholarBase raises."""

    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1
    slug: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"
    public: str | None = None
    """The message for the clients of a server, where the own one has what is only for its operator: the address of
    another service, or its response."""

    def __init_subclass__(cls) -> None:
        """Give a class without ``slug`` and ``title`` those of its name: ``paper-not-found``, ``Paper not found``."""
        words = re.findall("[A-Z][a-z]*", cls.__name__)
        if "slug" not in vars(cls):
            cls.slug = "-".join(words).lower()
        if "title" not in vars(cls):
            cls.title = " ".join(words).capitalize()

    @property
    def for_clients(self) -> str:
        return str(self) if self.public is None else self.public


class InvalidRequest(ScholarBaseError):
    """A value of the request is invalid."""

    status = 400
    exit_code = 2


class UnsupportedMode(InvalidRequest):
    """This library has no index for this kind of search."""


class InvalidSql(InvalidRequest):
    """An SQL statement is malformed, not allowed, or needs too much memory."""

    title = "Invalid SQL"


class NothingLeft(InvalidRequest):
    """``as_of`` is before every paper of this library."""


class BodyTooLarge(InvalidRequest):
    """The request body exceeds the server's limit."""

    status = 413


class RequestIncomplete(InvalidRequest):
    """The request was not complete within the time limit."""

    status = 408


class ToolNotFound(InvalidRequest):
    """There is no tool with this name."""

    status = 404


class TooManyEdges(InvalidRequest):
    """An expansion has too many edges to follow."""


class SnapshotNotHeld(InvalidRequest):
    """The request names a snapshot that the server does not have open."""

    status = 404


class MethodNotAllowed(InvalidRequest):
    """The route does not support the HTTP method."""

    status = 405


class PaperNotFound(ScholarBaseError):
    """The id is valid, but this library does not hold the paper."""

    status = 404
    exit_code = 4


class DocumentNotFound(ScholarBaseError):
    """The library has no full text of the paper, no such version of it, or no images of its pages."""

    status = 404
    exit_code = 24
    title = "Full text not found"


class AuthorNotFound(ScholarBaseError):
    """The id is valid, but this library holds no paper of the author."""

    status = 404
    exit_code = 22


class PageNotDrawn(ScholarBaseError):
    """A page of a PDF cannot be drawn: the PDF is broken, or the page takes too long or too much memory."""

    status = 422
    exit_code = 23


class SessionError(ScholarBaseError):
    """A session cannot be used."""

    status = 400
    exit_code = 15
    slug = "session"
    title = "Session refused"


class SessionNotFound(SessionError):
    """There is no session with this name."""

    status = 404
    exit_code = 29  # ReplayDiffers has 15


class SessionExists(SessionError):
    """There is already a session with this name."""

    status = 409


class BudgetExhausted(SessionError):
    """A limit of the session is reached."""

    status = 403


class QuotaExceeded(SessionError):
    """A quota is reached: of calls in a session, of a key's sessions, or of the size of all."""

    status = 403


class ReplayDiffers(SessionError):
    """A replayed session returns other results than were recorded."""


class AccessError(ScholarBaseError):
    """The server denies access."""

    status = 403
    exit_code = 14
    slug = "access"
    title = "Access refused"


class Unauthorized(AccessError):
    """The key is missing or unknown."""

    status = 401


class Forbidden(AccessError):
    """The key or the origin does not have permission."""


class SqlOff(AccessError):
    """The server does not run SQL statements."""

    title = "SQL is off"


class RateLimited(AccessError):
    """The key has sent too many requests within a minute."""

    status = 429


class MisdirectedRequest(AccessError):
    """The request names a host that the server does not serve."""

    status = 421


class LibraryError(ScholarBaseError):
    """The library on disk cannot be used."""

    status = 503
    exit_code = 3
    slug = "library"
    title = "Library unavailable"


class LibraryNotFound(LibraryError):
    """There is no library at the path."""


class LibraryExists(LibraryError):
    """The path already has a library or other files."""


class LibraryBusy(LibraryError):
    """Another job is writing to the same path."""


class LibraryCorrupt(LibraryError):
    """The library differs from its manifest."""


class EncoderMismatch(LibraryError):
    """The library's vectors were made by another encoder."""


class SwapFailed(LibraryError):
    """A server cannot take a new library, and serves the old one."""

    status = 409


class SourceError(ScholarBaseError):
    """A snapshot file cannot be read."""

    exit_code = 5
    slug = "source"
    title = "Source unreadable"


class DownloadError(SourceError):
    """A snapshot cannot be downloaded: the server refuses, does not respond, or sends damaged files."""

    slug = "download"
    title = "Download failed"


class SourceChanged(SourceError):
    """A snapshot file changed after the job began."""


class TooManyRejects(SourceError):
    """More records are invalid than the settings allow."""


class FilesRejected(ScholarBaseError):
    """The library is complete, without files of full texts that cannot be read."""

    exit_code = 28


class MissingExtra(ScholarBaseError):
    """A package of an extra is not installed."""

    status = 501
    exit_code = 16


class ExtensionError(ScholarBaseError):
    """A part of an extension cannot be loaded."""

    exit_code = 27
    slug = "extension"
    title = "Extension failed"


class StorageError(ScholarBaseError):
    """The disk is full or cannot be written."""

    status = 507
    exit_code = 6
    slug = "storage"
    title = "Storage failed"


class SessionsUnavailable(StorageError):
    """The sessions of a server are locked by another process, damaged, or written too slowly."""

    status = 503


class OutOfMemory(ScholarBaseError):
    """There is too little memory, or address space where it is limited."""

    status = 503
    exit_code = 21


class TimeLimit(ScholarBaseError):
    """The request took longer than its time limit."""

    status = 504
    exit_code = 17
    title = "Time limit reached"


class Cancelled(ScholarBaseError):
    """The client disconnected before the response."""

    status = 503
    exit_code = 19


class Busy(ScholarBaseError):
    """Too many requests are waiting."""

    status = 503
    exit_code = 18

    def __init__(self, message: str = "", retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = max(1, retry_after)
        """Seconds, of the ``Retry-After`` header."""


class EncoderError(ScholarBaseError):
    """A model cannot be loaded, or an embeddings service does not respond."""

    status = 503
    exit_code = 7
    slug = "encoder"
    title = "Encoder failed"


class RerankerError(ScholarBaseError):
    """A reranker cannot be loaded, or its service does not respond."""

    status = 503
    exit_code = 20
    slug = "reranker"
    title = "Reranker failed"


class ModelError(ScholarBaseError):
    """A language model's service does not respond, refuses the request, or returns something else."""

    status = 503
    exit_code = 25
    slug = "language-model"
    title = "Language model failed"


class CassetteMiss(ModelError):
    """A cassette has no reply to a request."""

    title = "Not in the cassette"


class ConstructionError(ScholarBaseError):
    """Answer sets cannot be constructed."""

    exit_code = 26
    slug = "construction"
    title = "Construction failed"


class VectorIndexError(ScholarBaseError):
    """The vector index fails, or its server cannot be reached."""

    status = 503
    exit_code = 8
    slug = "vector-index"
    title = "Vector index failed"


class AddressError(ScholarBaseError):
    """The port is in use, or the address does not belong to this machine."""

    exit_code = 9
    slug = "address"
    title = "Address unavailable"


class VerificationFailed(ScholarBaseError):
    """``scholarbase verify`` found a difference."""

    exit_code = 10
    slug = "verification"


class EvaluationError(ScholarBaseError):
    """An evaluation cannot continue."""

    exit_code = 12
    slug = "evaluation"
    title = "Evaluation failed"


class QueryFileError(ScholarBaseError):
    """A query file, qrels file or trajectory cannot be read, or has an invalid line."""

    exit_code = 13
    slug = "query-file"
    title = "Query file unreadable"


class RunNotFound(EvaluationError):
    """There is no run at the path."""


class RunExists(EvaluationError):
    """The path already has a run with other settings, or other files."""


class RunDamaged(EvaluationError):
    """A run folder differs from its manifest."""


class RunMismatch(EvaluationError):
    """The runs have different snapshots or query sets, and cannot be compared."""

    title = "Runs not comparable"


class ClientError(ScholarBaseError):
    """The client cannot use the server."""

    exit_code = 11
    slug = "client"
    title = "Server not usable"


class ServerUnreachable(ClientError):
    """No response after all retries: refused, timed out or cut off."""


class ServerFailure(ClientError):
    """The server returned an unexpected error, or not JSON."""


__all__ = [
    name for name, value in vars().items() if isinstance(value, type) and issubclass(value, ScholarBaseError)
]
