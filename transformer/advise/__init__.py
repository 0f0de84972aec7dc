"""Advice: find code that costs time in an eager script, whether or not it can be converted; changes nothing."""

from transformer.advise.base import Finding, Rule
from transformer.advise.engine import advise
from transformer.advise.rules import RULES

__all__ = ["RULES", "Finding", "Rule", "advise"]
