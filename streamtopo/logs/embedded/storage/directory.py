"""The directory of a log: it must be writable, and on a disk of this machine."""

from __future__ import annotations

import os
import re
from pathlib import Path

from streamtopo.errors import LogError
from streamtopo.private_directories import make_private

MOUNTS = Path("/proc/mounts")
NETWORK = frozenset(
    [
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs"),
        *("orangefs", "ocfs2", "gfs2", "vboxsf", "vmhgfs", "fuse.vmhgfs-fuse", "fuse.sshfs", "fuse.glusterfs"),
        *("fuse.ceph", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.davfs"),
    ]
)
"""File systems whose locks or shared memory do not work between all processes that use the files."""
_OCTAL = re.compile(r"\\([0-7]{3})")
"""How the list of mounts escapes spaces, tabs and backslashes."""


def prepare(directory: Path) -> None:
    """Create the directory if it is missing; raise an error if it cannot contain a log."""
    if directory.exists() and not directory.is_dir():
        raise LogError(f'cannot open the log at "{directory}": that is a file; name a directory, or move the file away')
    refuse_network(directory)
    try:
        make_private(directory)
        (directory / "members").mkdir(exist_ok=True)
    except OSError as error:
        raise LogError(
            f'cannot create the log at "{directory}": {error.strerror}; fix that, or choose another directory'
        ) from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise LogError(
            f'cannot open the log at "{directory}": the directory is read-only, and readers write locks into it; '
            "make it writable, or copy it to a writable directory"
        )


def refuse_network(directory: Path) -> None:
    kind, mount = _mount_of(directory)
    if kind in NETWORK:
        raise LogError(
            f'cannot keep a log at "{directory}": {mount} is a network file system ({kind}), on which two machines '
            "can break each other's locks; choose a local disk, or use kafka:// for several machines"
        )


def _mount_of(directory: Path) -> tuple[str, str]:
    """Type and mount point of the file system of the path, which need not exist."""
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return "", ""
    path = directory.resolve()
    found = ("", "")
    for line in lines:
        _, escaped, kind, *_ = line.split(" ")
        mount = _OCTAL.sub(lambda code: chr(int(code[1], 8)), escaped)
        # Of two mounts on the same point the later one hides the earlier one.
        if path.is_relative_to(mount) and len(mount) >= len(found[1]):
            found = (kind, mount)
    return found
