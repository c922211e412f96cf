"""The errors that ScholarBase raises.

::

    ScholarBaseError
    ├── InvalidRequest        a value of the request is invalid
    │   ├── UnsupportedMode   this library has no index for this kind of search
    │   ├── InvalidSql        an SQL statement is malformed or not allowed
    │   ├── NothingLeft       as_of is before every paper
    │   ├── ToolNotFound      unknown tool
    │   ├── TooManyEdges      an expansion has too many edges to follow
    │   ├── SnapshotNotHeld   the request names a snapshot that the server does not have open
    │   ├── MethodNotAllowed  the route does not support the HTTP method
    │   ├── BodyTooLarge      the request body exceeds the server's limit
    │   └── RequestIncomplete the request was not complete within the time limit
    ├── PaperNotFound         the library does not hold a paper with this id
    ├── DocumentNotFound      the library has no full text of the paper, no such version, or no page images
    ├── AuthorNotFound        the library does not hold a paper of the author with this id
    ├── PageNotDrawn          a page of a PDF cannot be drawn
    ├── SessionError          a session cannot be used
    │   ├── SessionNotFound   unknown session
    │   ├── SessionExists     the session name is already in use
    │   ├── BudgetExhausted   a limit of the session is reached
    │   ├── QuotaExceeded     a quota of the server's sessions is reached
    │   └── ReplayDiffers     a replayed session returns other results
    ├── AccessError           the server denies access
    │   ├── Unauthorized      the key is missing or unknown
    │   ├── Forbidden         the key or origin does not have permission
    │   ├── SqlOff            the server runs no SQL statements
    │   ├── RateLimited       too many requests per minute
    │   └── MisdirectedRequest the request names a host that the server does not serve
    ├── LibraryError          the library on disk cannot be used
    │   ├── LibraryNotFound   no library at the path
    │   ├── LibraryExists     the path already has a library or other files
    │   ├── LibraryBusy       another job is writing to the path
    │   ├── LibraryCorrupt    the library differs from its manifest
    │   ├── EncoderMismatch   the library was built with another encoder
    │   └── SwapFailed        a server cannot take a new library, and serves the old one
    ├── SourceError           a snapshot file cannot be read
    │   ├── DownloadError     a snapshot cannot be downloaded
    │   ├── SourceChanged     a snapshot file changed after the job began
    │   └── TooManyRejects    more invalid records than the settings allow
    ├── MissingExtra          a package of an extra is not installed
    ├── ExtensionError        a part of an extension cannot be loaded
    ├── StorageError          the disk is full or cannot be written
    ├── OutOfMemory           there is too little memory or address space
    ├── TimeLimit             the request took longer than its time limit
    ├── Cancelled             the client disconnected before the response
    ├── Busy                  too many requests are waiting
    ├── EncoderError          a model cannot be loaded, or its service does not respond
    ├── RerankerError         a reranker cannot be loaded, or its service does not respond
    ├── ModelError            a language model's service fails
    │   └── CassetteMiss      a cassette has no reply to a request
    ├── ConstructionError     answer sets cannot be constructed
    ├── VectorIndexError      the vector index fails or cannot be reached
    ├── AddressError          the port is in use, or the address is not local
    ├── VerificationFailed    `scholarbase verify` found a difference
    ├── QueryFileError        a query file cannot be read, or has an invalid line
    ├── EvaluationError       an evaluation cannot continue
    │   ├── RunNotFound       no run at the path
    │   ├── RunExists         the path already has another run or other files
    │   ├── RunDamaged        the run differs from its manifest
    │   └── RunMismatch       the runs cannot be compared
    └── ClientError           the client cannot use the server
        ├── ServerUnreachable connection refused, timed out or cut off
        └── ServerFailure     an unexpected response: 5xx, or not JSON

A message is a sentence that names the value, what was expected and what to do. ``status`` is the HTTP status,
``exit_code`` the exit status of the command line and ``slug`` the end of the problem document's ``type``.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AccessError",
    "AddressError",
    "AuthorNotFound",
    "BodyTooLarge",
    "BudgetExhausted",
    "Busy",
    "Cancelled",
    "CassetteMiss",
    "ClientError",
    "ConstructionError",
    "DocumentNotFound",
    "DownloadError",
    "EncoderError",
    "EncoderMismatch",
    "EvaluationError",
    "ExtensionError",
    "Forbidden",
    "InvalidRequest",
    "InvalidSql",
    "LibraryBusy",
    "LibraryCorrupt",
    "LibraryError",
    "LibraryExists",
    "LibraryNotFound",
    "MethodNotAllowed",
    "MisdirectedRequest",
    "MissingExtra",
    "ModelError",
    "NothingLeft",
    "OutOfMemory",
    "PageNotDrawn",
    "PaperNotFound",
    "QueryFileError",
    "QuotaExceeded",
    "RateLimited",
    "ReplayDiffers",
    "RequestIncomplete",
    "RerankerError",
    "RunDamaged",
    "RunExists",
    "RunMismatch",
    "RunNotFound",
    "ScholarBaseError",
    "ServerFailure",
    "ServerUnreachable",
    "SessionError",
    "SessionExists",
    "SessionNotFound",
    "SnapshotNotHeld",
    "SourceChanged",
    "SourceError",
    "SqlOff",
    "StorageError",
    "SwapFailed",
    "TimeLimit",
    "TooManyEdges",
    "TooManyRejects",
    "ToolNotFound",
    "Unauthorized",
    "UnsupportedMode",
    "VectorIndexError",
    "VerificationFailed",
]

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

    @property
    def for_clients(self) -> str:
        return str(self) if self.public is None else self.public


class InvalidRequest(ScholarBaseError):
    """A value of the request is invalid."""

    status = 400
    exit_code = 2
    slug = "invalid-request"
    title = "Invalid request"


class UnsupportedMode(InvalidRequest):
    """This library has no index for this kind of search."""

    slug = "unsupported-mode"
    title = "Unsupported mode"


class InvalidSql(InvalidRequest):
    """An SQL statement is malformed, not allowed, or needs too much memory."""

    slug = "invalid-sql"
    title = "Invalid SQL"


class NothingLeft(InvalidRequest):
    """``as_of`` is before every paper of this library."""

    slug = "nothing-left"
    title = "Nothing left"


class BodyTooLarge(InvalidRequest):
    """The request body exceeds the server's limit."""

    status = 413
    slug = "body-too-large"
    title = "Body too large"


