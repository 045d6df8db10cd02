"""How are a host's devices wired, and which slots does that make?"""
