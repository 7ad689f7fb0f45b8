"""Finds the network interface that leads to another node.

ssh_interface.py NODE,...              prints its name
ssh_interface.py NODE,... COMMAND...   runs the command with HOROVOD_GLOO_IFACE set to it:
                                       horovodrun gives all ranks the first node's name

Of several nodes, it uses the first one that is not this node.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys

SIOCGIFADDR = 0x8915  # Linux: the ioctl that reads an interface's address


def find_interface(nodes: str) -> str:
    own = ""
    for node in nodes.split(","):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.connect((node, 9))  # nothing is sent: the kernel only chooses the route
            own = one.getsockname()[0]
            if own != one.getpeername()[0]:
                break
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            try:
                answer = fcntl.ioctl(one.fileno(), SIOCGIFADDR, request)
            except OSError:
                continue  # an interface without an address
            if socket.inet_ntoa(answer[20:24]) == own:
                return name
    raise SystemExit(f"clusterjobs: no interface here has the address {own}")


if __name__ == "__main__":
    found = find_interface(sys.argv[1])
    if not sys.argv[2:]:
        sys.stdout.write(f"{found}\n")
    else:
        os.environ["HOROVOD_GLOO_IFACE"] = found
        os.execvp(sys.argv[2], sys.argv[2:])
