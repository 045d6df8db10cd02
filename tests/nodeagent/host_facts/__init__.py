"""Tests of what an agent reads of a real host."""
