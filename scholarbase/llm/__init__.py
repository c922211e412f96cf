"""Language models and judges behind one protocol."""

from scholarbase.llm.base import Completion, LanguageModel, Message, ModelRequest, ToolCall, Usage
from scholarbase.llm.judges import Judge, ModelJudge, Verdict
from scholarbase.llm.registry import open_model
from scholarbase.llm.rubrics import Rubric, open_rubric

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
