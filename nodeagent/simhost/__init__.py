"""A simulated GPU host: durable state in a folder, real protocol, faults on request."""
