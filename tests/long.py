"""Tries for a given time to make something fail: `make test-long SECONDS=600 SEED=7`

First a server is used by many people while its agents crash (`benchmarks.soak`), for a fifth of the time.
Then all random tests run again and again, each round with the next seed. The first failure ends it, and says
how to repeat it.
"""

import argparse
import random
import subprocess
import sys
import time
from itertools import count

ROUND = ("-q", "-m", "random", "--dist", "loadgroup", "--long")
SOAK_PART = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.long", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long to try")
    parser.add_argument("--seed", type=int, default=None, help="where to begin; otherwise at random")
    parser.add_argument("--workers", default="6")
    options, more = parser.parse_known_args()
    first = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    ends_at = time.monotonic() + options.seconds
    minutes = options.seconds / SOAK_PART / 60
    print(f"▸ seed {first}: {minutes:.1f} minutes of a busy server", flush=True)
    if failed := _run("benchmarks.soak", "--minutes", str(minutes), "--seed", str(first)):
        return _repeat(first, failed)
    for seed in count(first):
        left = ends_at - time.monotonic()
        if left <= 0:
            return 0
        print(f"▸ seed {seed}: random tests, {left:.0f} s left", flush=True)
        seeds = ("--seed", str(seed), "--hypothesis-seed", str(seed), "--for-seconds", str(left))
        if failed := _run("pytest", *ROUND, "-n", options.workers, *seeds, *more):
            return _repeat(seed, failed)
    raise AssertionError("there is always another seed")


def _run(module: str, *arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", module, *arguments], check=False).returncode


def _repeat(seed: int, code: int) -> int:
    print(f"It failed with seed {seed}. To repeat it: make test-long SEED={seed}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
