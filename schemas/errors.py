"""The one exception root, and what a command does with each kind."""

from schemas.reasons import FailureReason


class ConstructBeamError(Exception):
    """Root of every error this project raises on purpose."""


class UsageError(ConstructBeamError):
    """The user can mend this: a wrong flag, a missing file or column, an invalid setting."""


class RunStoppedError(ConstructBeamError):
    """A fault of the whole run, not of a record: a bad key, a wrong URL, Ctrl-C."""


class RecordError(ConstructBeamError):
    """One record cannot be processed; it becomes a dead letter with `reason`."""

    def __init__(self, reason: FailureReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message

    def __reduce__(self) -> tuple[type["RecordError"], tuple[FailureReason, str]]:
        return type(self), (self.reason, self.message)
