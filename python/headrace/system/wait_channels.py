"""Base layer: what the kernel function tells in which a thread sleeps (`wchan` of proc(5)).

The only table of these functions. They are those of Linux 4.18 to 6.18, and of the modules of
Lustre 2.12 to 2.16.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

ChannelKind = Literal[
    "memory",
    "block",
    "network",
    "fuse",
    "sleep",
    "connection",
    "pipe",
    "lock",
    "file-lock",
    "poll",
    "child",
    "requests",
    "unknown",
]


class WaitChannel(NamedTuple):
    """A group of kernel functions."""

    kind: ChannelKind
    """`block`: the function calls io_schedule, which waits of network file systems do, too."""
    filesystems: tuple[str, ...] = ()
    """Types of file systems that have it, as they begin in mountinfo."""


_TABLE: tuple[tuple[WaitChannel, str], ...] = (
    (
        WaitChannel("memory"),
        "mem_cgroup_handle_over_high|mem_cgroup_oom|reclaim|shrink|throttle_direct|congestion|swap",
    ),
    # Not fuse_dev_do_read, in which the server itself waits for requests.
    (WaitChannel("fuse", ("fuse", "virtiofs")), "request_wait_answer|fuse_(?!dev_)"),
    # Lustre before NFS: ptlrpc_set_wait contains rpc_, too.
    (WaitChannel("network", ("lustre",)), "ldlm|osc_|ptlrpc|cl_sync"),
    # Before NFS, whose client asks the server again and again.
    (
        WaitChannel("file-lock"),
        "^(locks_lock_inode|fcntl_setlk|do_lock_file|flock_lock_inode|posix_lock_inode)"
        "|nlmclnt_(block|wait)|nfs4_retry_setlk",
    ),
    (WaitChannel("network", ("nfs",)), "rpc_|nfs"),
    (WaitChannel("network", ("ceph",)), "ceph"),
    (WaitChannel("network", ("cifs", "smb")), "cifs|smb|^wait_for_response"),
    (WaitChannel("network", ("9p",)), "p9_"),
    (
        WaitChannel("block"),
        "folio_wait|wait_on_page|wait_on_buffer|bit_wait_io|io_schedule|blk_|bio_|dio_|submit_bio"
        "|balance_dirty_pages|rq_qos|__lock_page|folio_lock",
    ),
    (WaitChannel("sleep"), "^(hrtimer_|do_)?nanosleep|^sigsuspend|^pause"),
    (WaitChannel("connection"), "^(wait_woken|sk_|inet_|tcp_|udp_|unix_|_*skb)"),
    (WaitChannel("pipe"), "^(pipe_|anon_pipe|n_tty)"),
    (WaitChannel("lock"), "^(do_sys_)?futex"),
    (
        WaitChannel("child"),
        "^(kernel_clone|_?do_fork)",
    ),  # vfork: until the child executes a program
    # For requests of libaio and io_uring, in state S.
    (WaitChannel("requests"), "^(read_events|do_io_getevents|io_cqring_)"),
    (WaitChannel("poll"), "^(ep_poll|do_epoll|poll_schedule|do_select|do_sys_poll|do_poll)"),
)
_PATTERNS = tuple((channel, re.compile(words.encode())) for channel, words in _TABLE)
_UNKNOWN = WaitChannel("unknown")


@lru_cache(maxsize=1000)
def channel_of(function: bytes) -> WaitChannel:
    """Return the group of a kernel function; `unknown` for others, and `0` of another user."""
    for channel, pattern in _PATTERNS:
        if pattern.search(function) is not None:
            return channel
    return _UNKNOWN
