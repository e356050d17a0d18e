"""Benchmarks, and reports that say how their numbers came about."""
