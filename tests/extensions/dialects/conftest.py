"""On a busy machine a call takes longer to be recorded than a response usually waits for its number."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _wait_for_recorded_calls() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scholarbase.sessions.recording.WRITE_SECONDS", 60.0)
        yield
