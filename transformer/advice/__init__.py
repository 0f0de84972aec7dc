"""Advice: what costs time in an eager script, whether or not it can be converted."""

from transformer.advice.base import Finding, Rule
from transformer.advice.engine import advise
from transformer.advice.rules import RULES

__all__ = ["RULES", "Finding", "Rule", "advise"]
