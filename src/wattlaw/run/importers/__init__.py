"""Other people's figures as run records, one source per file.

Every importer returns an ``Import``: the records, and the rows that it could not read with the reason. What a row
does not state stays unknown, and nothing is guessed.
"""

from wattlaw.run.importers.authors import import_authors
from wattlaw.run.importers.codecarbon import import_codecarbon
from wattlaw.run.importers.mapped_csv import import_csv
from wattlaw.run.importers.maps import shipped_map, shipped_maps
from wattlaw.run.importers.result import Import, Skipped
from wattlaw.run.importers.zeus import import_zeus

__all__ = [
    "Import",
    "Skipped",
    "import_authors",
    "import_codecarbon",
    "import_csv",
    "import_zeus",
    "shipped_map",
    "shipped_maps",
]
