"""Writes of the placement app, one module a noun."""
