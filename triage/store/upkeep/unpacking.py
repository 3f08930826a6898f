"""A `.zip` from somebody else, unpacked within limits that are looked at before a byte is written."""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from pathlib import Path

from corpus.errors import UserError
from triage.store.names_of_files import is_clean

MOST_MEMBERS = 200_000
MOST_BYTES = 64 << 30
MOST_RATIO = 200
SMALL = 256 << 20
"""What unpacks to less may be packed as tightly as can be."""
CHUNK = 1 << 20
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError)


def unpack(source: Path, folder: Path) -> None:
    """Unpack a zip into a new folder; UserError for one that is damaged, too large, or leaves the folder."""
    try:
        with zipfile.ZipFile(source) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            _must_fit(source, members, folder)
            for member in members:
                _unpack_one(archive, member, folder / member.filename)
    except BROKEN as error:
        raise UserError(
            f"{source}: not a database or zip that can be read ({' '.join(str(error).split())[:120]})"
        ) from None


def _must_fit(source: Path, members: list[zipfile.ZipInfo], folder: Path) -> None:
    """Raises `UserError` by what the archive says of itself; what it holds is counted again on the way."""
    names = {member.filename for member in members}
    packed = sum(member.compress_size for member in members)
    size = sum(member.file_size for member in members)
    room = shutil.disk_usage(folder.parent).free
    if len(members) > MOST_MEMBERS or len(names) < len(members):
        raise UserError(f"{source}: {len(members)} members, too many or of one name; it is no export")
    if size > min(MOST_BYTES, room // 2):
        raise UserError(f"{source}: unpacks to {size} bytes, too many for {room} bytes of free room")
    if size > SMALL and size > MOST_RATIO * packed:
        raise UserError(f"{source}: {packed} bytes unpack to {size}; no export is packed as tightly")
    for member in members:
        kind = stat.S_IFMT(member.external_attr >> 16)
        if not is_clean(member.filename) or kind not in (0, stat.S_IFREG) or member.flag_bits & 1:
            raise UserError(f"{source}: the member {member.filename[:80]!r} is none of an export")


def _unpack_one(archive: zipfile.ZipFile, member: zipfile.ZipInfo, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    left = member.file_size
    with archive.open(member) as packed, open(place, "xb") as file:
        while chunk := packed.read(CHUNK):
            left -= len(chunk)
            if left < 0:
                raise ValueError(f"{member.filename!r} is larger than it says")
            file.write(chunk)
