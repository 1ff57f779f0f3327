# Asks the server for a program: `ADDRESS` and `MODULE` are set above. It is small and imports
# built-in modules alone, because its own start is most of what a fork costs.
import _signal
import _socket
import marshal
import posix
import sys

there = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
there.connect(ADDRESS)  # noqa: F821


def hand_on(number, _):
    there.send(bytes([number]))


umask = posix.umask(0)
asked = marshal.dumps(
    (MODULE, sys.argv, dict(posix.environ), posix.getcwd(), umask)  # noqa: F821
)
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)]
there.sendmsg([len(asked).to_bytes(4, "big")], rights)
sent = 0
while sent < len(asked):
    sent += there.send(asked[sent:])
for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGUSR1, _signal.SIGUSR2):
    _signal.signal(number, hand_on)
for number in (0, 1, 2):  # whoever reads or writes at the other end sees the program's alone
    posix.close(number)
status = there.recv(4)
code = int.from_bytes(status, "big", signed=True) if status else 1
if code < 0:
    _signal.signal(-code, _signal.SIG_DFL)
    posix.kill(posix.getpid(), -code)
posix._exit(code)
