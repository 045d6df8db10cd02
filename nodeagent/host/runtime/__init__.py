"""How is a tenant's machine made, found again, and ended?"""
