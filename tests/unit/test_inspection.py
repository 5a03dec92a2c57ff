"""Files of models, the machine and annotations are described; nothing of them is executed."""

import io
import json
import pickle
import re
import typing
import zipfile
from collections import OrderedDict

import pytest

import tritorch
from tritorch import _jit_internal as internal, hub
from tritorch.futures import Future
from tritorch.utils import collect_env, model_dump, show_pickle

# ---- model_dump ----------------------------------------------------------------------------------


def explode(how):
    raise AssertionError(how)


class Bomb:
    def __reduce__(self):
        return explode, ("executed",)


def saved(value):
    file = io.BytesIO()
    tritorch.save(value, file)
    return file


def test_a_state_dict_is_described_with_its_tensors():
    state = OrderedDict(weight=tritorch.ones(2, 3).t(), note=(1, "a"), flags=[True, None])
    model = model_dump.get_model_info(saved(state), title="T")["model"]
    tensor = {"__tensor_v2__": [["Float", "0", "cpu", 6], 0, [3, 2], [1, 3], False]}
    assert model["model_data"] == {
        "__is_dict__": True,
        "keys": ["weight", "note", "flags"],
        "values": [tensor, {"__tuple_values__": [1, "a"]}, [True, None]],
    }
    assert model["title"] == "T" and model["constants"] is None
    names = [entry["filename"].partition("/")[2] for entry in model["zip_files"]]
    assert {"data.pkl", "version", "data/0"} <= set(names)
    assert "_rebuild_tensor_v2" in next(iter(model["extra_pickles"].values()))


def test_objects_are_described_and_not_made():
    model = model_dump.get_model_info(saved({"bomb": Bomb(), "m": tritorch.nn.Linear(1, 1)}))[
        "model"
    ]
    bomb, module = model["model_data"]["values"]
    assert bomb["__module_type__"].endswith(".explode")
    assert bomb["state"]["values"] == [{"__tuple_values__": ["executed"]}]
    assert module["__module_type__"] == "torch.nn.modules.linear.Linear"
    assert "_parameters" in module["state"]["keys"]
    with pytest.raises(Exception, match="Can't prepare data of type for JS: <class 'object'>"):
        model_dump.hierarchical_pickle(object())


def test_code_has_its_sources(tmp_path):
    path = tmp_path / "model.pt"
    debug = [(0, (("x + é", "a.py", 3), 0, 5)), (4, (("y", "a.py", 9), 0, 1))]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/version", "3\n")
        archive.writestr("m/data.pkl", pickle.dumps([1], protocol=2))
        archive.writestr("m/code/a.py", "abcdef")
        archive.writestr("m/code/a.py.debug_pkl", pickle.dumps(debug, protocol=2))
        archive.writestr("m/extra/info.json", '{"a": "</script>"}')
        archive.writestr("m/extra/bad.json", "{")
    model = model_dump.get_model_info(path)["model"]
    assert model["code_files"] == {"m/code/a.py": [["abcd", 0, 3, 1, 0, 0], ["ef", 0, 9, 2, 0, 1]]}
    assert model["interned_strings"] == ["a.py", "x + é", "y"]
    assert model["extra_files_jsons"]["m/extra/bad.json"] == "INVALID JSON"
    page = model_dump.get_info_and_burn_skeleton(path, title="T")
    assert page.count("</script>") == 1 and 'src="' not in page
    burned = re.search(r"BURNED_IN_MODEL_INFO = (.*);\n", page)[1]
    assert json.loads(burned)["model"] == {**model, "title": "T"}
    with pytest.warns(UserWarning, match="model_dump is deprecated"):
        out = io.StringIO()
        model_dump.main(["", "--style=json", str(path)], stdout=out)
    assert json.loads(out.getvalue())["model"] == model
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other/x", "")
    with pytest.raises(Exception, match="Mismatched prefixes: m != other"):
        model_dump.get_model_info(path)


