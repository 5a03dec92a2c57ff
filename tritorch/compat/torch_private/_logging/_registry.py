"""Which loggers and artifacts there are, and which of them are asked for."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Sequence

from tritorch.compat.torch_private._logging import _registrations


@dataclasses.dataclass
class LogRegistry:
    """The names that logs can be asked for by."""

    log_alias_to_log_qnames: dict[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    artifact_log_qnames: set[str] = dataclasses.field(default_factory=set)
    child_log_qnames: set[str] = dataclasses.field(default_factory=set)
    artifact_names: set[str] = dataclasses.field(default_factory=set)
    visible_artifacts: set[str] = dataclasses.field(default_factory=set)
    artifact_descriptions: dict[str, str] = dataclasses.field(default_factory=dict)
    off_by_default_artifact_names: set[str] = dataclasses.field(default_factory=set)
    artifact_log_formatters: dict[str, logging.Formatter] = dataclasses.field(default_factory=dict)

    def is_artifact(self, name: str) -> bool:
        """Whether it names an artifact."""
        return name in self.artifact_names

    def is_log(self, alias: str) -> bool:
        """Whether it names a component."""
        return alias in self.log_alias_to_log_qnames

    def register_log(self, alias: str, log_qnames: str | Sequence[str]) -> None:
        """Adds a component: a name for one logger or several."""
        named = [log_qnames] if isinstance(log_qnames, str) else log_qnames
        self.log_alias_to_log_qnames[alias] = named

    def register_artifact_name(
        self,
        name: str,
        description: str,
        visible: bool,
        off_by_default: bool,
        log_format: str | None,
    ) -> None:
        """Adds an artifact."""
        self.artifact_names.add(name)
        self.artifact_descriptions[name] = description
        if visible:
            self.visible_artifacts.add(name)
        if off_by_default:
            self.off_by_default_artifact_names.add(name)
        if log_format is not None:
            self.artifact_log_formatters[name] = logging.Formatter(log_format)

    def register_artifact_log(self, artifact_log_qname: str) -> None:
        """Adds a logger of an artifact, which every change of the state sets anew."""
        self.artifact_log_qnames.add(artifact_log_qname)

    def register_child_log(self, log_qname: str) -> None:
        """Adds a logger below one of a component."""
        self.child_log_qnames.add(log_qname)

    def get_log_qnames(self) -> set[str]:
        """The loggers of all components."""
        return {name for names in self.log_alias_to_log_qnames.values() for name in names}

    def get_artifact_log_qnames(self) -> set[str]:
        """The loggers of artifacts."""
        return set(self.artifact_log_qnames)

    def get_child_log_qnames(self) -> set[str]:
        """The loggers below those of components."""
        return set(self.child_log_qnames)

    def is_off_by_default(self, artifact_qname: str) -> bool:
        """Whether an artifact has to be asked for by name."""
        return artifact_qname in self.off_by_default_artifact_names


@dataclasses.dataclass
class LogState:
    """The levels and artifacts that are asked for."""

    log_qname_to_level: dict[str, int] = dataclasses.field(default_factory=dict)
    artifact_names: set[str] = dataclasses.field(default_factory=set)

    def enable_artifact(self, artifact_name: str) -> None:
        """Turns an artifact on."""
        self.artifact_names.add(artifact_name)

    def is_artifact_enabled(self, name: str) -> bool:
        """Whether an artifact is on."""
        return name in self.artifact_names

    def enable_log(self, log_qnames: str | Sequence[str], log_level: int) -> None:
        """Sets the level of loggers."""
        named = [log_qnames] if isinstance(log_qnames, str) else log_qnames
        self.log_qname_to_level.update(dict.fromkeys(named, log_level))

    def get_log_level_pairs(self) -> Iterable[tuple[str, int]]:
        """The loggers whose levels are asked for."""
        return self.log_qname_to_level.items()

    def clear(self) -> None:
        """Nothing is asked for."""
        self.log_qname_to_level.clear()
        self.artifact_names.clear()


log_registry = LogRegistry()
for _name, _loggers in _registrations.COMPONENTS.items():
    log_registry.register_log(_name, _loggers)
for _name, (_flags, _description) in _registrations.ARTIFACTS.items():
    _format = _registrations.FORMATS.get(_name)
    log_registry.register_artifact_name(_name, _description, "v" in _flags, "o" in _flags, _format)
