"""Fetches every stream of an HDS manifest with streamlink 1.7, the last that reads HDS, each into a file of its own.

streamlink-hds.py MANIFEST FOLDER: writes FOLDER/QUALITY.flv and prints the qualities, one a line.
"""

import inspect
import pathlib
import sys

# Written for Pythons that still had it.
inspect.getargspec = inspect.getfullargspec

from streamlink import Streamlink  # noqa: E402

manifest, folder = sys.argv[1:]
streams = Streamlink().streams(f"hds://{manifest}")
for quality in sorted(set(streams) - {"best", "worst"}):
    with streams[quality].open() as source, open(pathlib.Path(folder) / f"{quality}.flv", "wb") as out:
        while piece := source.read(1 << 16):
            out.write(piece)
    print(quality)
