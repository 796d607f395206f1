"""Settings: flags first, then the environment, then `holdfast.toml`, then defaults.

The environment's names are `HOLDFAST_…`. The file is the one that `HOLDFAST_CONFIG` names, or
`holdfast.toml` in the working directory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from platformdirs import user_data_path
from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from holdfast.errors import InvalidInput


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="HOLDFAST_", extra="ignore")

    data_dir: Path = Field(default_factory=lambda: user_data_path("holdfast"))
    """Where the embedded store and everything else of a running Holdfast lives."""
    store: str | None = None
    """The store's address; a SQLite file in the data directory when none is given."""
    durability: Literal["full", "normal"] = "full"

    @property
    def store_url(self) -> str:
        return self.store or f"sqlite:///{self.data_dir / 'holdfast.db'}"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = Path(os.environ.get("HOLDFAST_CONFIG", "holdfast.toml"))
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=file)


def load_settings(**flags: object) -> Settings:
    """The settings in force, with the flags that were given; a bad one is named in a sentence."""
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"The setting {name!r} is wrong: {first['msg']}.") from None
