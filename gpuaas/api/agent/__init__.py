"""The node agents' side of the API: signed messages in the agent protocol's own types."""
