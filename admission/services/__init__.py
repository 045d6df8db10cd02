"""What admission does: one transaction, an actor, events inside."""
