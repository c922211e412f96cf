"""Every error ScholarBase raises on purpose.

    ScholarBaseError
    ├── InvalidRequest        the request cannot be right, whatever the library holds
    │   ├── UnsupportedMode   ... or not on this library: it has no vectors of that kind
    │   ├── NothingLeft       ... or leaves nothing of this library that could match
    │   ├── ToolNotFound      ... or names no tool
    │   └── BodyTooLarge      ... or not in one piece: its body is larger than the server takes
    ├── PaperNotFound         a well-formed id that this library does not hold
    ├── SessionError          what agents did
    │   ├── SessionNotFound   no session of that name
    │   ├── SessionExists     ... or there is one already
    │   ├── BudgetExhausted   the session has been asked for all that it may be
    │   └── ReplayDiffers     a recorded session gives something else on this library
    ├── AccessError           a shared server does not let the request in
    │   ├── Unauthorized      it asks for a key, and got none that it knows
    │   ├── Forbidden         the key may not do this
    │   └── RateLimited       the key has asked too much within a minute
    ├── LibraryError          what lies on disk
    │   ├── LibraryNotFound   no library there
    │   ├── LibraryExists     a library, or something else, is in the way
    │   ├── LibraryBusy       another job is writing there
    │   ├── LibraryCorrupt    it does not hold what its manifest says
    │   └── EncoderMismatch   it was built with another encoder
    ├── SourceError           a snapshot file that cannot be read
    │   ├── SourceChanged     ... or is not what it was when the job began
    │   └── TooManyRejects    more bad records than the settings allow
    ├── StorageError          the disk is full, or refuses
    ├── EncoderError          a model that cannot be loaded, or does not answer
    ├── VectorIndexError      the vector index fails, or cannot be reached
    ├── AddressError          the port is taken, or the address is not ours
    ├── VerificationFailed    `scholarbase verify` found a difference
    ├── QueryFileError        a query file, or a line of it, that cannot be read
    ├── EvaluationError       an evaluation that cannot go on
    │   ├── RunNotFound       no run there
    │   ├── RunExists         a run, or something else, is in the way
    │   ├── RunDamaged        it is not what its manifest says
    │   └── RunMismatch       two runs that cannot be compared
    └── ClientError           what the client meets on its way to a server
        ├── ServerUnreachable no answer: refused, timed out, cut off
        └── ServerFailure     an answer that is no answer: 5xx, or not JSON

A message is a sentence that names the value, what was expected and what to do. ``status`` is the HTTP
status of the problem document, ``exit_code`` the exit status of the command line and ``slug`` the end of
the problem's ``type``.
"""

from __future__ import annotations

from typing import ClassVar

PROBLEM_TYPE_BASE = "https://github.com/scholarbase/scholarbase/blob/main/docs/errors.md#"


class ScholarBaseError(Exception):
    """The root: catch this to catch everything that ScholarBase raises on purpose."""

    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1
    slug: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"


class InvalidRequest(ScholarBaseError):
    """The request cannot be right, whatever the library holds."""

    status = 400
    exit_code = 2
    slug = "invalid-request"
    title = "Invalid request"


class UnsupportedMode(InvalidRequest):
    """The request asks for a kind of search that this library has no index for."""

    slug = "unsupported-mode"
    title = "Unsupported mode"


class NothingLeft(InvalidRequest):
    """What the request leaves out is everything that this library could answer with."""

    slug = "nothing-left"
    title = "Nothing left"


class BodyTooLarge(InvalidRequest):
    """The request's body is larger than the server takes."""

    status = 413
    slug = "body-too-large"
    title = "Body too large"


class ToolNotFound(InvalidRequest):
    """There is no tool of that name."""

    status = 404
    slug = "tool-not-found"
    title = "Tool not found"


class PaperNotFound(ScholarBaseError):
    """A well-formed id that this library does not hold."""

    status = 404
    exit_code = 4
    slug = "paper-not-found"
    title = "Paper not found"


class SessionError(ScholarBaseError):
    """Something is wrong with a session."""

    status = 400
    exit_code = 15
    slug = "session"
    title = "Session refused"


class SessionNotFound(SessionError):
    """There is no session of that name."""

    status = 404
    slug = "session-not-found"
    title = "Session not found"


class SessionExists(SessionError):
    """There is a session of that name already."""

    status = 409
    slug = "session-exists"
    title = "Session exists"


class BudgetExhausted(SessionError):
    """The session has been asked for all that its limits allow."""

    status = 403
    slug = "budget-exhausted"
    title = "Budget exhausted"


