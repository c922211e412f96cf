"""Plain data: papers, requests, responses, query sets and runs, with their checks."""

from scholarbase.models.checks import *  # noqa: F403
from scholarbase.models.limits import *  # noqa: F403
from scholarbase.models.papers import *  # noqa: F403
from scholarbase.models.requests import *  # noqa: F403
from scholarbase.models.responses import *  # noqa: F403