class RequestIncomplete(InvalidRequest):
    """The request was not complete within the time limit."""

    status = 408
    slug = "request-incomplete"
    title = "Request incomplete"


class ToolNotFound(InvalidRequest):
    """There is no tool with this name."""

    status = 404
    slug = "tool-not-found"
    title = "Tool not found"


class TooManyEdges(InvalidRequest):
    """An expansion has too many edges to follow."""

    slug = "too-many-edges"
    title = "Too many edges"


class SnapshotNotHeld(InvalidRequest):
    """The request names a snapshot that the server does not have open."""

    status = 404
    slug = "snapshot-not-held"
    title = "Snapshot not held"


class MethodNotAllowed(InvalidRequest):
    """The route does not support the HTTP method."""

    status = 405
    slug = "method-not-allowed"
    title = "Method not allowed"


class PaperNotFound(ScholarBaseError):
    """The id is valid, but this library does not hold the paper."""

    status = 404
    exit_code = 4
    slug = "paper-not-found"
    title = "Paper not found"


class DocumentNotFound(ScholarBaseError):
    """The library has no full text of the paper, no such version of it, or no images of its pages."""

    status = 404
    exit_code = 24
    slug = "document-not-found"
    title = "Full text not found"


class AuthorNotFound(ScholarBaseError):
    """The id is valid, but this library holds no paper of the author."""

    status = 404
    exit_code = 22
    slug = "author-not-found"
    title = "Author not found"


class PageNotDrawn(ScholarBaseError):
    """A page of a PDF cannot be drawn: the PDF is broken, or the page takes too long or too much memory."""

    status = 422
    exit_code = 23
    slug = "page-not-drawn"
    title = "Page not drawn"


class SessionError(ScholarBaseError):
    """A session cannot be used."""

    status = 400
    exit_code = 15
    slug = "session"
    title = "Session refused"


class SessionNotFound(SessionError):
    """There is no session with this name."""

    status = 404
    slug = "session-not-found"
    title = "Session not found"


class SessionExists(SessionError):
    """There is already a session with this name."""

    status = 409
    slug = "session-exists"
    title = "Session exists"


class BudgetExhausted(SessionError):
    """A limit of the session is reached."""

    status = 403
    slug = "budget-exhausted"
    title = "Budget exhausted"


class QuotaExceeded(SessionError):
    """A quota is reached: of calls in a session, of a key's sessions, or of the size of all."""

    status = 403
    slug = "quota-exceeded"
    title = "Quota exceeded"


class ReplayDiffers(SessionError):
    """A replayed session returns other results than were recorded."""

    slug = "replay-differs"
    title = "Replay differs"