class ReplayDiffers(SessionError):
    """A recorded session, run again, gives something else."""

    slug = "replay-differs"
    title = "Replay differs"


class AccessError(ScholarBaseError):
    """A shared server does not let the request in."""

    status = 403
    exit_code = 14
    slug = "access"
    title = "Access refused"


class Unauthorized(AccessError):
    """The server asks for a key, and the request has none, or one that it does not know."""

    status = 401
    slug = "unauthorized"
    title = "Unauthorized"


class Forbidden(AccessError):
    """The request's key may not do this."""

    slug = "forbidden"
    title = "Forbidden"


class RateLimited(AccessError):
    """The request's key has asked too much within a minute."""

    status = 429
    slug = "rate-limited"
    title = "Rate limited"


class LibraryError(ScholarBaseError):
    """Something is wrong with the library on disk."""

    status = 503
    exit_code = 3
    slug = "library"
    title = "Library unavailable"


class LibraryNotFound(LibraryError):
    """There is no library at the path."""

    slug = "library-not-found"
    title = "Library not found"


class LibraryExists(LibraryError):
    """A library, or something that is none, is in the way of a new one."""

    slug = "library-exists"
    title = "Library exists"


class LibraryBusy(LibraryError):
    """Another job is writing to the same place."""

    slug = "library-busy"
    title = "Library busy"


class LibraryCorrupt(LibraryError):
    """The library does not hold what its manifest says."""

    slug = "library-corrupt"
    title = "Library corrupt"


class EncoderMismatch(LibraryError):
    """The library's vectors were made by another encoder than the one at hand."""

    slug = "encoder-mismatch"
    title = "Encoder mismatch"


class SourceError(ScholarBaseError):
    """A snapshot file that cannot be read."""

    exit_code = 5
    slug = "source"
    title = "Source unreadable"


class SourceChanged(SourceError):
    """A snapshot file is not what it was when the job began."""

    slug = "source-changed"
    title = "Source changed"


class TooManyRejects(SourceError):
    """More bad records than the settings allow."""

    slug = "too-many-rejects"
    title = "Too many rejects"


class StorageError(ScholarBaseError):
    """The disk is full, or refuses to be written."""

    status = 507
    exit_code = 6
    slug = "storage"
    title = "Storage failed"


class EncoderError(ScholarBaseError):
    """A model that cannot be loaded, or an embeddings service that does not answer."""

    status = 503
    exit_code = 7
    slug = "encoder"
    title = "Encoder failed"


class VectorIndexError(ScholarBaseError):
    """The vector index fails, or its server cannot be reached."""

    status = 503
    exit_code = 8
    slug = "vector-index"
    title = "Vector index failed"


class AddressError(ScholarBaseError):
    """The port is taken, or the address does not belong to this machine."""

    exit_code = 9
    slug = "address"
    title = "Address unavailable"


class VerificationFailed(ScholarBaseError):
    """A check of ``scholarbase verify`` found a difference."""

    exit_code = 10
    slug = "verification"
    title = "Verification failed"


class EvaluationError(ScholarBaseError):
    """An evaluation that cannot go on."""

    exit_code = 12
    slug = "evaluation"
    title = "Evaluation failed"


class QueryFileError(ScholarBaseError):
    """A query file, a qrels file or a trajectory that cannot be read, or a line of one that cannot be right."""

    exit_code = 13
    slug = "query-file"
    title = "Query file unreadable"


class RunNotFound(EvaluationError):
    """There is no run at the path."""

    slug = "run-not-found"
    title = "Run not found"


class RunExists(EvaluationError):
    """A run of other settings, or something that is no run, is in the way of a new one."""

    slug = "run-exists"
    title = "Run exists"


class RunDamaged(EvaluationError):
    """A run folder does not hold what its manifest says."""

    slug = "run-damaged"
    title = "Run damaged"


class RunMismatch(EvaluationError):
    """Two runs of different snapshots or query sets, which say nothing about each other."""

    slug = "run-mismatch"
    title = "Runs not comparable"


class ClientError(ScholarBaseError):
    """What the client meets on its way to a server."""

    exit_code = 11
    slug = "client"
    title = "Server not usable"


class ServerUnreachable(ClientError):
    """No answer: refused, timed out or cut off, after all retries."""

    slug = "server-unreachable"
    title = "Server unreachable"


class ServerFailure(ClientError):
    """The server answered with a failure of its own, or not with JSON."""

    slug = "server-failure"
    title = "Server failure"
