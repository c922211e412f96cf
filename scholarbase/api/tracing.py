"""OpenTelemetry traces: a span for each request, with a span for each of its stages.

Where spans are sent is set by OpenTelemetry's own variables, such as ``OTEL_EXPORTER_OTLP_ENDPOINT``
(https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from scholarbase import __version__
from scholarbase.extras import check_installed
from scholarbase.timing import Stage


class Tracer:
    """Sends the spans of finished requests.

    Raises:
        MissingExtra: OpenTelemetry is not installed.
    """

    def __init__(self) -> None:
        check_installed("tracing", "SCHOLARBASE_TRACING")
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        # Variables such as OTEL_SERVICE_NAME take precedence.
        resource = Resource({"service.name": "scholarbase"}).merge(
            Resource.create({"service.version": __version__})
        )
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("scholarbase", __version__)
        self._propagator = TraceContextTextMapPropagator()

    def close(self) -> None:
        """Send the spans that wait."""
        self._provider.shutdown()

    def send(
        self,
        method: str,
        route: str,
        status: int,
        stages: Iterable[Stage],
        *,
        start: float,
        snapshot: str,
        request_id: str,
        headers: Iterable[tuple[bytes, bytes]],
    ) -> None:
        """Send the spans of a request that began at ``start`` (``time.perf_counter``) and ends now.

        Attribute names follow https://opentelemetry.io/docs/specs/semconv/http/http-spans/. A ``traceparent`` header
        makes the caller's span the parent.
        """
        from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context

        sent = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        clock = time.time() - time.perf_counter()
        attributes: dict[str, Any] = {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": status,
            "scholarbase.request_id": request_id,
            "scholarbase.snapshot": snapshot,
        }
        span = self._tracer.start_span(
            f"{method} {route}",
            context=self._propagator.extract(sent),
            kind=SpanKind.SERVER,
            attributes=attributes,
            start_time=_nanoseconds(clock + start),
        )
        if status >= 500:
            span.set_status(StatusCode.ERROR)
        context = set_span_in_context(span)
        for name, begin, end in stages:
            child = self._tracer.start_span(name, context=context, start_time=_nanoseconds(clock + begin))
            child.end(_nanoseconds(clock + end))
        span.end()


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
