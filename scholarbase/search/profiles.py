"""Profiles: named sets of settings that decide rankings.

``default`` is what measured best (docs/measurements.md). ``scholarquest`` is the baseline of the ScholarQuest paper:
BM25 of SQLite with the words of titles and abstracts counted alike, dense search without approximation, and reciprocal
rank fusion with k = 60, without further stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scholarbase.models.limits import Profile
from scholarbase.settings import Settings

PROFILES: Final[Mapping[Profile, Mapping[str, Any]]] = {
    "default": {},
    "scholarquest": {
        "engine": "fts5",
        "exact": True,
        "fts5_title_weight": 1.0,
        "fusion": "rrf",
        "graph_weight": 0.0,
        "known_items": False,
        "rrf_k": 60,
        "similarity_floor": False,
    },
}
"""The settings of each profile that differ from the defaults."""


def with_profile(settings: Settings, recorded: Profile) -> Settings:
    """The settings of a profile: that of ``settings``, or else the one that the library was built with.

    Settings of the environment take precedence over those of the profile.
    """
    profile = settings.profile or recorded
    chosen = {k: v for k, v in PROFILES[profile].items() if k not in settings.model_fields_set}
    return settings.model_copy(update={**chosen, "profile": profile})
