"""An all-reduce over TCP that fails as soon as a peer has gone, in the words of a library."""

import os
import socket
import struct
import sys
import threading
import time
import traceback


class ProcessGroup:
    def __init__(self, s):
        self.s = s
        self.port = int(os.environ["MASTER_PORT"])
        self.peers = {}
        self.seq = 0
        if s.rank_prefix:
            sys.excepthook = self.print_with_rank
        limit = s.collective_timeout / s.scale
        if s.rank == 0:
            server = socket.create_server(("127.0.0.1", self.port), backlog=256)
            server.settimeout(s.join_timeout / s.scale)
            try:
                while len(self.peers) < s.world - 1:
                    peer, _ = server.accept()
                    peer.settimeout(limit)
                    self.peers[struct.unpack("!i", peer.recv(4))[0]] = peer
            except TimeoutError:
                self.store_timeout(len(self.peers) + 1)
            for peer in self.peers.values():
                peer.sendall(b"\1")
        else:
            until = time.time() + s.join_timeout / s.scale
            while True:
                try:
                    self.root = socket.create_connection(("127.0.0.1", self.port))
                    break
                except OSError:
                    if time.time() > until:
                        self.client_timeout()
                    time.sleep(0.02)
            self.root.settimeout(limit)
            self.root.sendall(struct.pack("!i", s.rank))
            self.root.settimeout(s.join_timeout / s.scale)
            try:
                if not self.root.recv(1):
                    self.peer_gone(0)
            except (TimeoutError, ConnectionError):
                self.client_timeout()
            self.root.settimeout(limit)

    def print_with_rank(self, kind, error, trace):
        lines = "".join(traceback.format_exception(kind, error, trace)).rstrip("\n").split("\n")
        sys.stdout.flush()
        sys.stderr.write("".join(f"[rank{self.s.rank}]: {line}\n" for line in lines))
        sys.stderr.flush()

    def address(self, rank):
        return f"10.128.{rank // 250}.{rank % 250 + 2}"

    def all_reduce(self, step, op="ALLREDUCE"):
        self.seq += 1
        self.op = op
        if self.s.rank == 0:
            for rank, peer in sorted(self.peers.items()):
                self.receive(peer, rank)
            for peer in self.peers.values():
                try:
                    peer.sendall(b"\1")
                except OSError:
                    pass
        else:
            try:
                self.root.sendall(b"\1")
            except OSError:
                self.peer_gone(0)
            self.receive(self.root, 0)

    barrier = all_reduce

    def receive(self, peer, rank):
        try:
            data = peer.recv(1)
        except TimeoutError:
            self.timed_out(rank)
        except OSError:
            self.peer_gone(rank)
        else:
            if not data:
                self.peer_gone(rank)

    def peer_gone(self, rank):
        style = self.s.collective
        peer = f"[{self.address(rank)}]:{30000 + rank * 37 % 20000}"
        if style == "gloo":
            what = "Connection closed by peer" if self.s.rank % 3 else "Read error"
            tail = "" if self.s.rank % 3 else ": Connection reset by peer"
            text = f"{what} {peer}{tail}"
            raise RuntimeError(f"[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] {text}")
        if style == "horovod":
            text = "Horovod has been shut down. This was caused by an exception on one of the ranks"
            raise RuntimeError(
                f"{text} or an attempt to allreduce a tensor after one of the ranks finished execution."
            )
        if style == "tf":
            text = f"Socket closed [[node CollectiveReduceV2 (defined at train.py:112)]] peer /job:worker/replica:0/task:{rank}"
            sys.stderr.write(
                f"W tensorflow/core/framework/op_kernel.cc:1839] OP_REQUIRES failed at collective_ops.cc:302 : UNAVAILABLE: Collective ops is aborted by: UNAVAILABLE: Connection reset by peer\n"
            )
            raise ConnectionError(f"UNAVAILABLE: {text}")
        if style == "jax":
            text = f"DEADLINE_EXCEEDED: The following tasks are unhealthy (stopped sending heartbeats): /job:jax_worker/replica:0/task:{rank}"
            sys.stderr.write(
                f"E0{self.stamp()} coordination_service_agent.cc:322] Polled an error from coordination service: {text}\n"
            )
            sys.stderr.write(
                f"F0{self.stamp()} client.h:77] Terminating process because the JAX distributed service detected fatal errors. absl::Status: {text}\n"
            )
            self.abort()
        if style == "nccl":
            self.nccl(rank, "remote")
        raise ConnectionResetError(104, "Connection reset by peer")

    def timed_out(self, rank):
        ms = int(self.s.collective_timeout * 1000)
        if self.s.collective == "gloo":
            op = "recv" if self.s.rank % 2 else "send"
            raise RuntimeError(
                f"[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting {ms}ms for {op} operation to complete"
            )
        if self.s.collective == "nccl":
            self.nccl(rank, "timeout")
        raise TimeoutError(f"all_reduce timed out after {ms} ms waiting for rank {rank}")

    def stamp(self):
        now = self.s.now()
        return time.strftime("%m%d %H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}000"

    def nccl(self, rank, kind):
        me, seq, ms = self.s.rank, self.seq, int(self.s.collective_timeout * 1000)
        work = (
            f"WorkNCCL(SeqNum={seq}, OpType={self.op}, NumelIn=26214400, NumelOut=26214400, Timeout(ms)={ms})"
        )
        lines = []
        if kind == "remote":
            lines.append(
                f"{self.s.replica}:{os.getpid()}:{os.getpid() + 41} [{self.s.local_rank}] NCCL INFO [Service thread] Connection closed by localRank {self.s.local_rank}"
            )
            head = f"[rank{me}]:[E{self.stamp()} ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0(default_pg) Rank {me}]"
            cause = "NCCL error: remote process exited or there was a network error, NCCL version 2.27.3"
            lines.append(f"{head} Process group watchdog thread terminated with exception: {cause}")
            lines.append(
                "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
            )
            lines.append("Last error:")
            lines.append(
                f"NET/Socket : Connection closed by remote peer {self.address(rank)}<{40000 + rank * 13 % 9000}>"
            )
        else:
            head = f"[rank{me}]:[E{self.stamp()} ProcessGroupNCCL.cpp:"
            ran = ms + self.s.rng.randint(5, 90)
            lines.append(
                f"{head}632] [Rank {me}] Watchdog caught collective operation timeout: {work} ran for {ran} milliseconds before timing out."
            )
            lines.append(
                f"{head}2271] [PG ID 0 PG GUID 0(default_pg) Rank {me}]  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {seq}, last completed work: {seq - 1}"
            )
            lines.append(
                f"{head}670] Stack trace of the failed collective not found, potentially because FlightRecorder is disabled. You can enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value."
            )
            lines.append(
                f"{head}684] [Rank {me}] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data."
            )
            lines.append(
                f"{head}698] [Rank {me}] To avoid data inconsistency, we are taking the entire process down."
            )
            lines.append("terminate called after throwing an instance of 'c10::DistBackendError'")
            lines.append(
                f"  what():  [PG ID 0 PG GUID 0(default_pg) Rank {me}] Process group watchdog thread terminated with exception: [Rank {me}] Watchdog caught collective operation timeout: {work} ran for {ran} milliseconds before timing out."
            )
        lines.append(
            "Exception raised from checkTimeout at /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:635 (most recent call first):"
        )
        libs = [
            "libc10.so",
            "libtorch_cuda.so",
            "libtorch_cuda.so",
            "libtorch_cuda.so",
            "libstdc++.so.6",
            "libc.so.6",
            "libc.so.6",
        ]
        for n, lib in enumerate(libs[: self.s.frames]):
            at = self.s.rng.randrange(1 << 40)
            lines.append(
                f"frame #{n}: <unknown function> + 0x{self.s.rng.randrange(1 << 20):x} (0x7f{at:010x} in /opt/conda/lib/python3.11/site-packages/torch/lib/{lib})"
            )
        sys.stderr.write("\n".join(lines) + "\n\n")
        self.abort()

    def abort(self):
        sys.stdout.flush()
        sys.stderr.flush()
        os.abort()

    def store_timeout(self, came):
        seconds = int(self.s.join_timeout)
        raise RuntimeError(
            f"Timed out after {seconds + 1} seconds waiting for clients. {came}/{self.s.world} clients joined."
        )

    def client_timeout(self):
        ms = int(self.s.join_timeout * 1000)
        text = f"The client socket has timed out after {ms}ms while trying to connect to ({self.address(0)}, 29500)."
        raise type("DistNetworkError", (RuntimeError,), {"__module__": "torch.distributed"})(text)


def keep_alive():
    threading.Event().wait()
