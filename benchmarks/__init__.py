"""Figures of the product beside its peers and the limit, measured in one run.

``python -m benchmarks`` (``make bench``) runs all groups and prints one table; name
groups to run some. ``--write`` puts the table into ``docs/benchmarks.md``.
"""
