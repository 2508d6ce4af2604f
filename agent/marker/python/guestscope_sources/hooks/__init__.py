"""Hooks, a file for each family of libraries; table.py lists what each wraps."""
