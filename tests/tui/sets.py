"""Question sets of every kind that an inbox meets."""

from holdfast.model.question import NewQuestionSet, Option, Question, QuestionKind
from tests.questions.sets import FEATURES, LANGUAGE

NAME = Question(title="Name", prompt="What is the project called?")
PLAN = NewQuestionSet(questions=(LANGUAGE, FEATURES, NAME), agent="claude", working_directory="/repo/app")
ONE = NewQuestionSet(questions=(LANGUAGE,), agent="claude")
SEVERAL = NewQuestionSet(questions=(FEATURES,), agent="claude")

ALLOW = Question(
    title="Permission",
    prompt="Allow this?",
    options=(Option("Allow"), Option("Allow for this session"), Option("Reject")),
)
OLD = "import os\n\ndef build(target):\n    path = os.path.join('build', target)\n    return path\n"
NEW = "from pathlib import Path\n\ndef build(target):\n    return Path('build') / target\n"
EDIT = NewQuestionSet(
    questions=(ALLOW,),
    kind=QuestionKind.PERMISSION,
    agent="gemini",
    working_directory="/repo/app",
    tool={
        "toolCallId": "call-1",
        "title": "Writing to build.py",
        "kind": "edit",
        "content": [{"type": "diff", "path": "/repo/app/build.py", "oldText": OLD, "newText": NEW}],
    },
)
RUN = NewQuestionSet(
    questions=(ALLOW,),
    kind=QuestionKind.PERMISSION,
    agent="codex",
    tool={"title": "Run the tests", "rawInput": {"command": ["make", "test all"], "cwd": "/repo"}},
)
FORM = NewQuestionSet(
    questions=(
        Question(title="Region", prompt="Where?", options=(Option("eu-central-1"), Option("us-east-1"))),
    ),
    kind=QuestionKind.ELICITATION,
    agent="deployer",
)
