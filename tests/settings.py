"""The settings file of a person, where a command looks for it."""

from pathlib import Path


def configure(home: Path, text: str | bytes) -> Path:
    file = home / ".config" / "holdfast" / "holdfast.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file
