"""Trains static encoders on titles and abstracts. Needs the extra ``training``."""

from scholarbase.encoders.training.job import train
from scholarbase.encoders.training.options import TrainingOptions

__all__ = ["TrainingOptions", "train"]
