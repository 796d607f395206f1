"""`python -m holdfast.store.migrations` writes down anew what they all make of an empty database."""

from holdfast.store.schema import DIALECTS, whole, whole_file

for dialect in DIALECTS:
    whole_file(dialect).write_text(whole(dialect))
