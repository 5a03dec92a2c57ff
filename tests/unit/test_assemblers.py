"""The choice of ptxas for a GPU: by the wheel's two, the driver and the environment."""

import io

import pytest

import tritorch  # noqa: F401  (Triton's driver is the package's)
from tritorch.cli import doctor
from tritorch.triton import assemblers, cache, keys
from tritorch.triton.compilers import entry_of


@pytest.fixture
def wheel(monkeypatch, tmp_path):
    """Writes the two programs of a wheel, by their versions."""
    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    monkeypatch.delenv("TRITON_PTXAS_BLACKWELL_PATH", raising=False)
    programs = tmp_path / "triton" / "backends" / "nvidia" / "bin"
    programs.mkdir(parents=True)
    monkeypatch.setattr(assemblers, "folder", lambda: programs)

    def write(triton="3.6", **versions):
        for function in (assemblers._better, assemblers._version, assemblers.triton_version):
            function.cache_clear()
        (tmp_path / "triton" / "__init__.py").write_text(f"__version__ = '{triton}.0'\n")
        for name, version in versions.items():
            program = programs / name.replace("_", "-")
            release = ".".join(version.split(".")[:2])
            program.write_text(f"#!/bin/sh\necho tools, release {release}, V{version}\n")
            program.chmod(0o755)

    yield write
    for function in (assemblers._better, assemblers._version, assemblers.triton_version):
        function.cache_clear()


@pytest.mark.parametrize(
    ("triton", "plain", "newer", "target", "driver", "taken"),
    [
        ("3.6", "12.8.93", "12.9.86", 90, 12040, "12.9.86"),
        ("3.6", "12.8.93", "12.9.86", 90, 0, "12.9.86"),
        ("3.6", "12.8.93", "12.9.86", 80, 12040, "12.8.93"),
        ("3.6", "12.8.93", "12.9.86", 100, 12080, "12.9.86"),
        ("3.7", "12.8.93", "13.1.80", 90, 13000, "13.1.80"),
        ("3.7", "12.8.93", "13.1.80", 90, 12080, "12.8.93"),
        ("3.7", "12.8.93", "13.1.80", 90, 0, "12.8.93"),
        ("3.8", "12.9.86", "13.3.33", 90, 13000, "12.9.86"),
        ("3.8", "12.9.86", "13.3.33", 100, 13000, "13.3.33"),
        ("3.8", "12.9.86", "13.3.33", 100, 12080, "12.9.86"),
        ("3.9", "12.9.86", "13.4.59", 90, 13000, "13.4.59"),
        ("3.9", "12.9.86", "13.4.59", 90, 0, "13.4.59"),
        ("3.9", "12.9.86", "13.4.59", 90, 12080, "12.9.86"),
        ("3.9", "12.9.86", "13.4.59", 80, 12080, "12.9.86"),
    ],
)
def test_choice(wheel, triton, plain, newer, target, driver, taken):
    wheel(triton, ptxas=plain, ptxas_blackwell=newer)
    found = assemblers.chosen(target, driver)
    assert found.version() == taken
    assert found.name == ("ptxas" if taken == plain else "ptxas-blackwell")


def test_settings_come_first(wheel, monkeypatch):
    wheel(ptxas="12.8.93", ptxas_blackwell="12.9.86")
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/opt/ptxas")
    assert assemblers.chosen(90, 12080).path == "/opt/ptxas"


def test_doctor_shows_it(wheel):
    wheel(ptxas="12.8.93", ptxas_blackwell="12.9.86")
    (found,) = doctor.check_assemblers({"cuda": 12080, "gpus": [{"capability": [9, 0]}]})
    assert found.status == doctor.OK
    assert "CUDA 12.9, for sm_90 (ptxas-blackwell: Triton's" in found.detail


def test_keys_hold_it(wheel):
    wheel(ptxas="12.8.93")
    before = keys.generation(90), keys.generation(80)
    wheel(ptxas_blackwell="12.9.86.1")
    assert keys.generation(90) != before[0] and keys.generation(80) == before[1]


def test_triton_takes_it(monkeypatch):
    """The program that Triton runs is the one in keys, for kernels of users' too."""
    pytest.importorskip("triton")
    import triton.runtime.driver  # noqa: F401
    from triton.backends.nvidia import compiler

    first = compiler.get_ptxas(90)
    assert first.path == keys.assembler(90).path
    own = "ptxas-blackwell" if assemblers.is_newer(90) else "ptxas"
    other = "ptxas" if own == "ptxas-blackwell" else "ptxas-blackwell"
    said = assemblers.chosen(90, 0)._replace(path=f"/somewhere/{other}")
    monkeypatch.setattr(keys, "assembler", lambda target: said)
    assert compiler.get_ptxas(90).path.endswith(f"/{other}")
    monkeypatch.setenv(assemblers.setting_of(90), first.path)
    assert compiler.get_ptxas(90).path == first.path


def test_packs_record_it(monkeypatch, tmp_path):
    """An entry says which ptxas made it, through files and packs."""

    class Compiled:
        class metadata:
            name = "kernel"

            class target:
                arch = 90

        src = None
        asm = {"cubin": b"code"}  # noqa: RUF012

    from tritorch.triton import driver

    plan = {"parameters": []}
    monkeypatch.setattr(driver, "plan_of", lambda src, metadata: plan)
    entry = entry_of(Compiled)
    taken = keys.assembler(90)
    assert entry.assembler == f"{taken.name} {taken.version()}"
    monkeypatch.setattr(cache.plan, "is_plan", lambda value: value == plan)
    monkeypatch.setenv("TRITORCH_CACHE_DIR", str(tmp_path))
    place = keys.generation(90), "0" * 40
    assert cache.write(*place, entry)
    packed = io.BytesIO()
    assert cache.pack(packed, ["/".join(place)]) == 1
    cache.clear()
    assert cache.read(*place) is None
    packed.seek(0)
    cache.unpack(packed)
    assert cache.read(*place) == entry
