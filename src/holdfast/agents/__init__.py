"""Agents as child processes over the Agent Client Protocol."""
