"""Language models and judges behind one protocol."""

from scholarbase_research.llm.base import Completion, LanguageModel, Message, ModelRequest, ToolCall, Usage
from scholarbase_research.llm.http import open_model
from scholarbase_research.llm.judges import Judge, ModelJudge, Verdict
from scholarbase_research.llm.rubrics import Rubric, open_rubric

__all__ = [
    "Completion",
    "Judge",
    "LanguageModel",
    "Message",
    "ModelJudge",
    "ModelRequest",
    "Rubric",
    "ToolCall",
    "Usage",
    "Verdict",
    "open_model",
    "open_rubric",
]
