"""Looking at an agent: is it there, does it start, does it answer, and does it leave nothing behind."""

from pathlib import Path

import pytest

from holdfast.agents.catalogue import AgentEntry
from holdfast.agents.probe import Probe, probe
from tests.agents.scripts import script
from tests.agents.worlds import World

pytestmark = pytest.mark.usefixtures("process")


async def look_at(directory: Path, body: str, seconds: float = 20) -> Probe:
    command, *args = script(directory, body)
    return await probe(AgentEntry(command=command, args=tuple(args)), seconds=seconds)


async def test_an_agent_that_answers_is_known_by_its_name(world: World) -> None:
    found = await probe(world.demo)
    assert (found.path, found.answers, found.name) == (world.demo.path(), True, "Holdfast demo agent 1")
    assert found.sandbox is not None
    assert found.sandbox["kind"] == "none"


async def test_a_missing_program_is_not_installed_and_says_how_to_get_it(tmp_path: Path) -> None:
    found = await probe(AgentEntry(command=str(tmp_path / "missing"), install="npm install it"))
    assert (found.path, found.answers) == (None, False)
    assert "missing' was not found. To install it: npm install it" in (found.problem or "")


async def test_a_program_that_cannot_be_run_says_why(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    found = await probe(AgentEntry(command=str(program)))
    assert found == Probe(path=program, problem="It cannot be started: No such file or directory.")


async def test_a_silent_agent_is_given_up(tmp_path: Path) -> None:
    found = await look_at(tmp_path, "list(lines())", seconds=0.2)
    assert (found.answers, found.problem) == (False, "It did not answer within 0.2 seconds.")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("sys.stderr.write('Starting.\\nUnknown argument: acp\\n'); sys.exit(1)", "Unknown argument: acp"),
        ("os.kill(0, signal.SIGKILL)", "he agent"),  # closed its output, or its pipe broke
        ("os.close(1); time.sleep(600)", "The agent closed its output."),
        ("next(lines()); send({'id': 1, 'error': {'code': 1, 'message': 'no'}})", "refused initialize: no"),
        ("next(lines()); send({'id': 1, 'result': 5})\nlist(lines())", "Expected `object`, got `int`"),
        ("next(lines()); send({'id': 1, 'result': {'agentInfo': []}})\nlist(lines())", "got `array`"),
    ],
)
async def test_an_agent_that_fails_is_reported_with_what_it_said(
    tmp_path: Path, body: str, problem: str
) -> None:
    found = await look_at(tmp_path, body)
    assert found.path is not None
    assert not found.answers
    assert problem in (found.problem or "")


async def test_noise_around_the_answer_does_not_matter_and_a_name_is_not_needed(tmp_path: Path) -> None:
    body = """
send("Welcome!")
send({"method": "session/update", "params": {}})
send({"id": 0, "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}})
heard = [next(lines()), next(lines())]
asked = next(each for each in heard if "method" in each)
assert [each["error"]["code"] for each in heard if "error" in each] == [-32601]
send({"id": asked["id"], "result": {"protocolVersion": 1}})
list(lines())
"""
    found = await look_at(tmp_path, body)
    assert (found.answers, found.name, found.problem) == (True, None, None)


async def test_nothing_is_left_of_an_agent_that_would_stay(tmp_path: Path) -> None:
    body = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
send({"id": next(lines())["id"], "result": {"agentInfo": {"title": "Limpet", "version": "2"}}})
time.sleep(600)
"""
    assert (await look_at(tmp_path, body)).name == "Limpet 2"
