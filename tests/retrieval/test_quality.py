"""How good the answers are, without any model: questions whose answers were fixed beforehand."""

from pathlib import Path

import pytest

from holdfast.retrieval import Retrieval
from tests.retrieval.questions import packages_in, questions, unanswered
from tests.retrieval.trees import ORGANIZATION


@pytest.mark.usefixtures("process")
async def test_most_questions_are_answered_by_one_of_the_first_five_chunks(
    tmp_path: Path, retrieval: Retrieval
) -> None:
    await retrieval.index(ORGANIZATION, packages_in(tmp_path / "packages"))
    missed = await unanswered(retrieval, ORGANIZATION, "paraphrased")
    assert len(missed) <= 0.25 * len(questions("paraphrased")), missed
    assert await unanswered(retrieval, ORGANIZATION, "identifiers") == []
