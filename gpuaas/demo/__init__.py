"""What does a person see first? Three tenants, twelve simulated hosts, and the story."""
