"""Trains static encoders on titles and abstracts. Needs the extra ``training``."""

from scholarbase_research.training.job import train
from scholarbase_research.training.options import TrainingOptions

__all__ = ["TrainingOptions", "train"]
