"""The app that a service's lifespan has started, as a dependency for FastAPI's `Depends` or Litestar's `Provide`."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from streamtopo.hosting import STATE
from streamtopo.hosting.app import AsyncApp, HostError


async def hosted(request: HTTPConnection) -> AsyncApp:
    """`app: Annotated[AsyncApp, Depends(hosted)]`"""
    app = getattr(request.app.state, STATE, None)
    if not isinstance(app, AsyncApp):
        raise HostError(
            "the service runs no topology; create its application with lifespan=streamtopo.lifespan(topology)"
        )
    return app
