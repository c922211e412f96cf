import re
from pathlib import Path
from typing import Any

import numpy as np

from scholarbase.encoders.http import HttpEncoder
from scholarbase.encoders.service import create_service
from tests.encoders.servers import running

DOCS = Path(__file__).parents[2] / "docs" / "encoders.md"


def test_the_example_encoder_of_the_docs_can_be_served() -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    (example,) = [block for block in blocks if "class LetterEncoder" in block]
    scope: dict[str, Any] = {}
    exec(example, scope)
    with running(create_service(scope["LetterEncoder"]())) as url:
        encoder = HttpEncoder(url)
        assert encoder.spec == scope["LetterEncoder"].spec
        vectors = encoder.encode_queries(["aab", "zz"]).dense
        encoder.close()
    # 1 + 2 a's and 1 + 1 b's among 25 ones; 1 + 2 z's among 26 ones.
    np.testing.assert_allclose(vectors[0, :2], np.array([3, 2]) / np.sqrt(9 + 4 + 25), rtol=1e-6)
    np.testing.assert_allclose(vectors[1, 25], 3 / np.sqrt(9 + 26), rtol=1e-6)
