"""How fast, how steady and how large is it?  Measured against stated comparisons."""
