"""What FastAPI's `Depends` and Litestar's `Provide` take: the app that a service's lifespan started."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from streamtopo.hosting import STATE
from streamtopo.hosting.app import AsyncApp, HostError


async def hosted(request: HTTPConnection) -> AsyncApp:
    """`app: Annotated[AsyncApp, Depends(hosted)]`"""
    app = getattr(request.app.state, STATE, None)
    if not isinstance(app, AsyncApp):
        raise HostError("the service has no topology; give its application lifespan=streamtopo.lifespan(topology)")
    return app
