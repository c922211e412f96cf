"""Routes that read their parameters in one step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from scholarbase.api.recording import respond_in_session
from scholarbase.api.session_headers import names_session
from scholarbase.api.strict import check_parameters, known_parameters


class DirectRoute(APIRoute):
    """A route that hands its endpoint the request, the library, the paper id of the path and the parameters of the URL,
    and keeps what belongs to a session.

    FastAPI works out anew for each call what an endpoint takes and where that stands, which was a third of the time
    of a look-up. A call with something wrong in it goes FastAPI's way after all, so that it says what is wrong. So do
    calls with a body, and those of endpoints that block.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = self._answer()

        async def handle(request: Request) -> Response:
            if names_session(request.scope):
                return await respond_in_session(request, self.name, answer)
            return await answer(request)

        return handle

    def _answer(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        thorough = super().get_route_handler()
        endpoint, model = self.endpoint, self._model()
        takes_paper = "paper_id" in self.param_convertors
        if self.body_field is not None or model is None:
            return thorough

        async def direct(request: Request) -> Response:
            await check_parameters(request)
            try:
                given: dict[str, Any] = {"parameters": model.model_validate(self._values(request))}
            except ValidationError:
                return await thorough(request)
            if takes_paper:
                given["paper_id"] = request.path_params["paper_id"]
            answer: Response = await endpoint(request=request, library=request.app.state.library, **given)
            return answer

        return direct

    def _model(self) -> type[BaseModel] | None:
        """What the parameters of the URL are read into, where the endpoint is a coroutine that takes such."""
        if not inspect.iscoroutinefunction(self.endpoint) or len(self.dependant.query_params) != 1:
            return None
        model = self.dependant.query_params[0].field_info.annotation
        return model if isinstance(model, type) and issubclass(model, BaseModel) else None

    def _values(self, request: Request) -> dict[str, Any]:
        values: dict[str, Any] = {}
        if request.scope["query_string"]:
            _, repeated = known_parameters(self)
            for name, value in request.query_params.multi_items():
                if name in repeated:
                    values.setdefault(name, []).append(value)
                else:
                    values[name] = value
        return values
