"""An agent that says much and thinks nothing: a child process of the benchmarks, without any import of ours.

A prompt `flood N` is answered with N updates as fast as they can be written, and `written` on standard
error; `pace RATE SECONDS` with RATE updates a second, each of which says when it was written, in
nanoseconds of the monotonic clock.
"""

import json
import sys
import time

BATCH = 500
TICK = 0.005
"""Seconds between two writes of a paced agent: what is due by then goes out, one line per update."""


def main() -> None:
    answers = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}
    for line in sys.stdin:
        message = json.loads(line)
        if message["method"] == "session/prompt":
            kind, *numbers = message["params"]["prompt"][0]["text"].split()
            (flood if kind == "flood" else pace)(*map(int, numbers))
            answer(message["id"], {"stopReason": "end_turn"})
        elif "id" in message:
            answer(message["id"], answers.get(message["method"], {}))


def flood(count: int) -> None:
    batch = b"".join(update(f"word{number:04} ") for number in range(BATCH))
    for _ in range(count // BATCH):
        sys.stdout.buffer.write(batch)
    sys.stdout.buffer.flush()
    print("written", file=sys.stderr)


def pace(rate: int, seconds: int) -> None:
    begin = time.monotonic()
    written = 0
    while written < rate * seconds:
        time.sleep(TICK)
        due = min(int((time.monotonic() - begin) * rate), rate * seconds)
        for _ in range(written, due):
            sys.stdout.buffer.write(update(f"{time.monotonic_ns()} "))
            sys.stdout.buffer.flush()
        written = due


def update(text: str) -> bytes:
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    line = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": chunk}}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def answer(number: object, result: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
