"""The agents that can be started: those that are known by default, and those of `holdfast.toml`.

An entry is any command that speaks ACP on its standard input and output. It gets a clean
environment: what every program needs, what its entry sets, and the variables its entry names.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from holdfast.agents.permissions import Decision, Policy, Rule
from holdfast.agents.sandbox import Wanted
from holdfast.agents.sandbox.home import is_below
from holdfast.compaction.policy import CompactionPolicy
from holdfast.errors import HoldfastError, InvalidInput, NotFound

PASSED_TO_ALL = (
    *(
        "HOME",
        "LANG",
        "LC_*",
        "LOGNAME",
        "PATH",
        "SHELL",
        "SSL_CERT_*",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        "XDG_*",
    ),
    *(
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "NODE_EXTRA_CA_CERTS",
    ),
)


class AgentNotInstalled(HoldfastError):
    """The entry's command is not there. No session is made for it."""

    code = "agent_not_installed"
    status = 503


class AgentEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    pass_env: tuple[str, ...] = ()
    """Names, or patterns such as `OPENAI_*`, of variables that are passed on from our environment."""
    workspace_flag: str | None = None
    """Given, the flag and the repository's absolute path are added to the arguments."""
    permissions: Decision = Decision.ASK
    """What becomes of a request for permission that no rule decides."""
    rules: tuple[Rule, ...] = ()
    sandbox: Wanted = Wanted.AUTO
    own_sandbox_off: tuple[str, ...] = ()
    """Arguments that switch off a sandbox of the agent's own. Inside ours, it could not make it."""
    network: bool | tuple[str, ...] = True
    """False for an agent that is to reach nothing. Hosts, such as `api.example.org` or `localhost:8080`, for
    one that reaches these through the proxy of its sandbox."""
    sees: tuple[str, ...] = ()
    """What it may read beside its repository, its installation and the system. `~/` is your home."""
    writes: tuple[str, ...] = ()
    """What it may write beside its repository."""
    configuration: tuple[str, ...] = ()
    """Its settings, below your home. They can name programs, so it only reads them."""
    credentials: tuple[str, ...] = ()
    """The files below your home with which it signs in. It writes them when it renews them."""
    session_files: tuple[str, ...] = ()
    """Where the agent keeps a session, as patterns below its home with `{id}` or `{id8}` in them.
    The files are copied before a session is loaded, and put back when that fails."""
    reads_through_us: bool = True
    """False for an agent that takes our answer that a file is missing for a failure: it could create none."""
    loads_in_first_minute: bool = True
    """False for an agent that destroys a session which is loaded in the minute it was made in."""
    replay_seconds: float = 0
    """How long an agent may go on telling the past after it has answered `session/load`."""
    install: str | None = None
    """How a person gets it."""
    compaction: CompactionPolicy | None = None
    """When and how what a model is shown of its sessions is shortened."""

    def __post_init__(self) -> None:
        for name in (*self.configuration, *self.credentials):
            if not is_below(name):
                raise ValueError(
                    f"{name!r} is no path below a home, such as `.mine/settings.json`; for others there are "
                    "`sees` and `writes`"
                )

    @property
    def policy(self) -> Policy:
        return Policy(default=self.permissions, rules=self.rules)

    def path(self, environment: Mapping[str, str] = os.environ) -> Path | None:
        """Where the command is, whatever directory it is started in; None when it is not installed."""
        found = shutil.which(os.path.expanduser(self.command), path=environment.get("PATH"))  # noqa: PTH111
        return Path(found).absolute() if found else None

    def command_line(
        self, workspace: Path, environment: Mapping[str, str] = os.environ, *, confined: bool = False
    ) -> list[str]:
        """How it is started; `confined`, in a sandbox of ours."""
        path = self.path(environment)
        if path is None:
            hint = f" To install it: {self.install}" if self.install else ""
            others = "`holdfast agents` shows those that are there; demo always is."
            raise AgentNotInstalled(f"The agent's program {self.command!r} was not found.{hint} ({others})")
        flag = [self.workspace_flag, str(workspace)] if self.workspace_flag else []
        own = self.own_sandbox_off if confined else ()
        return [str(path), *self.args, *own, *flag]

    def environment(self, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        patterns = (*PASSED_TO_ALL, *self.pass_env)
        passed = {
            name: value
            for name, value in environment.items()
            if any(fnmatchcase(name, pattern) for pattern in patterns)
        }
        return passed | self.env


def default_entries(environment: Mapping[str, str] = os.environ) -> dict[str, AgentEntry]:
    return {
        "gemini": AgentEntry(
            command=environment.get("GEMINI_CLI_PATH") or "gemini",
            args=("--experimental-acp",),
            pass_env=("GEMINI_*", "GOOGLE_*"),
            session_files=(".gemini/tmp/*/chats/session-*-{id8}.jsonl",),
            reads_through_us=False,
            loads_in_first_minute=False,
            replay_seconds=0.5,
            configuration=(
                ".gemini/.env",
                ".gemini/GEMINI.md",
                ".gemini/commands",
                ".gemini/extensions",
                ".gemini/google_accounts.json",
                ".gemini/policies",
                ".gemini/settings.json",
                ".gemini/trustedFolders.json",
            ),
            credentials=(".gemini/mcp-oauth-tokens.json", ".gemini/oauth_creds.json"),
            install="npm install -g @google/gemini-cli",
        ),
        "codex": AgentEntry(
            command="codex-acp",
            own_sandbox_off=("-c", 'sandbox_mode="danger-full-access"'),
            pass_env=("OPENAI_*", "CODEX_*"),
            configuration=(
                ".codex/AGENTS.md",
                ".codex/config.toml",
                ".codex/prompts",
                ".codex/rules",
                ".codex/skills",
            ),
            credentials=(".codex/auth.json",),
            install="npm install -g @zed-industries/codex-acp",
        ),
        "claude": AgentEntry(
            command="claude-agent-acp",
            pass_env=("ANTHROPIC_*", "CLAUDE_*"),
            configuration=(
                ".claude/CLAUDE.md",
                ".claude/agents",
                ".claude/commands",
                ".claude/hooks",
                ".claude/output-styles",
                ".claude/plugins",
                ".claude/settings.json",
                ".claude/skills",
            ),
            credentials=(".claude/.credentials.json",),
            install="npm install -g @agentclientprotocol/claude-agent-acp",
        ),
        "opencode": AgentEntry(
            command="opencode",
            args=("acp",),
            pass_env=("ANTHROPIC_*", "OPENAI_*", "OPENCODE_*"),
            configuration=(".config/opencode",),
            credentials=(".local/share/opencode/auth.json",),
            install="npm install -g opencode-ai",
        ),
        "qwen": AgentEntry(
            command="qwen",
            args=("--acp",),
            pass_env=("DASHSCOPE_*", "OPENAI_*", "QWEN_*"),
            configuration=(
                ".qwen/.env",
                ".qwen/QWEN.md",
                ".qwen/agents",
                ".qwen/commands",
                ".qwen/extensions",
                ".qwen/settings.json",
                ".qwen/skills",
            ),
            credentials=(".qwen/oauth_creds.json",),
            install="npm install -g @qwen-code/qwen-code",
        ),
        "hermes": AgentEntry(
            command="hermes-acp",
            pass_env=("HERMES_*", "OPENAI_*", "OPENROUTER_*"),
            configuration=(".hermes/.env", ".hermes/SOUL.md", ".hermes/config.yaml", ".hermes/skills"),
            credentials=(".hermes/auth.json",),
            install="pip install 'hermes-agent[acp]'",
        ),
        "goose": AgentEntry(
            command="goose",
            args=("acp",),
            pass_env=("GOOSE_*", "ANTHROPIC_*", "GOOGLE_*", "OPENAI_*"),
            configuration=(".config/goose",),
            install="see the documentation of goose",
        ),
        "demo": AgentEntry(command=sys.executable, args=("-m", "holdfast.agents.demo")),
    }


class Catalogue:
    """Agents by name."""

    def __init__(self, entries: Mapping[str, AgentEntry]) -> None:
        self._entries = dict(entries)

    @classmethod
    def from_settings(
        cls, configured: Mapping[str, object], environment: Mapping[str, str] = os.environ
    ) -> Catalogue:
        """The default entries, with those of the settings added or put in their place."""
        entries = default_entries(environment)
        for name, entry in configured.items():
            try:
                entries[name] = _with_its_files(msgspec.convert(entry, AgentEntry), entries.get(name))
            except msgspec.ValidationError as error:
                raise InvalidInput(f"[agents.{name}] in the settings is wrong: {error}.") from None
        return cls(entries)

    def with_permissions(self, decision: Decision) -> Catalogue:
        """The same agents, with another answer to requests that no rule decides."""
        return Catalogue(
            {
                name: msgspec.structs.replace(entry, permissions=decision)
                for name, entry in self._entries.items()
            }
        )

    def __getitem__(self, name: str) -> AgentEntry:
        if name not in self._entries:
            known = ", ".join(sorted(self._entries))
            raise NotFound(
                f"There is no agent {name!r}; known are {known}. Others are added in holdfast.toml."
            )
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)


def _with_its_files(entry: AgentEntry, default: AgentEntry | None) -> AgentEntry:
    """An entry in the place of a default one has the same files in your home, unless it names others."""
    if default is None or entry.configuration or entry.credentials:
        return entry
    return msgspec.structs.replace(
        entry, configuration=default.configuration, credentials=default.credentials
    )
