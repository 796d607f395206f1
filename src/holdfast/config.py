"""Settings: flags first, then the environment, then files, then defaults.

The environment's names are `HOLDFAST_…`. The file is the one that `HOLDFAST_CONFIG` names. Without
that variable, it is `holdfast.toml` in the working directory, if you trust it, and then your own one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from holdfast.errors import InvalidInput, MissingExtra
from holdfast.model.principal import EVERY_OTHER, LOCAL
from holdfast.model.question import LIMIT, RETENTION

try:
    from platformdirs import user_data_path
    from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
    from pydantic_settings import (
        BaseSettings,
        InitSettingsSource,
        PydanticBaseSettingsSource,
        SettingsConfigDict,
        SettingsError,
    )

    from holdfast.settings_files import settings_files
except ImportError:
    raise MissingExtra("Reading the settings", "cli") from None


class QuestionSettings(BaseModel):
    """`[questions]` in the file, `HOLDFAST_QUESTIONS_…` in the environment."""

    model_config = ConfigDict(extra="forbid")

    directory: Path | None = None
    """Also AUQ_SESSION_DIR. Where the AUQ programs keep their question sets when none is given."""
    limit: int = Field(default=LIMIT, ge=1)
    """How many sets of an organization wait for an answer at a time."""
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


class WorkspaceSettings(BaseModel):
    """`[workspace]` in the file: where agents may work, and how many at a time."""

    model_config = ConfigDict(extra="forbid")

    root: Path = Path()
    """Also AGENT_WORKSPACE_ROOT. The repositories in it, and no others, can be worked in."""
    roots: dict[str, Path] = {}
    """The same for other organizations: `acme = "/srv/acme"`, or `"*" = "/srv/{organization}"` for all that
    have no entry. Without one, an organization has no repositories here."""

    depth: int = Field(default=3, ge=0, le=10)
    """How many directories below the root a repository may lie."""
    max_sessions: int = Field(default=5, ge=1)
    """Also AGENT_MAX_SESSIONS. How many agents may run at a time."""
    idle_minutes: float = Field(default=30, gt=0)
    """Also AGENT_SESSION_IDLE_TIMEOUT. How long nothing may happen before a session is completed."""

    def serves(self, organization: str) -> bool:
        """Whether an organization has repositories on this machine."""
        named = {LOCAL.organization, *self.roots}
        return organization in named or EVERY_OTHER in named

    @field_validator("roots")
    @classmethod
    def _apart(cls, roots: dict[str, Path]) -> dict[str, Path]:
        if EVERY_OTHER in roots and "{organization}" not in str(roots[EVERY_OTHER]):
            raise ValueError("the path of `*` must contain {organization}")
        return roots


class SandboxSettings(BaseModel):
    """`[sandbox]` in the file: what the sandboxes of all agents have in common."""

    model_config = ConfigDict(extra="forbid")

    toolchains: list[str] = []
    """Directories that agents may read beside the toolchains that are known: absolute, or below your home."""


class ServerSettings(BaseModel):
    """`[server]` in the file, `HOLDFAST_SERVER_…` in the environment."""

    model_config = ConfigDict(extra="forbid")

    host: str = "127.0.0.1"
    port: int = Field(default=4747, ge=0, le=65535)
    hosts: list[str] = []
    """Names under which the server may be called, besides that of this machine's loopback."""
    public_url: str | None = Field(default=None, pattern=r"^https?://[^/\s]+$")
    """How people reach it through a proxy: `https://holdfast.example.org`. Sign-in links then begin so."""
    requests_per_second: float = Field(default=1000, ge=0)
    """How often a user may call; 0 is as often as they like."""
    max_body_bytes: int = Field(default=8 * 1024 * 1024, ge=1024)
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    jwt_keys: str | None = None
    """The address of the issuer's JSON Web Key Set, or the path of a file that holds it."""

    @property
    def is_encrypted(self) -> bool:
        """Whether people reach it through TLS."""
        return self.public_url is not None and self.public_url.startswith("https://")

    @model_validator(mode="after")
    def _whole_jwt(self) -> ServerSettings:
        given = [self.jwt_issuer, self.jwt_audience, self.jwt_keys]
        if any(given) and not all(given):
            raise ValueError("jwt_issuer, jwt_audience and jwt_keys belong together")
        return self


