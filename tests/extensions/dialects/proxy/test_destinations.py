"""Which requests a library answers, and where."""

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase_dialects.proxy.destinations import library_target, split_target
from tests.tables import rows


def test_targets() -> None:
    for url, target in rows("proxied-urls"):
        assert library_target(*split_target(url)) == target


@pytest.mark.parametrize(
    "target", ["/search", "*", "ftp://arxiv.org/", "http://", "https://a:b/", "http://u@h/"]
)
def test_what_is_no_whole_url_is_rejected(target: str) -> None:
    with pytest.raises(InvalidRequest):
        split_target(target)
