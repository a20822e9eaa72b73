"""What can go wrong beyond an ordinary "no"."""


class HamiError(Exception):
    """Base of all errors of this project; its text is one lower-case sentence that tells what to do."""


class BadInputError(HamiError):
    """Something a person or program handed us is not what was expected.

    :param where: the place, such as ``pod default/train, container 'main': acme.example/npu``.
    :param expected: what belongs there.
    :param got: what came.
    :param hint: what to write instead; may be empty.
    """

    def __init__(self, where: str, expected: str, got: str, hint: str = "") -> None:
        self.where, self.expected, self.got, self.hint = where, expected, got, hint
        super().__init__(f"{where}: expected {expected}, got {got}" + (f"; {hint}" if hint else ""))


class RequestError(BadInputError):
    """A container asks for something that cannot be read or could never be granted."""


class RecordError(BadInputError):
    """An allocation record of a pod cannot be read or does not hold together; it blocks the devices it names.

    :param node: node of record as far as it could be read; empty: unknown.
    :param devices: ids that could be read. Empty on a known node: none could, so any device of that node may be meant.
    """

    def __init__(
        self,
        where: str,
        expected: str,
        got: str,
        hint: str = "",
        *,
        node: str = "",
        devices: frozenset[str] = frozenset(),
    ) -> None:
        self.node, self.devices = node, devices
        super().__init__(where, expected, got, hint)


class InventoryError(BadInputError):
    """A node's inventory cannot be read; its old devices stay, without new shares."""


class SettingsError(BadInputError):
    """A configuration value is unknown or wrong."""


class BackendError(HamiError):
    """A backend broke its promise: it raised, answered out of range, or could not be loaded.

    :param backend: its name. :param hook: the question it was asked; empty while loading. :param problem: what happened.
    """

    def __init__(self, backend: str, hook: str, problem: str) -> None:
        self.backend, self.hook, self.problem = backend, hook, problem
        super().__init__(f"backend {backend!r}{f', {hook}' if hook else ''}: {problem}")