class BlobSettings(BaseModel):
    """`[blobs]` in the file, `HOLDFAST_BLOBS_…` in the environment."""

    model_config = ConfigDict(extra="forbid")

    url: str | None = None
    """`file:///directory`, `s3://…`, `gs://…` or `az://…`; by default `blobs` in the data directory."""


class ProviderSettings(BaseModel):
    """`[providers.NAME]`: a server that speaks the Responses API. The one named `default` is there always."""

    model_config = ConfigDict(extra="forbid")

    base_url: str | None = None
    """By default that of OPENAI_BASE_URL, else OpenAI's own."""
    api_key_env: str = "OPENAI_API_KEY"
    """The variable that holds the key."""
    chains: bool | None = None
    """Whether it keeps responses and goes on from them; unset, only OpenAI's own is known to."""
    timeout_seconds: float = Field(default=600, gt=0)


class ExecutionSettings(BaseModel):
    """`[execution]` in the file, `HOLDFAST_EXECUTION_…` in the environment."""

    model_config = ConfigDict(extra="forbid")

    chunks: int = Field(default=8, ge=0, le=100)
    """How many chunks of the index are sent with an instruction; 0 looks for none."""
    max_file_bytes: int = Field(default=100 * 1024, ge=0)
    """How large a file may be to be sent."""
    chain_days: float = Field(default=30, gt=0)
    """How long a provider keeps a response."""


class RetrievalWorkspace(BaseModel):
    """`[retrieval.workspaces.NAME]` in the file: what a search in that workspace is limited to."""

    model_config = ConfigDict(extra="forbid")

    repositories: list[str] = Field(min_length=1)
    paths: list[str] = []
    """Files or directories, in any of the repositories; all of them when none is given."""


class RetrievalSettings(BaseModel):
    """`[retrieval]` in the file, `HOLDFAST_RETRIEVAL_…` in the environment."""

    model_config = ConfigDict(extra="forbid")

    directory: Path | None = None
    """Where the embedded index is; `index` in the data directory when none is given."""
    url: str | None = None
    """The address of a Qdrant server that is used instead of the embedded index."""
    key_env: str | None = None
    """The variable that holds the server's key."""
    max_file_bytes: int = Field(default=1024 * 1024, ge=1)
    """Larger files are not indexed."""
    embeddings_url: str | None = None
    """An OpenAI-compatible address, such as http://127.0.0.1:8080/v1, that makes dense vectors."""
    embeddings_model: str | None = None
    embeddings_dimensions: int | None = Field(default=None, ge=1, le=65536)
    embeddings_key_env: str | None = None
    """The variable that holds the key for the embeddings."""
    workspaces: dict[str, RetrievalWorkspace] = {}

    @model_validator(mode="after")
    def _whole_embeddings(self) -> RetrievalSettings:
        given = [self.embeddings_url, self.embeddings_model, self.embeddings_dimensions]
        if any(given) and not all(given):
            raise ValueError("embeddings_url, embeddings_model and embeddings_dimensions belong together")
        return self


class InboxSettings(BaseModel):
    """`[inbox]` in the file, `HOLDFAST_INBOX_…` in the environment."""

    model_config = ConfigDict(extra="forbid")

    bell: bool = True
    """Whether the terminal rings when a question comes."""
    toasts: bool = True
    """Whether a note is shown when a question comes."""
    light: bool = False
    """Whether the terminal is a light one."""