def test_a_pickle_is_shown(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", pickle.dumps(Bomb(), protocol=2))
    out = io.StringIO()
    show_pickle.main(["", f"{path}@*/data.pkl"], out)
    assert out.getvalue().endswith("explode('executed',)\n")
    with pytest.raises(Exception, match="Could not find member matching b in"):
        show_pickle.main(["", f"{path}@b"], out)


# ---- collect_env ---------------------------------------------------------------------------------


def test_the_report_says_what_commands_say():
    def answer(command):
        known = {
            "gcc --version": "gcc (Debian 12) 12.2.0\nmore",
            "nvidia-smi": "| NVIDIA-SMI 550  Driver Version: 550.54  CUDA Version: 12.4 |",
            "nvidia-smi -L": "GPU 0: H100 (UUID: GPU-1)\nGPU 1: H100 (UUID: GPU-2)",
        }
        return (0, known[command], "") if command in known else (127, "", "not found")

    assert collect_env.get_gcc_version(answer) == "(Debian 12) 12.2.0"
    assert collect_env.get_clang_version(answer) is None
    assert collect_env.get_nvidia_driver_version(answer) == "550.54"
    assert collect_env.get_gpu_info(answer) == "GPU 0: H100\nGPU 1: H100"
    assert collect_env.run("echo out; echo err >&2; exit 3") == (3, "out", "err")


def test_the_report_on_this_machine(monkeypatch):
    info = collect_env.get_env_info()
    assert info.torch_version == str(tritorch.__version__)
    assert any(line.startswith("numpy==") for line in info.pip_packages.splitlines())
    monkeypatch.setattr(tritorch.cuda, "is_available", lambda: False)
    nothing = dict.fromkeys(("cuda_runtime_version", "nvidia_gpu_models", "nvidia_driver_version"))
    packages = {"pip_packages": "a==1\nb==2", "conda_packages": None}
    text = collect_env.pretty_str(info._replace(**nothing, **packages, gcc_version=None))
    assert "\nGPU models and configuration: No CUDA\nNvidia driver version: No CUDA\n" in text
    assert "\nGCC version: Could not collect\n" in text
    assert text.endswith("\n[pip3] a==1\n[pip3] b==2\n[conda] Could not collect")
    models = collect_env.pretty_str(info._replace(nvidia_gpu_models="GPU 0: A\nGPU 1: B"))
    assert "\nGPU models and configuration: \nGPU 0: A\nGPU 1: B\n\n" in models


# ---- _jit_internal -------------------------------------------------------------------------------


def test_annotations_are_told_apart():
    T = typing
    cases = {
        internal.is_tuple: ([tuple[int, int], T.Tuple[int]], [tuple, list[int], int], T.Tuple),
        internal.is_list: ([list[int], T.List[int]], [list, tuple[int], 3], T.List),
        internal.is_dict: ([dict[int, str], T.Dict[int, str]], [dict, list[int]], T.Dict),
        internal.is_union: ([T.Union[int, str], int | str, T.Optional[int]], [int], T.Union),
        internal.is_optional: ([T.Optional[int], int | None], [int | str, None], T.Optional),
        internal.is_future: ([Future[int]], [int], Future),
    }
    for ask, (those, others, bare) in cases.items():
        assert all(ask(ann) for ann in those) and not any(ask(ann) for ann in others), ask
        with pytest.raises(RuntimeError, match="Attempted to use .* without .*contained type"):
            ask(bare)
    assert internal.is_final(typing.Final[int]) and internal.is_final(typing.Final)
    assert not internal.is_final(int)
    assert internal.is_await(internal._Await) and internal.is_await(internal._Await[int])
    assert internal.BroadcastingList6[int] is None


def test_a_boolean_chooses_between_two_functions():
    def both(x, give=False):
        """Doc."""
        return x, give

    def one(x, give=False):
        return x

    made = internal.boolean_dispatch("give", 1, False, both, one, "m", "f")
    assert made(1) == 1 and made(1, True) == made(1, give=True) == (1, True)
    assert (made.__module__, made.__name__, made.__doc__, one.__doc__) == ("m", "f", "Doc.", "Doc.")
    assert internal._try_get_dispatched_fn(made)["if_false"] is one
    with pytest.raises(RuntimeError, match="only one function can have a docstring"):
        internal.boolean_dispatch("give", 1, False, both, one, "m", "f")


# ---- hub's progress ------------------------------------------------------------------------------


def test_a_download_shows_how_far_it_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(hub, "tqdm", hub._Faketqdm)
    source, copy = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"x" * (3 * hub.READ_DATA_CHUNK))
    hub.download_url_to_file(source.as_uri(), str(copy))
    assert copy.read_bytes() == source.read_bytes()
    assert capsys.readouterr().err == "\r33.3%\r66.7%\r100.0%\n"
    hub.download_url_to_file(source.as_uri(), str(copy), progress=False)
    assert capsys.readouterr().err == ""
    with hub._Faketqdm() as unknown:
        unknown.update(5)
        unknown.close()
        unknown.update(5)
    assert capsys.readouterr().err == "\r5.0 bytes"