class AccessError(ScholarBaseError):
    """The server denies access."""

    status = 403
    exit_code = 14
    slug = "access"
    title = "Access refused"


class Unauthorized(AccessError):
    """The key is missing or unknown."""

    status = 401
    slug = "unauthorized"
    title = "Unauthorized"


class Forbidden(AccessError):
    """The key or the origin does not have permission."""

    slug = "forbidden"
    title = "Forbidden"


class SqlOff(AccessError):
    """The server does not run SQL statements."""

    slug = "sql-off"
    title = "SQL is off"


class RateLimited(AccessError):
    """The key has sent too many requests within a minute."""

    status = 429
    slug = "rate-limited"
    title = "Rate limited"


class MisdirectedRequest(AccessError):
    """The request names a host that the server does not serve."""

    status = 421
    slug = "misdirected-request"
    title = "Misdirected request"


class LibraryError(ScholarBaseError):
    """The library on disk cannot be used."""

    status = 503
    exit_code = 3
    slug = "library"
    title = "Library unavailable"


class LibraryNotFound(LibraryError):
    """There is no library at the path."""

    slug = "library-not-found"
    title = "Library not found"


class LibraryExists(LibraryError):
    """The path already has a library or other files."""

    slug = "library-exists"
    title = "Library exists"


class LibraryBusy(LibraryError):
    """Another job is writing to the same path."""

    slug = "library-busy"
    title = "Library busy"


class LibraryCorrupt(LibraryError):
    """The library differs from its manifest."""

    slug = "library-corrupt"
    title = "Library corrupt"


class EncoderMismatch(LibraryError):
    """The library's vectors were made by another encoder."""

    slug = "encoder-mismatch"
    title = "Encoder mismatch"


class SwapFailed(LibraryError):
    """A server cannot take a new library, and serves the old one."""

    status = 409
    slug = "swap-failed"
    title = "Swap failed"


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

    slug = "source-changed"
    title = "Source changed"


class TooManyRejects(SourceError):
    """More records are invalid than the settings allow."""

    slug = "too-many-rejects"
    title = "Too many rejects"


class MissingExtra(ScholarBaseError):
    """A package of an extra is not installed."""

    status = 501
    exit_code = 16
    slug = "missing-extra"
    title = "Missing extra"


class ExtensionError(ScholarBaseError):
    """A part of an extension cannot be loaded."""

    status = 500
    exit_code = 27
    slug = "extension"
    title = "Extension failed"


class StorageError(ScholarBaseError):
    """The disk is full or cannot be written."""

    status = 507
    exit_code = 6
    slug = "storage"
    title = "Storage failed"


class OutOfMemory(ScholarBaseError):
    """There is too little memory, or address space where it is limited."""

    status = 503
    exit_code = 21
    slug = "out-of-memory"
    title = "Out of memory"


class TimeLimit(ScholarBaseError):
    """The request took longer than its time limit."""

    status = 504
    exit_code = 17
    slug = "time-limit"
    title = "Time limit reached"


class Cancelled(ScholarBaseError):
    """The client disconnected before the response."""

    status = 503
    exit_code = 19
    slug = "cancelled"
    title = "Cancelled"


class Busy(ScholarBaseError):
    """Too many requests are waiting."""

    status = 503
    exit_code = 18
    slug = "busy"
    title = "Busy"
    retry_after: ClassVar[int] = 1
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
    temporary: bool = False
    """Whether the same request may succeed later: not after a wrong key, URL or request."""


class CassetteMiss(ModelError):
    """A cassette has no reply to a request."""

    slug = "cassette-miss"
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
    title = "Verification failed"


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

    slug = "run-not-found"
    title = "Run not found"


class RunExists(EvaluationError):
    """The path already has a run with other settings, or other files."""

    slug = "run-exists"
    title = "Run exists"


class RunDamaged(EvaluationError):
    """A run folder differs from its manifest."""

    slug = "run-damaged"
    title = "Run damaged"


class RunMismatch(EvaluationError):
    """The runs have different snapshots or query sets, and cannot be compared."""

    slug = "run-mismatch"
    title = "Runs not comparable"


class ClientError(ScholarBaseError):
    """The client cannot use the server."""

    exit_code = 11
    slug = "client"
    title = "Server not usable"


class ServerUnreachable(ClientError):
    """No response after all retries: refused, timed out or cut off."""

    slug = "server-unreachable"
    title = "Server unreachable"


class ServerFailure(ClientError):
    """The server returned an unexpected error, or not JSON."""

    slug = "server-failure"
    title = "Server failure"
