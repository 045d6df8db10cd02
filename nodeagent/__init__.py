"""What runs on a GPU host: the agent, its wire protocol, topology import and simulated hosts."""
