"""Settings: flags first, then the environment, then `holdfast.toml`, then defaults.

The environment's names are `HOLDFAST_…`. The file is the one that `HOLDFAST_CONFIG` names, or
`holdfast.toml` in the working directory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_data_path
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from holdfast.errors import InvalidInput
from holdfast.model.question import LIMIT, RETENTION


class QuestionSettings(BaseModel):
    """`[questions]` in the file, `HOLDFAST_QUESTIONS_…` in the environment."""

    model_config = ConfigDict(extra="forbid")

    directory: Path | None = None
    """Also AUQ_SESSION_DIR. Where the AUQ programs keep their question sets when none is given."""
    limit: int = Field(default=LIMIT, ge=1)
    """How many sets the directory holds."""
    retention_days: float = Field(default=RETENTION.days, ge=0)
    """How long a set is kept after its last change; 0 is for ever."""
    timeout_seconds: float = Field(default=0, ge=0)
    """How long an asker waits; 0 is for ever."""
    soft_return_seconds: float | None = Field(default=None, ge=0)
    """When a waiting MCP tool tells its client to call again; 0 is never, unset what suits the client."""
    heartbeat_seconds: float = Field(default=10, gt=0)
    """How often a waiting MCP tool says that it waits."""

    @field_validator("directory")
    @classmethod
    def _in_home(cls, directory: Path | None) -> Path | None:
        return None if directory is None else directory.expanduser()


class Settings(BaseSettings):
    # Of HOLDFAST_QUESTIONS_RETENTION_DAYS, only `questions` is the name of a table.
    model_config = SettingsConfigDict(
        env_prefix="HOLDFAST_", env_nested_delimiter="_", env_nested_max_split=1, extra="ignore"
    )

    data_dir: Path = Field(default_factory=lambda: user_data_path("holdfast"))
    """Where the embedded store and everything else of a running Holdfast lives."""
    store: str | None = None
    """The store's address; a SQLite file in the data directory when none is given."""
    durability: Literal["full", "normal"] = "full"
    questions: QuestionSettings = Field(default_factory=QuestionSettings)

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
        return (
            init_settings,
            env_settings,
            InitSettingsSource(settings_cls, _under_other_names()),
            TomlConfigSettingsSource(settings_cls, toml_file=file),
        )


def _under_other_names() -> dict[str, Any]:
    """What the environment says under names that other programs gave it."""
    directory = os.environ.get("AUQ_SESSION_DIR")
    return {"questions": {"directory": directory}} if directory else {}


def load_settings(**flags: object) -> Settings:
    """The settings in force, with the flags that were given; a bad one is named in a sentence."""
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"The setting {name!r} is wrong: {first['msg']}.") from None
