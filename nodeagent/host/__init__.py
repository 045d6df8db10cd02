"""The agent on a real host."""
