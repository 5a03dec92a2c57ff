"""torch._C._monitor: what torch.monitor is made of."""

from __future__ import annotations

from tritorch.monitor import (
    Aggregation,
    Event,
    EventHandlerHandle,
    Stat,
    _WaitCounter,
    _WaitCounterTracker,
    data_value_t,
    log_event,
    register_event_handler,
    unregister_event_handler,
)

__all__ = [
    "Aggregation", "Event", "EventHandlerHandle", "Stat", "_WaitCounter", "_WaitCounterTracker",
    "data_value_t", "log_event", "register_event_handler", "unregister_event_handler",
]  # fmt: skip
