"""Which few things are done with root's rights, for whom, and how are they asked for?"""
