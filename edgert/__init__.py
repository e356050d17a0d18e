"""edgert: an edge runtime for robots."""

__version__ = "0.1.0"

from edgert.contract import Contract
