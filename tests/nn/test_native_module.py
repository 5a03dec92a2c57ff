"""Attributes, calls and assignments of modules are native: what programs may do with them all the
same."""

import abc
import copy
import dataclasses
import functools
import gc
import inspect
import pickle
import typing
import weakref
from collections import OrderedDict
from unittest import mock

import pytest

import tritorch as torch
from tritorch import nn


class Net(nn.Module):
    label = "class"

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("mean", torch.zeros(2))
        self.inner = nn.Identity()
        self.plain = 3

    @property
    def broken(self):
        return self.missing_here

    def forward(self, x, *more, scale=1, **named):
        return x * scale, more, named


def test_everything_registered_is_read_by_name():
    net = Net()
    assert net.weight is net._parameters["weight"] and net.mean is net._buffers["mean"]
    assert net.inner is net._modules["inner"] and net.plain == 3 and net.label == "class"
    net.register_parameter("none", None)
    assert net.none is None and hasattr(net, "none") and not hasattr(net, "other")
    net.__dict__["weight"] = "own"  # what the instance has comes first
    assert net.weight == "own"
    assert nn.Module.__getattr__(net, "mean") is net._buffers["mean"]
    del net.mean
    with pytest.raises(AttributeError, match=r"^'Net' object has no attribute 'mean'$"):
        net.mean  # noqa: B018
    with pytest.raises(AttributeError, match=r"^'Net' object has no attribute 'mean'$"):
        net.__getattr__("mean")
    with pytest.raises(TypeError, match="attribute name must be string"):
        getattr(net, 1)


def test_a_property_that_raises_hides_its_error_but_finds_what_is_registered():
    net = Net()
    with pytest.raises(AttributeError, match=r"^'Net' object has no attribute 'broken'$"):
        net.broken  # noqa: B018
    net._modules["broken"] = net.inner
    assert net.broken is net.inner
    fails = mock.Mock(side_effect=RuntimeError("other"))
    with pytest.raises(RuntimeError, match="other"):
        getattr(type("Bad", (Net,), {"bad": property(fails)})(), "bad")  # noqa: B009


def test_before_init_nothing_is_registered():
    class Early(nn.Module):
        def __init__(self):
            self.number = 1
            with pytest.raises(AttributeError, match="cannot assign parameters before"):
                self.weight = nn.Parameter(torch.ones(1))
            with pytest.raises(AttributeError, match="cannot assign module before"):
                self.inner = nn.Identity()
            with pytest.raises(AttributeError, match="'Early' object has no attribute 'weight'"):
                self.weight  # noqa: B018

        def forward(self, x):
            return x

    early = Early()
    assert early.number == 1
    with pytest.raises(AttributeError, match="'Early' object has no attribute '_backward_hooks'"):
        early(1)


def test_a_class_may_read_attributes_its_own_way():
    class Falls(Net):
        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name.startswith("made_"):
                    return name
                raise

    class Mixin:
        def __getattr__(self, name):
            if name == "mixed":
                return name
            raise AttributeError(name)

    class First(Mixin, Net):
        pass

    class Second(Net, Mixin):
        pass

    class Sees(Net):
        def __getattribute__(self, name):
            return "seen" if name == "plain" else super().__getattribute__(name)

    falls, sees, second = Falls(), Sees(), Second()
    assert falls.weight is falls._parameters["weight"] and falls.made_up == "made_up"
    assert First().mixed == "mixed" and First().plain == 3 and not hasattr(First(), "weight")
    assert second.weight is second._parameters["weight"] and not hasattr(second, "mixed")
    for _ in range(2):
        assert sees.plain == "seen" and sees.mean is sees._buffers["mean"]
        assert sees(2)[0] == 2


def test_methods_of_the_base_can_be_patched_and_restored():
    class Sub(Net):
        pass

    net, read, call = Sub(), nn.Module.__getattr__, nn.Module.__call__
    assert net.weight is not None and net(1)[0] == 1
    for _ in range(2):
        nn.Module.__getattr__ = lambda self, name: f"patched {name}"
        nn.Module.__call__ = lambda self, *args, **kwargs: ("called", call(self, *args, **kwargs))
        try:
            assert net.weight == "patched weight" and net.plain == 3
            assert net(1) == ("called", (1, (), {}))
        finally:
            nn.Module.__getattr__, nn.Module.__call__ = read, call
        assert net.weight is net._parameters["weight"] and net(1) == (1, (), {})
    Sub.__getattr__ = lambda self, name: name
    assert net.weight == "weight" and Net().weight is not None
    del Sub.__getattr__
    assert net.weight is net._parameters["weight"]
    with mock.patch.object(nn.Module, "__setattr__", lambda *a: None):
        net.plain = 4
    assert net.plain == 3
    net.plain = 5
    assert net.plain == 5


