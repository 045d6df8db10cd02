"""How does the product run on one machine with nothing installed beside Python?

Local PostgreSQL and Valkey from wheels, and a runner that keeps the product's processes.
Nothing here imports Django: the runner must stay small and start at once.
"""
