"""Fetches every stream of an HDS manifest with streamlink 1.7, the last version that supports HDS.

streamlink-hds.py MANIFEST FOLDER: writes a file FOLDER/QUALITY.flv for each stream and prints the qualities, one per
line.
"""

import inspect
import pathlib
import sys

# streamlink 1.7 needs this function, which newer Python versions have removed.
inspect.getargspec = inspect.getfullargspec

from streamlink import Streamlink  # noqa: E402

manifest, folder = sys.argv[1:]
streams = Streamlink().streams(f"hds://{manifest}")
for quality in sorted(set(streams) - {"best", "worst"}):
    with streams[quality].open() as source, open(pathlib.Path(folder) / f"{quality}.flv", "wb") as out:
        while piece := source.read(1 << 16):
            out.write(piece)
    print(quality)
