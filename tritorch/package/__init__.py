"""torch.package: archives of code, objects and resources that run without the program they are of.

package_exporter   PackageExporter: what goes into an archive;  _errors: what may not
package_importer   PackageImporter: modules that live in an archive;  _resources: files beside them
importer           where modules are looked for;  _mangling: names of modules of archives
glob_group         patterns of names;  find_file_dependencies: what a source imports
_digraph           who needs whom;  file_structure_representation: an archive's files as a tree
_package_pickler, _package_unpickler   objects, whose classes an importer knows
_mock              what goes into an archive in place of modules that are left out
analyze            questions about dependencies
"""

from typing import TYPE_CHECKING

from tritorch.package.analyze.is_from_package import is_from_package
from tritorch.package.file_structure_representation import Directory
from tritorch.package.glob_group import GlobGroup
from tritorch.package.importer import (
    Importer,
    ObjMismatchError,
    ObjNotFoundError,
    OrderedImporter,
    sys_importer,
)
from tritorch.package.package_exporter import EmptyMatchError, PackageExporter, PackagingError
from tritorch.package.package_importer import PackageImporter

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.package import (
        analyze as analyze,
        file_structure_representation as file_structure_representation,
        find_file_dependencies as find_file_dependencies,
        glob_group as glob_group,
        importer as importer,
        package_exporter as package_exporter,
        package_importer as package_importer,
    )


__all__ = [
    "Directory",
    "EmptyMatchError",
    "GlobGroup",
    "Importer",
    "ObjMismatchError",
    "ObjNotFoundError",
    "OrderedImporter",
    "PackageExporter",
    "PackageImporter",
    "PackagingError",
    "is_from_package",
    "sys_importer",
]
