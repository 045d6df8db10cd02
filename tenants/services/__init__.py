"""Writes of the tenants app, one module a noun."""
