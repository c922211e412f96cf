"""The scripted agent of examples/ over function schemas, MCP and Python: one trajectory, and its own figures."""

from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_the_script_prints_the_table_of_the_documentation(
    sample_library: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It compares the trajectories of the three forms, two of them over a server process, with its own log."""
    monkeypatch.syspath_prepend(ROOT / "examples")  # where the script finds agent_forms.py
    import scripted_agent as agent

    with agent.opened(agent.FORMS, sample_library, tmp_path / "sessions") as forms:
        assert agent.compare(forms, agent.SAMPLE_QUESTIONS) == []
    printed = capsys.readouterr().out
    assert printed.count("the same\n") == 3
    assert f"scripted_agent.py --library words\n{printed}```" in (ROOT / "docs" / "agents.md").read_text()
