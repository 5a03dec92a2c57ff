"""torch._jit_internal: questions about annotations, and decorators that torch.jit has too."""

from __future__ import annotations

from typing import Final as Final, Optional as Optional, Union as Union

from tritorch.compat.torch_private._awaits import _Await as _Await
from tritorch.futures import Future as Future
from tritorch.jit import (
    _overload as _overload,
    _overload_method as _overload_method,
    export as export,
    ignore as ignore,
    is_scripting as is_scripting,
    unused as unused,
)
from tritorch.jit.internals import (
    BroadcastingList1 as BroadcastingList1,
    BroadcastingList2 as BroadcastingList2,
    BroadcastingList3 as BroadcastingList3,
    BroadcastingList4 as BroadcastingList4,
    BroadcastingList5 as BroadcastingList5,
    BroadcastingList6 as BroadcastingList6,
    BroadcastingListCls as BroadcastingListCls,
    BuiltinUnionType as BuiltinUnionType,
    FunctionModifiers as FunctionModifiers,
    _is_container as _is_container,
    _is_exception as _is_exception,
    _qualified_name as _qualified_name,
    _try_get_dispatched_fn as _try_get_dispatched_fn,
    boolean_dispatch as boolean_dispatch,
    boolean_dispatched as boolean_dispatched,
    get_callable_argument_names as get_callable_argument_names,
    get_closure as get_closure,
    get_static_fn as get_static_fn,
    is_await as is_await,
    is_dict as is_dict,
    is_final as is_final,
    is_future as is_future,
    is_list as is_list,
    is_optional as is_optional,
    is_rref_instance as is_rref_instance,
    is_static_fn as is_static_fn,
    is_tuple as is_tuple,
    is_union as is_union,
    raise_error_container_parameter_missing as raise_error_container_parameter_missing,
)
