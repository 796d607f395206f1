"""Counts of sessions by owner, agent, repository and status, kept by triggers.

A listing shows its exact total without counting rows. Each session counts in eight rows: every
combination of its owner, agent and repository with "any", which is '' for a text and 0 for a
repository. The total of a filter is then one lookup, or one per status.
"""

from holdfast.store.migrations.ddl import dialect, execute

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    execute(TABLE)
    execute(SQLITE_TRIGGERS if dialect() == "sqlite" else POSTGRES_TRIGGERS)
    execute(FILL)


def downgrade() -> None:
    if dialect() == "sqlite":
        for trigger in ("sessions_counted", "sessions_recounted", "sessions_uncounted"):
            execute(f"DROP TRIGGER {trigger}")
    else:
        execute("DROP TRIGGER sessions_counted ON sessions\n\nDROP FUNCTION count_session")
    execute("DROP TABLE session_counts")


TABLE = """
CREATE TABLE session_counts (
    organization TEXT NOT NULL,
    owner TEXT NOT NULL,
    agent TEXT NOT NULL,
    repo_pk {INT} NOT NULL,
    status TEXT NOT NULL,
    n {INT} NOT NULL,
    PRIMARY KEY (organization, owner, agent, repo_pk, status)
) {END}
"""

FILL = """
INSERT INTO session_counts (organization, owner, agent, repo_pk, status, n)
SELECT s.organization,
       CASE WHEN o.any_owner = 1 THEN '' ELSE s.owner END,
       CASE WHEN a.any_agent = 1 THEN '' ELSE s.agent END,
       CASE WHEN r.any_repo = 1 THEN 0 ELSE s.repo_pk END,
       s.status, count(*)
FROM sessions s
CROSS JOIN (SELECT 0 AS any_owner UNION ALL SELECT 1) o
CROSS JOIN (SELECT 0 AS any_agent UNION ALL SELECT 1) a
CROSS JOIN (SELECT 0 AS any_repo UNION ALL SELECT 1) r
WHERE r.any_repo = 1 OR s.repo_pk IS NOT NULL
GROUP BY 1, 2, 3, 4, 5
"""

_ADD = """
    INSERT INTO session_counts (organization, owner, agent, repo_pk, status, n)
    SELECT ROW.organization, o.owner, a.agent, r.repo_pk, ROW.status, CHANGE
    FROM (SELECT '' AS owner UNION ALL SELECT ROW.owner) o
    CROSS JOIN (SELECT '' AS agent UNION ALL SELECT ROW.agent) a
    CROSS JOIN (SELECT 0 AS repo_pk UNION ALL SELECT ROW.repo_pk WHERE ROW.repo_pk IS NOT NULL) r
    WHERE true
    ON CONFLICT (organization, owner, agent, repo_pk, status)
    DO UPDATE SET n = session_counts.n + excluded.n;
"""


def _add(row: str, change: int) -> str:
    return _ADD.replace("ROW", row).replace("CHANGE", str(change)).strip("\n")


_MOVED = """OLD.organization <> NEW.organization OR OLD.owner <> NEW.owner OR OLD.agent <> NEW.agent
    OR OLD.status <> NEW.status OR coalesce(OLD.repo_pk, 0) <> coalesce(NEW.repo_pk, 0)"""

SQLITE_TRIGGERS = f"""
CREATE TRIGGER sessions_counted AFTER INSERT ON sessions
BEGIN
{_add("NEW", 1)}
END

CREATE TRIGGER sessions_recounted AFTER UPDATE OF organization, owner, agent, repo_pk, status ON sessions
WHEN {_MOVED}
BEGIN
{_add("OLD", -1)}
{_add("NEW", 1)}
END

CREATE TRIGGER sessions_uncounted AFTER DELETE ON sessions
BEGIN
{_add("OLD", -1)}
END
"""

POSTGRES_TRIGGERS = f"""
CREATE FUNCTION count_session() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NOT ({_MOVED}) THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
{_add("OLD", -1)}
    END IF;
    IF TG_OP <> 'DELETE' THEN
{_add("NEW", 1)}
    END IF;
    RETURN NULL;
END $$

CREATE TRIGGER sessions_counted
AFTER INSERT OR DELETE OR UPDATE OF organization, owner, agent, repo_pk, status
ON sessions FOR EACH ROW EXECUTE FUNCTION count_session()
"""