class Settings(BaseSettings):
    # Of HOLDFAST_QUESTIONS_RETENTION_DAYS, only `questions` is the name of a table.
    model_config = SettingsConfigDict(
        env_prefix="HOLDFAST_",
        env_nested_delimiter="_",
        env_nested_max_split=1,
        env_ignore_empty=True,  # as a container's `HOLDFAST_MODEL=${MODEL:-}` leaves them
        extra="forbid",
    )

    data_dir: Path = Field(default_factory=lambda: user_data_path("holdfast"))
    """Where the embedded store and everything else of a running Holdfast lives."""
    store: str | None = None
    """The store's address; a SQLite file in the data directory when none is given."""
    durability: Literal["full", "normal"] = "full"
    questions: QuestionSettings = Field(default_factory=QuestionSettings)
    server: ServerSettings = Field(default_factory=ServerSettings)
    inbox: InboxSettings = Field(default_factory=InboxSettings)
    blobs: BlobSettings = Field(default_factory=BlobSettings)
    workspace: WorkspaceSettings = Field(default_factory=WorkspaceSettings)
    sandbox: SandboxSettings = Field(default_factory=SandboxSettings)
    retrieval: RetrievalSettings = Field(default_factory=RetrievalSettings)
    agents: dict[str, dict[str, Any]] = {}
    """`[agents.NAME]`: the entries of the catalogue that are not there by default."""
    model: str | None = None
    """The model of contexts that name none."""
    providers: dict[str, ProviderSettings] = {}
    contexts: dict[str, dict[str, Any]] = {}
    """`[contexts.NAME]`: who answers instructions. The one named `default` is there always."""
    conversations: dict[str, dict[str, Any]] = {}
    """`[conversations.NAME]`: what the work is about."""
    execution: ExecutionSettings = Field(default_factory=ExecutionSettings)
    routing: dict[str, Any] = {}
    """`[routing]` and `[[routing.bindings]]`: which agent answers which chat."""

    @field_validator("data_dir")
    @classmethod
    def _in_home(cls, directory: Path) -> Path:
        return directory.expanduser()

    @property
    def store_url(self) -> str:
        return self.store or f"sqlite:///{self.data_dir / 'holdfast.db'}"

    @property
    def journals(self) -> Path:
        """Where it is written down which files of repositories are being changed."""
        return self.data_dir / "applying"

    @property
    def blobs_url(self) -> str:
        return self.blobs.url or (self.data_dir / "blobs").absolute().as_uri()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (
            init_settings,
            env_settings,
            InitSettingsSource(settings_cls, _under_other_names()),
            *(InitSettingsSource(settings_cls, dict(file.table)) for file in settings_files().read),
        )


OTHER_NAMES = {
    "AUQ_SESSION_DIR": ("questions", "directory"),
    "AGENT_WORKSPACE_ROOT": ("workspace", "root"),
    "AGENT_MAX_SESSIONS": ("workspace", "max_sessions"),
    "AGENT_SESSION_IDLE_TIMEOUT": ("workspace", "idle_minutes"),
}
"""Names that other programs gave to variables, and the settings they mean."""


def _under_other_names() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name, (table, field) in OTHER_NAMES.items():
        if value := os.environ.get(name):
            found.setdefault(table, {})[field] = value
    return found


PREFIX = "HOLDFAST_"

NO_SETTINGS = {"HOLDFAST_CONFIG", "HOLDFAST_SESSION", "HOLDFAST_AGENT", "HOLDFAST_PROCESS_OF"}
"""Variables of ours that are none: where the settings are, for whom a question is asked, what an agent's
processes are marked with."""


def load_settings(**flags: object) -> Settings:
    """The settings in force, with the flags that were given; a bad one is named in a sentence."""
    try:
        settings = Settings(**{name: value for name, value in flags.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise InvalidInput(f"There is no setting {name!r}; `holdfast doctor` shows all.") from None
        raise InvalidInput(f"The setting {name!r} is wrong: {first['msg']}.") from None
    except SettingsError as error:
        raise InvalidInput(
            f"A variable cannot be read: {error}. Lists and tables are written as JSON."
        ) from None
    _refuse_unknown_variables(settings)
    return settings


def _refuse_unknown_variables(settings: Settings) -> None:
    """Refuse a variable that names no setting. What a table lacks was refused when the table was read."""
    fields = type(settings).model_fields
    known = {f"{PREFIX}{name.upper()}" for name in fields}
    tables = tuple(
        f"{PREFIX}{name.upper()}_" for name in fields if isinstance(getattr(settings, name), BaseModel | dict)
    )
    named = set(_texts(settings.model_dump()))  # as the one that holds a provider's key
    for variable in sorted(name for name, value in os.environ.items() if value):
        name = variable.upper()
        is_ours = name.startswith(PREFIX) and variable not in named
        if is_ours and name not in known | NO_SETTINGS and not name.startswith(tables):
            near = get_close_matches(name, known | NO_SETTINGS, n=1)
            remedy = f"did you mean {near[0]}?" if near else "`holdfast doctor` shows all."
            raise InvalidInput(f"There is no setting {variable}; {remedy}")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for each in value.values() for text in _texts(each))
    elif isinstance(value, list | tuple):
        yield from (text for each in value for text in _texts(each))
