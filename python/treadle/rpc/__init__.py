# SPDX-License-Identifier: Apache-2.0
"""Running compiled code in other processes and on other machines, under TVM's names. docs/rpc.md."""
from ._wire import RPCError
from .client import (LocalSession, RemoteArray, RemoteDevice, RemoteModule, RPCSession, TrackerSession, connect,
                     connect_tracker)
from .server import Server
from . import tracker

__all__ = ["LocalSession", "RPCError", "RPCSession", "RemoteArray", "RemoteDevice", "RemoteModule", "Server",
           "TrackerSession", "connect", "connect_tracker", "tracker"]
