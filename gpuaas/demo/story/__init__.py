"""Does the whole of it hold, from a host's first word to the proof that its slots are clean?"""
