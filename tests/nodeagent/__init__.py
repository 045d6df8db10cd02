"""Tests of the node agent, its protocol, topology import and simulated hosts."""
