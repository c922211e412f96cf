"""The native API, one file a resource."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from scholarbase.library import Library


async def library_of(request: Request) -> Library:
    """The library that the application serves."""
    library: Library = request.app.state.library
    return library


OpenLibrary = Annotated[Library, Depends(library_of)]
