"""An indexing process that tests kill: it says after every step how many chunks are in the index."""

import asyncio
import sys
from pathlib import Path

from holdfast.retrieval.vector_index import VectorIndex
from tests.retrieval.trees import ORGANIZATION, opened


async def main(home: Path, root: Path) -> None:
    """Index; after each acknowledged write, print how many points it had and which they were."""
    upsert = VectorIndex.upsert

    async def telling(index: VectorIndex, organization: str, points: object) -> None:
        written = list(points)  # type: ignore[call-overload]
        await upsert(index, organization, written)
        print(*(point.name.replace("\0", "/") for point in written), flush=True)

    VectorIndex.upsert = telling  # type: ignore[assignment,method-assign]
    retrieval = await opened(home)
    if root.name == "hold":
        await retrieval.index(ORGANIZATION, root)
        print("open", flush=True)
        sys.stdin.read()
    else:
        await retrieval.index(ORGANIZATION, root)
    await retrieval.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
