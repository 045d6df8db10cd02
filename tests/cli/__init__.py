"""The command line client against a small server over real HTTP."""
