"""Requests that check a bibliography of any length, and their responses joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from scholarbase.bibliographies.reading import Bibliography, read_bibliography
from scholarbase.bibliographies.references import Reference
from scholarbase.models.check_requests import CheckBody
from scholarbase.models.responses import CheckedReference, CheckResponse, count_statuses

Placed = tuple[int, Reference]
"""A reference and its position, from 1."""


@dataclass(frozen=True, slots=True)
class CheckRequests:
    """A bibliography in parts that one request each takes."""

    body: CheckBody
    bibliography: Bibliography

    @property
    def parts(self) -> list[list[Placed]]:
        placed = iter(enumerate(self.bibliography.references, 1))
        return [[next(placed) for _ in part] for part in self.bibliography.parts()]

    def body_of(self, part: Sequence[Placed]) -> CheckBody:
        """The request for some of the references."""
        if len(part) == len(self.bibliography.references):
            return self.body
        text = self.bibliography.text_of([reference for _, reference in part])
        return self.body.model_copy(update={"references": text, "input_format": self.bibliography.format})

    def response(self, snapshot: str, results: Sequence[CheckedReference]) -> CheckResponse:
        """The response with the results of all references, in order."""
        return CheckResponse(
            snapshot, self.bibliography.format, count_statuses(results), tuple(results), self.body.fields
        )


def check_requests(**arguments: Any) -> CheckRequests:
    """The requests for the arguments of ``check_references``.

    Raises:
        InvalidRequest: an argument is invalid.
    """
    body = CheckBody.of(**arguments)
    return CheckRequests(body, read_bibliography(body.references, body.input_format, most=None))


def placed(result: CheckedReference, at: Placed) -> CheckedReference:
    """The result of a part with its place in the whole bibliography."""
    return msgspec.structs.replace(result, position=at[0], line=at[1].line)
