"""The terminal inbox: question sets of all agents, read and answered by keys (`holdfast inbox`)."""
