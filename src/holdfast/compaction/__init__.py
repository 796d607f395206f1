"""What a model is shown of a long session: computed from records, while every original stays.

`views` reads a session's view, `strategies` plan how to shorten one, `validator` refuses plans that
would break it, `compactor` carries a plan out, and `background` does so after an agent's runs.
"""
