"""The floor of the server: a bare Starlette route that answers with the bytes of a file.

python -m benchmarks.bare_server FILE      prints its address when it listens
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def main(file: str) -> None:
    answer = Path(file).read_bytes()  # noqa: ASYNC240  # before anything is served

    async def route(request: Request) -> Response:
        return Response(answer, media_type="application/json")

    app = Starlette(routes=[Route("/", route)])
    config = uvicorn.Config(
        app, port=0, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False
    )
    server = Announcing(config)
    await server.serve()


class Announcing(uvicorn.Server):
    async def startup(self, sockets: object = None) -> None:
        await super().startup()
        host, port = self.servers[0].sockets[0].getsockname()
        print(f"http://{host}:{port}/", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
