"""The command line client: what can a person or a script do from a terminal?

It speaks HTTP only. Nothing here imports Django or any application of the control plane.
"""
