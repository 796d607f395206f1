"""Instructions executed against models, in turns that can be audited: which bytes gave which answer.

A request of any client becomes one `ExecutionInput`; the orchestrator makes a turn of it.
"""