def test_assignments():
    class Counts(Net):
        __slots__ = ("slot",)
        seen = 0

        def __setattr__(self, name, value):
            object.__setattr__(self, "seen", self.seen + 1)
            super().__setattr__(name, value)

        limit = property(lambda self: self._limit, lambda self, value: self.set_limit(value))

        def set_limit(self, value):
            self.__dict__["_limit"] = value

    net = Counts()
    before = net.seen
    net.slot, net.limit, net.tensor = 1, 2, torch.ones(1)
    assert (net.seen, net.slot, net._limit) == (before + 3, 1, 2) and "limit" not in net.__dict__
    assert "tensor" in net.__dict__ and "tensor" not in net._buffers
    net.mean = torch.ones(3)
    assert net._buffers["mean"].shape == (3,) and "mean" not in net.__dict__
    net.mean = None
    assert net.mean is None and "mean" in net._buffers
    for name, value, what in (
        ("weight", torch.ones(1), "cannot assign 'torch.FloatTensor' as parameter 'weight'"),
        ("weight", 1, "cannot assign 'int' as parameter 'weight'"),
        ("inner", 1, "cannot assign 'int' as child module 'inner'"),
        ("mean", "x", "cannot assign 'str' as buffer 'mean'"),
    ):
        with pytest.raises(TypeError, match=what):
            setattr(net, name, value)
    marked = torch.ones(1)
    marked._is_param = True  # what Parameter(a subclass's tensor) makes
    net.marked = marked
    assert net._parameters["marked"] is marked
    net.plain = nn.Linear(1, 1)  # leaves the instance, where it would hide the module
    assert "plain" not in net.__dict__ and net._modules["plain"] is net.plain
    fake = mock.Mock(spec=nn.Module)  # an instance by what it says of its class
    net.fake = fake
    assert net._modules["fake"] is fake


def test_a_base_behind_module_has_plain_assignments():
    class Notes:
        def __setattr__(self, name, value):
            super().__setattr__(name, "noted" if value == 1 else value)

        def __delattr__(self, name):
            super().__delattr__(name)
            super().__setattr__("gone", name)

    class Noted(nn.Module, Notes):
        pass

    net = Noted()
    net.training, net.number, net.inner = False, 1, nn.Identity()
    assert net.number == "noted" and type(net.inner) is nn.Identity
    del net.number, net.inner
    assert net.gone == "number" and not hasattr(net, "inner")


def test_tables_that_are_mappings_of_another_kind():
    class Gathers(OrderedDict):
        def __getitem__(self, name):
            return f"gathered {name}"

    net = Net()
    net._parameters = Gathers(net._parameters)
    assert net.weight == "gathered weight" and net.inner is net._modules["inner"]
    net._buffers = OrderedDict(net._buffers)
    assert net.mean is net._buffers["mean"]
    with pytest.raises(TypeError, match="cannot assign 'int' as parameter 'weight'"):
        net.weight = 1


def test_calls_pass_arguments_as_they_are():
    net = Net()
    many = tuple(range(20))
    assert net(*many) == (0, many[1:], {})
    assert net(1, scale=2, other=3) == (2, (), {"other": 3})
    assert net(*many, scale=2, self_=1) == (0, many[1:], {"self_": 1})
    with pytest.raises(TypeError, match=r"forward\(\) missing 1 required positional argument: 'x'"):
        net()


@pytest.mark.parametrize(
    "forward",
    [
        staticmethod(lambda *args: ("static", *args)),
        classmethod(lambda cls, *args: (cls.__name__, *args)),
        functools.partial(lambda *args: ("partial", *args)),
        functools.partialmethod(lambda self, word, *args: (word, *args), "method"),
        max,
    ],
    ids=["static", "class", "partial", "partialmethod", "builtin"],
)
def test_forward_is_whatever_the_class_has(forward):
    kind = type("Kind", (nn.Module,), {"forward": forward})
    module = kind()
    assert module(1, 2) == module.forward(1, 2)


def test_forward_of_the_instance_and_of_a_property():
    net = Net()
    net.forward = lambda x: ("own", x)
    assert net(1) == ("own", 1)
    kind = type("Kind", (nn.Module,), {"forward": property(lambda self: lambda x: ("read", x))})
    assert kind()(1) == ("read", 1)
    assert type("Late", (nn.Module,), {"__getattr__": nn.Module.__getattr__})().forward
    with pytest.raises(NotImplementedError, match=r"Module \[Module\] is missing the required"):
        nn.Module()(1)
    net.forward = 3
    with pytest.raises(TypeError, match="'int' object is not callable"):
        net(1)


