"""The tests of a store of sessions, in a database."""

import pytest

from tests.extensions.cluster.postgres import Postgres
from tests.sessions.test_store import *  # noqa: F403

pytestmark = pytest.mark.slow


@pytest.fixture
def location(postgres: Postgres) -> str:
    """Where sessions are kept: an empty database."""
    return postgres.emptied()
