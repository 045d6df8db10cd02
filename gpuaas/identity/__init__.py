"""Who is at the door?  Sign-in by OpenID Connect, and the second factor before anything else."""
