"""Where a log may live: a directory on a disk of this machine that can be written to."""

from __future__ import annotations

import os
import re
from pathlib import Path

from streamtopo.directories import make_private
from streamtopo.errors import LogError

MOUNTS = Path("/proc/mounts")
NETWORK = frozenset(
    [
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs"),
        *("orangefs", "ocfs2", "gfs2", "vboxsf", "vmhgfs", "fuse.vmhgfs-fuse", "fuse.sshfs", "fuse.glusterfs"),
        *("fuse.ceph", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.davfs"),
    ]
)
"""File systems whose locks or shared memory do not hold between all processes that see the files."""
_OCTAL = re.compile(r"\\([0-7]{3})")
"""How the list of mounts writes spaces, tabs and backslashes."""


def prepare(directory: Path) -> None:
    """Make the directory if it is missing, and refuse one that cannot hold a log."""
    if directory.exists() and not directory.is_dir():
        raise LogError(f'cannot open the log at "{directory}": that is a file; name a directory, or move the file away')
    refuse_network(directory)
    try:
        make_private(directory)
        (directory / "members").mkdir(exist_ok=True)
    except OSError as error:
        raise LogError(
            f'cannot create the log at "{directory}": {error.strerror}; choose another directory, or mend this one'
        ) from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise LogError(
            f'cannot open the log at "{directory}": the directory is read-only, and readers write there too (locks); '
            "make it writable, or copy it to where it is"
        )


def refuse_network(directory: Path) -> None:
    kind, mount = _mount_of(directory)
    if kind in NETWORK:
        raise LogError(
            f'cannot keep a log at "{directory}": {mount} is a network file system ({kind}), on which two machines '
            "can break each other's locks; choose a local disk, or use kafka:// for several machines"
        )


def _mount_of(directory: Path) -> tuple[str, str]:
    """Type and mount point of the file system that the path is, or would be, on."""
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return "", ""
    path = directory.resolve()
    found = ("", "")
    for line in lines:
        _, escaped, kind, *_ = line.split(" ")
        mount = _OCTAL.sub(lambda code: chr(int(code[1], 8)), escaped)
        # Of two mounts on one point the later hides the earlier.
        if path.is_relative_to(mount) and len(mount) >= len(found[1]):
            found = (kind, mount)
    return found
