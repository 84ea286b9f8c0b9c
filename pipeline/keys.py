"""Whether the workers of a run will find the verifier's key, as far as submission can tell."""

from schemas.errors import UsageError
from verifier.key_source import KeyKind, KeySource
from verifier.key_value import read_key


def check_key(key: KeySource | None, *, local: bool, dataflow: bool, in_image: bool) -> None:
    """Read the key where workers read it, too; refuse what workers cannot have.

    `local`: all workers are on this machine; `in_image`: their image sets the key's variable.
    Raises UsageError with the remedy, and KeyUnavailableError.
    """
    if key is None:
        return
    in_environment = key.kind is KeyKind.VARIABLE
    if in_environment and dataflow and not in_image:
        raise UsageError(
            f"Dataflow's workers do not have your environment, so no {key.name}: put the key into "
            "Secret Manager and name it with --api_key_secret projects/P/secrets/S/versions/latest "
            "(or add --key_in_image, if the workers' image sets that variable)"
        )
    if local or (in_environment and not in_image):
        read_key(key)
