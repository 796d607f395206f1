"""Sessions, turns, messages and the records around them: data and its rules.

Nothing here does I/O, reads a clock or imports another part of Holdfast except `errors`.
"""
