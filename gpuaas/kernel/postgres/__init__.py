"""The database backend: Django's own for PostgreSQL, with a look at each connection."""
