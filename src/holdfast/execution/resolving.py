"""What a request leaves unsaid: taken from its session, then from its contexts."""

from __future__ import annotations

from holdfast.execution.contexts import AgentContext, Contexts, ConversationContext
from holdfast.execution.input import ExecutionInput
from holdfast.model.session import NewSession, Session
from holdfast.retrieval import SearchFilter

TITLE_LENGTH = 80


def resolved_contexts(
    contexts: Contexts, asked: ExecutionInput, session: Session | None
) -> tuple[AgentContext, ConversationContext | None]:
    """Those of the request; else those of the session."""
    agent = asked.agent_context or (session.agent_context_id if session else None)
    conversation = asked.conversation_context or (session.conversation_context_id if session else None)
    return contexts.agent(agent), contexts.conversation(conversation)


def new_session(
    asked: ExecutionInput, agent: AgentContext, conversation: ConversationContext | None
) -> NewSession:
    first = asked.instruction.strip().splitlines()[0]
    return NewSession(
        agent=agent.name,
        title=first if len(first) <= TITLE_LENGTH else f"{first[: TITLE_LENGTH - 1]}…",
        agent_context_id=agent.id,
        conversation_context_id=conversation.id if conversation else None,
        workspace_id=asked.workspace_id or (conversation.workspace if conversation else None),
        repo_name=_repository(asked, agent, conversation, None),
        default_language=asked.language or (conversation and conversation.language) or agent.language,
    )


def search_filter(
    asked: ExecutionInput, agent: AgentContext, conversation: ConversationContext | None, session: Session
) -> SearchFilter:
    """Where retrieval looks: in the repository; in the workspace's where none is known."""
    repository = _repository(asked, agent, conversation, session)
    return SearchFilter(
        repository=repository,
        workspace=None if repository else asked.workspace_id or session.workspace_id,
    )


def _repository(
    asked: ExecutionInput,
    agent: AgentContext,
    conversation: ConversationContext | None,
    session: Session | None,
) -> str | None:
    return (
        asked.repository
        or (session.repo_name if session else None)
        or (conversation.repository if conversation else None)
        or agent.repository
    )
