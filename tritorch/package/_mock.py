"""What stands in an archive for the objects of a module that was left out: an error when used."""

_SAID = "Object '{}' was mocked out during packaging but it is being used in {}"
_BINARY = "add sub mul truediv floordiv mod divmod pow lshift rshift and xor or div"
_OTHERS = """
    subclasscheck instancecheck float complex int long index hex oct bool nonzero
    neg pos abs invert round trunc floor ceil eq ne lt le gt ge cmp hash sizeof
    len reversed contains iter getitem setitem delitem enter exit call copy deepcopy
    reduce getstate getattr setattr delattr dir bytes unicode
"""


class MockedObject:
    """An object of a module that was left out."""

    _name: str

    def __new__(cls, *args: object, **kwargs: object) -> "MockedObject":
        # A module that stands for one makes these; whoever else does would have the real one, an
        # unpickler for example.
        if not kwargs.get("_suppress_err"):
            raise NotImplementedError(
                _SAID.format(cls._name, "'__new__'")
                + ". If this error is happening during 'load_pickle', please ensure that your "
                "pickled object doesn't contain any mocked objects."
            )
        return super().__new__(cls)

    def __init__(self, name: str, _suppress_err: bool) -> None:
        self.__dict__["_name"] = name

    def __repr__(self) -> str:
        return f"MockedObject({self._name})"


def install_method(method_name: str) -> None:
    """Makes a use of mocked objects an error."""

    def refused(self: MockedObject, *args: object, **kwargs: object) -> None:
        raise NotImplementedError(_SAID.format(self._name, method_name))

    setattr(MockedObject, method_name, refused)


for _each in _BINARY.split():
    for _kind in ("", "r", "i"):
        install_method(f"__{_kind}{_each}__")
for _each in _OTHERS.split():
    install_method(f"__{_each}__")
