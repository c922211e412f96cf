"""Requests that check references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import check_text, shown
from scholarbase.models.limits import MAX_REFERENCE_BYTES, MAX_REFERENCES, ReferenceFormat
from scholarbase.models.papers import PAPER_FIELDS
from scholarbase.models.requests import ResponseOptions, Timed
from scholarbase.models.values import AsOf, FieldNames, as_tuple

Correction = Literal["title", "authors", "year"]
"""A field of a reference that the library can correct."""
_EXAMPLE: Final = (
    "D. J. Gross and W. Taylor, Two dimensional QCD is a string theory, Nucl. Phys. B 400, 181 (1993)\n"
    "arXiv:hep-th/9303046"
)


class _References(Timed):
    """A bibliography as of a day."""

    references: str = Field(
        description="BibTeX, RIS or CSL-JSON, or one reference, DOI or id per line: at most "
        f"{MAX_REFERENCES:,} references and {MAX_REFERENCE_BYTES:,} bytes.",
        examples=[_EXAMPLE],
        json_schema_extra={"minLength": 1, "maxLength": MAX_REFERENCE_BYTES},
    )
    input_format: ReferenceFormat = Field(
        default="auto",
        description="The format of `references`; by default the one that their content shows.",
        examples=["bibtex"],
    )
    as_of: AsOf = None

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        if not self.references.strip():
            raise InvalidRequest("references is empty: send at least one reference.")
        check_text(self.references, "references")
        return self


class CheckBody(ResponseOptions, _References):
    """References to check."""

    fields: FieldNames = PAPER_FIELDS


def _by_position(value: Any) -> Any:
    """The fields of each reference as tuples. Raises InvalidRequest for a key that is not a position."""
    if not isinstance(value, Mapping):
        return value
    for position in value:
        if not (isinstance(position, str) and position.isdecimal() and position.isascii()):
            raise InvalidRequest(
                f"corrections has the key {shown(position)}: use the position of a reference, such as '1'."
            )
    return {position: as_tuple(fields) for position, fields in value.items()}


class CorrectBody(_References):
    """References to correct."""

    corrections: Annotated[
        dict[str, tuple[Correction, ...]] | None,
        BeforeValidator(_by_position),
        Field(
            description="The fields to correct in each reference, by its position. By default all that differ, but a "
            "year only if it is before the library's.",
            examples=[{"1": ["title", "year"]}],
        ),
    ] = None
