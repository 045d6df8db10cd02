"""How are a slot's devices handed over, taken back, and proven clean?"""
