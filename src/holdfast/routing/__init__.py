"""From a chat message to its session: which agent answers it, under which key, one turn at a time.

`bindings` decides, `gateway` carries a message through its whole life, and `moves` lets sessions
follow a changed binding.
"""
