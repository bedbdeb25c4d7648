"""Word count as a service: POST sentences, GET counts, and a page that shows every change as it comes.

uvicorn apps.wordcount.service:service
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

from fastapi import Body, Depends, FastAPI, HTTPException, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, StreamingResponse

from apps.wordcount import topology
from streamtopo import lifespan
from streamtopo.hosting.app import AsyncApp
from streamtopo.web import REFUSALS, application, hosted

LOG = os.environ.get("STREAMTOPO_LOG", "embedded:.streamtopo")
STATE = os.environ.get("STREAMTOPO_STATE_DIR", ".streamtopo/state")
Words = Annotated[AsyncApp, Depends(hosted)]

service = FastAPI(
    title="Word count",
    lifespan=lifespan(topology, LOG, state_dir=STATE, create_topics=4),
    exception_handlers=REFUSALS,
)
service.mount("/streamtopo", application(lambda: service.state.streamtopo))


@service.exception_handler(RequestValidationError)
async def refused(request: Request, error: RequestValidationError) -> Response:
    """FastAPI's own handler fails if the refused text is not valid UTF-8, so the answer is ASCII."""
    return Response(json.dumps({"detail": jsonable_encoder(error.errors())}), 422, media_type="application/json")


@service.get("/", include_in_schema=False)
async def page() -> FileResponse:
    return FileResponse(Path(__file__).with_name("page.html"))


@service.post("/sentences", status_code=202)
async def send(sentence: Annotated[str, Body(embed=True, max_length=10_000)], words: Words) -> dict[str, int]:
    return {"offset": await words.produce("sentences", sentence)}


@service.get("/words/{word:path}")
async def count(word: str, words: Words) -> dict[str, str | int]:
    word = word.lower()  # as the topology counts them
    found = await words.query_async("counts", wait="5s").get(word)
    if found is None:
        raise HTTPException(404, f'the word "{word}" has not occurred yet')
    return {"word": word, "count": found}


@service.get("/changes")
async def changes(words: Words) -> StreamingResponse:
    async def events() -> AsyncIterator[str]:
        yield ": these are server-sent events\n\n"
        async for change in words.consume("word-counts"):
            yield f"data: {json.dumps({'word': change.key, 'count': change.value})}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
