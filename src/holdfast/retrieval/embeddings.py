"""Dense vectors from any endpoint that speaks OpenAI's `/embeddings`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import MissingExtra
from holdfast.retrieval.errors import EmbeddingsFailed

if TYPE_CHECKING:
    import httpx2

SECONDS = 30.0
"""How long an answer may take."""

BATCH = 64
"""Texts in one request."""


class _Embedding(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Embedding]


class Embedder:
    def __init__(self, url: str, model: str, dimensions: int, key: str | None) -> None:
        self.model = model
        self.dimensions = dimensions
        self._url = f"{url.rstrip('/')}/embeddings"
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http: httpx2.AsyncClient | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """The vector of each text, in order; `EmbeddingsFailed` where there is not one for all of them."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), BATCH):
            vectors += await self._embed(texts[start : start + BATCH])
        return vectors

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        try:
            import httpx2
        except ModuleNotFoundError:
            raise MissingExtra("Dense vectors", "retrieval") from None
        if self._http is None:
            self._http = httpx2.AsyncClient(headers=self._headers, timeout=SECONDS)
        body = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        try:
            response = await self._http.post(self._url, json=body)
        except httpx2.HTTPError as error:
            raise EmbeddingsFailed(
                f"{self._url} does not answer: {str(error) or type(error).__name__}."
            ) from error
        if not response.is_success:
            raise EmbeddingsFailed(f"{self._url} answers with status {response.status_code}.")
        try:
            answer = msgspec.json.decode(response.content, type=_Answer)
        except msgspec.DecodeError as error:
            raise EmbeddingsFailed(f"{self._url} does not answer with embeddings: {error}.") from None
        return self._checked(answer, len(texts))

    def _checked(self, answer: _Answer, expected: int) -> list[list[float]]:
        vectors = [each.embedding for each in sorted(answer.data, key=lambda each: each.index)]
        if len(vectors) != expected:
            raise EmbeddingsFailed(f"{self._url} gave {len(vectors)} embeddings for {expected} texts.")
        for vector in vectors:
            if len(vector) != self.dimensions:
                raise EmbeddingsFailed(
                    f"{self.model} gives {len(vector)} dimensions and not {self.dimensions}; correct "
                    "embeddings_dimensions in [retrieval]."
                )
        return vectors
