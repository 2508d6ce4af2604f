"""Hooks, a file for each family of libraries; table.py says where each belongs."""