def test_calls_that_something_looks_at():
    class Own(Net):
        def _call_impl(self, *args, **kwargs):
            return "impl", super()._call_impl(*args, **kwargs)

    class Outer(Net):
        def __call__(self, *args, **kwargs):
            return "outer", super().__call__(*args, **kwargs)

    assert Own()(1) == ("impl", (1, (), {})) and Outer()(1) == ("outer", (1, (), {}))
    net = Net()
    net._call_impl = lambda x: ("instance", x)
    assert net(1) == ("instance", 1)
    net = Net()
    net._compiled_call_impl = lambda x: ("compiled", x)
    assert net(1) == ("compiled", 1)
    net._compiled_call_impl = None
    assert net(1) == (1, (), {})
    seen = []
    with net.register_forward_hook(lambda module, args, out: seen.append(args)):
        net(1)
    handle = nn.modules.module.register_module_forward_pre_hook(lambda m, args: seen.append(m))
    try:
        net(2)
    finally:
        handle.remove()
    net(3)
    assert seen == [(1,), net]


def test_an_error_says_where():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("deep")

    class Stops(nn.Module):
        def forward(self, x):
            raise KeyboardInterrupt

    net = nn.Sequential(nn.Identity(), nn.Sequential(Fails()))
    with pytest.raises(ValueError, match="deep") as caught:
        net(1)
    assert caught.value.__notes__ == ["In module Sequential: 1.0 (Fails)"]
    frames = [entry.name for entry in caught.traceback]
    assert frames == [frames[0], "forward", "forward", "forward"]
    with pytest.raises(KeyboardInterrupt) as stopped:
        nn.Sequential(Stops())(1)
    assert not hasattr(stopped.value, "__notes__")


def test_a_module_that_calls_itself_ends_in_an_error():
    class Endless(nn.Module):
        def forward(self, x):
            return self(x)

    with pytest.raises(RecursionError):
        Endless()(1)


def test_classes_of_many_bases():
    T = typing.TypeVar("T")

    class Typed(Net, typing.Generic[T]):
        pass

    class Abstract(nn.Module, abc.ABC):
        @abc.abstractmethod
        def forward(self, x): ...

    class Real(Abstract):
        def forward(self, x):
            return x

    @dataclasses.dataclass(eq=False)
    class Data(nn.Module):
        width: int = 2

        def __post_init__(self):
            super().__init__()
            self.layer = nn.Linear(self.width, 1)

        def forward(self, x):
            return self.layer(x)

    class Failure(Net, Exception):
        def __init__(self):
            Net.__init__(self)

    class Held(nn.Module, dict):
        def forward(self, x):
            return self["key"] + x

    assert Typed[int]()(1)[0] == 1 and Real()(1) == 1
    with pytest.raises(TypeError, match="abstract"):
        Abstract()
    data = Data(3)
    assert data(torch.ones(1, 3)).shape == (1, 1) and data.layer is data._modules["layer"]
    assert Failure().weight.shape == (2,)
    held = Held()
    held["key"] = 1
    assert held(2) == 3


def test_copies_pickles_references_and_other_classes():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(other[0].weight, net[0].weight) and other[0].weight is not net[0].weight
        assert other(torch.ones(2, 2)).shape == (2, 3)
    shallow = copy.copy(net)
    assert shallow[0] is net[0]
    weak = weakref.ref(other)
    other.cycle = [other]
    del other
    gc.collect()
    assert weak() is None
    linear = nn.Linear(2, 2)
    linear.__class__ = type("Renamed", (nn.Linear,), {"forward": lambda self, x: "renamed"})
    assert linear(1) == "renamed" and linear.weight.shape == (2, 2)
    linear.__class__ = nn.Linear
    assert linear(torch.ones(1, 2)).shape == (1, 2)


def test_signatures_and_names():
    class Calls(Net):
        def __call__(self, x, y=2):
            return x

    assert str(inspect.signature(Net())) == "(*args, **kwargs)"
    assert str(inspect.signature(Calls())) == "(x, y=2)"
    assert list(inspect.signature(nn.Linear).parameters)[:2] == ["in_features", "out_features"]
    assert callable(Net()) and Net().__call__(1)[0] == 1 and functools.partial(Net())(1)[0] == 1
    assert Net.__call__ is nn.Module.__call__
