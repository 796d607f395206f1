"""What a store can be asked, by what it is about. `Store` is all of it together."""
