"""The process that hosts torch.distributed's store on node 0, as torchrun's agent does.

torch's own store listens at all addresses of the machine. This one listens where the nodes of the run reach
it. It is forked from the fork server, or a new Python: `python -m trainer.launch.store_host FD`.
"""

from __future__ import annotations

import signal
import socket
import sys
from datetime import timedelta

from trainer.network.addresses import LOOPBACK
from trainer.prctl import die_with_parent, set_process_name

_OWN_TIMEOUT = timedelta(seconds=60)
_ALL = {"0.0.0.0", "::"}


def command(listener: socket.socket) -> list[str]:
    """The command line of a process that can't be forked; it inherits the socket."""
    listener.set_inheritable(True)
    safe = ["-P"] if sys.flags.safe_path else []
    return [sys.executable, *safe, "-m", "trainer.launch.store_host", str(listener.fileno())]


def host(listener: socket.socket) -> int:
    """Host the store on this socket until the process is killed."""
    from torch.distributed import TCPStore  # noqa: PLC0415 - the fork server has imported it, or this process must

    die_with_parent()
    set_process_name("torch-store")
    address, port = listener.getsockname()[:2]
    store = TCPStore(
        LOOPBACK if address in _ALL else address,
        port,
        None,
        is_master=True,
        timeout=_OWN_TIMEOUT,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    while store is not None:
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(host(socket.socket(fileno=int(sys.argv[1]))))
