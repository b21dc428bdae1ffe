#!/usr/bin/env python3
"""Raw-socket attacks, and what a healthy client sees meanwhile; topics that must be usable at once; shutdown."""

import os
import re
import secrets
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "harness"))
import brokers
import raw
import tap
from tap import BOOTSTRAP, TARGET, Skip, check, equal, test, topic_name

HOST, PORT = BOOTSTRAP.rsplit(":", 1)
ADDRESS = (HOST, int(PORT))
CLOSE_LIMIT_S = 5
ROUNDS = 200
RSS_GROWTH_LIMIT_BYTES = 64 << 20
LOG_GROWTH_LIMIT_BYTES = 1 << 20


def client_hello(record_version):
    """The start of a TLS handshake as a client sends it; servers tell it by its first bytes."""
    suites = bytes.fromhex("130113021303c02bc02fc02cc030009c009d002f0035")
    extensions = bytes.fromhex("000a00040002001d" "000d0006000408040403" "002b0003020304")
    hello = b"\x03\x03" + secrets.token_bytes(32) + b"\0" + struct.pack(">H", len(suites)) + suites + b"\x01\0"
    hello += struct.pack(">H", len(extensions)) + extensions
    handshake = b"\x01" + struct.pack(">I", len(hello))[1:] + hello
    return b"\x16" + record_version + struct.pack(">H", len(handshake)) + handshake


def length(number):
    return struct.pack(">i", number)


# Each must close its connection. (Whether Kafka closes or ignores is the same for all of them.)
ATTACKS = {
    "tls_1_2_hello": client_hello(b"\x03\x03"),
    "tls_1_3_hello": client_hello(b"\x03\x01"),
    "http_get": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "zero_length": length(0) + b"\0" * 4,
    "length_minus_one": length(-1),
    "length_maximum": length(2**31 - 1) + bytes(100),
    "length_three": length(3) + b"\0\x12\0",
    "key_9999": raw.frame(9999, 0, 1, b""),
    "key_minus_one": raw.frame(-1, 0, 1, b""),
    "produce_version_32767": raw.frame(raw.PRODUCE, 32767, 1, bytes(20)),
    "metadata_huge_count": raw.frame(raw.METADATA, 4, 1, length(2**31 - 1) + b"\0"),
    "metadata_count_beyond_frame": raw.frame(raw.METADATA, 4, 1, length(1000) + raw.string("a") + b"\0"),
    "fetch_huge_partition_count": raw.frame(
        raw.FETCH, 4, 1, bytes(17) + length(1) + raw.string("a") + length(2**31 - 1)),
    "cut_metadata": raw.frame(raw.METADATA, 4, 1, length(1) + b"\0\x10abc"),
    "random_bytes": length(200) + b"\x7f" + secrets.token_bytes(199),
    "client_id_beyond_frame": length(10) + struct.pack(">hhih", raw.METADATA, 4, 1, 3000),
}


def closed_after(data):
    """Sends it and waits for the end of the connection; gives what came before it."""
    with socket.create_connection(ADDRESS, timeout=CLOSE_LIMIT_S) as peer:
        answer = b""
        try:
            peer.sendall(data)
            while part := peer.recv(65536):
                answer += part
        except (ConnectionResetError, BrokenPipeError):
            pass
        except TimeoutError:
            raise AssertionError(f"still open after {CLOSE_LIMIT_S} s") from None
        return answer


class Healthy:
    """A client that produces and reads back without pause, while its owner attacks."""

    def __enter__(self):
        self.topic = topic_name()
        self.stop = threading.Event()
        self.fault = None
        self.slowest_s = 0.0
        self.count = 0
        with raw.Connection(BOOTSTRAP) as connection:
            equal(connection.create_topic(self.topic), 0, "error of creation")
            connection.settle(self.topic, 0)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def run(self):
        try:
            with raw.Connection(BOOTSTRAP) as connection:
                while not self.stop.is_set():
                    value = b"%d" % self.count
                    began = time.monotonic()
                    equal(connection.produce(self.topic, 0, raw.batch(value)), (0, self.count), "answer to produce")
                    error, _, records = connection.fetch(self.topic, 0, self.count)
                    self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                    check(error == 0 and value in records, f"fetch answered error {error}")
                    self.count += 1
        except Exception as error:
            self.fault = error

    def __exit__(self, kind, *_):
        self.stop.set()
        self.thread.join()
        if kind is None:
            check(self.fault is None, f"the healthy client saw {self.fault!r}")
            check(self.count > 0, "the healthy client did nothing")
            check(self.slowest_s < 1, f"the healthy client waited {self.slowest_s:.2f} s")


def rss_bytes(pid=None):
    """Resident memory of the broker, or 0 where we don't know its process."""
    pid = pid or os.environ.get("HULD_PID")
    if not pid:
        return 0
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) << 10


def bounded(peak_before):
    growth = rss_bytes() - peak_before
    check(growth <= RSS_GROWTH_LIMIT_BYTES, f"peak memory grew by {growth >> 20} MiB")


def declare(attack):
    @test(name=attack)
    def _():
        before = rss_bytes()
        began = time.monotonic()
        equal(closed_after(ATTACKS[attack]), b"", "answer")
        check(time.monotonic() - began < CLOSE_LIMIT_S, "closed too late")
        bounded(before)
        with raw.Connection(BOOTSTRAP) as connection:
            equal(connection.api_versions()[0], 0, "error for the next client")


for attack in ATTACKS:
    declare(attack)


@test
def api_versions_version_32767():
    """Not an attack but a client of the future: it gets error 35 in the layout of version 0."""
    with raw.Connection(BOOTSTRAP) as connection:
        reader = connection.call(raw.API_VERSIONS, 32767, bytes(8))
        equal(reader.int16(), 35, "error")
        ranges = reader.array(lambda: (reader.int16(), reader.int16(), reader.int16()))
        check(raw.API_VERSIONS in [key for key, _, _ in ranges], "the answer doesn't say what is supported")


@test
def half_header_then_end():
    with socket.create_connection(ADDRESS, timeout=CLOSE_LIMIT_S) as peer:
        peer.sendall(raw.frame(raw.METADATA, 4, 1, b"")[:9])
        peer.shutdown(socket.SHUT_WR)
        try:
            equal(peer.recv(100), b"", "answer")
        except ConnectionResetError:
            pass


@test
def one_byte_at_a_time():
    with raw.Connection(BOOTSTRAP) as connection:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.correlation = 7
        for byte in raw.frame(raw.API_VERSIONS, 0, 7, b""):
            connection.socket.sendall(bytes([byte]))
        equal(connection.receive().int16(), 0, "error")


@test
def many_frames_in_a_segment():
    with raw.Connection(BOOTSTRAP) as connection:
        connection.socket.sendall(b"".join(raw.frame(raw.API_VERSIONS, 0, number, b"") for number in range(50)))
        for number in range(50):
            connection.correlation = number
            equal(connection.receive().int16(), 0, "error")


@test(limit_s=60)
def rounds_beside_a_healthy_client():
    before = rss_bytes()
    with Healthy():
        for _ in range(ROUNDS):
            for attack in ATTACKS.values():
                with socket.create_connection(ADDRESS, timeout=CLOSE_LIMIT_S) as peer:
                    try:
                        peer.sendall(attack)
                        peer.recv(100)
                    except OSError:
                        pass
            reset(socket.create_connection(ADDRESS, timeout=CLOSE_LIMIT_S))
    bounded(before)


def reset(peer):
    """Ends a connection with RST instead of FIN."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


@test(limit_s=60)
def a_thousand_half_frames():
    before = rss_bytes()
    # The worst kind: the frame's length is allowed and large, and most of it never comes. Apache Kafka takes memory
    # for all of it at once, so there the frames are small.
    half = length(90 << 20 if TARGET == "huld" else 100 << 10) + raw.frame(raw.PRODUCE, 7, 1, bytes(500))[4:]
    peers = []
    with Healthy():
        for _ in range(1000):
            peer = socket.create_connection(ADDRESS, timeout=CLOSE_LIMIT_S)
            peer.sendall(half)
            peers.append(peer)
        with raw.Connection(BOOTSTRAP) as connection:
            equal(connection.api_versions()[0], 0, "error beside them")
        bounded(before)
        for number, peer in enumerate(peers):
            reset(peer) if number % 2 else peer.close()
    bounded(before)


@test
def garbage_in_record_batches():
    """Batches that lie get an error in the answer, and the partition stays usable."""
    topic = topic_name()
    good = raw.batch(b"value")
    wrong_crc = good[:17] + bytes(4) + good[21:]

    def sealed(batch):
        return batch[:17] + struct.pack(">I", raw.crc32c(batch[21:])) + batch[21:]

    # (batch, allowed errors): 2 CORRUPT_MESSAGE, 10 MESSAGE_TOO_LARGE, 87 INVALID_RECORD, -1 UNKNOWN_SERVER_ERROR.
    lies = {
        "wrong CRC": (wrong_crc, {2}),
        "count of 2^31-1": (sealed(good[:57] + length(2**31 - 1) + good[61:]), {87, 2}),
        "negative count": (sealed(good[:57] + length(-5) + good[61:]), {87, 2}),
        "last offset delta of 1000": (sealed(good[:23] + length(1000) + good[27:]), {87, 2}),
        "magic 0": (good[:16] + b"\0" + good[17:], {87}),
        "magic 3": (good[:16] + b"\3" + good[17:], {2}),
        "length of 10": (good[:8] + length(10) + good[12:], {2}),
        "cut": (good[:-3], {87}),
        "base offset of 5": (struct.pack(">q", 5) + good[8:], {87}),
        "gzip bit on plain bytes": (sealed(good[:21] + b"\0\1" + good[23:]), {-1}),
        "codec 7": (sealed(good[:21] + b"\0\7" + good[23:]), {-1}),
    }
    with raw.Connection(BOOTSTRAP) as connection:
        equal(connection.create_topic(topic), 0, "error of creation")
        connection.settle(topic, 0)
        for lie, (batch, allowed) in lies.items():
            error, _ = connection.produce(topic, 0, batch)
            check(error in allowed, f"{lie}: error {error} instead of one of {sorted(allowed)}")
        equal(connection.produce(topic, 0, good), (0, 0), "answer to a good batch")


@test(limit_s=60)
def usable_right_after_creation():
    """200 times: created on one connection, and at once used on another."""
    with raw.Connection(BOOTSTRAP) as creator, raw.Connection(BOOTSTRAP) as user:
        for number in range(200):
            topic, last = topic_name(), number % 50
            equal(creator.create_topic(topic, last + 1), 0, "error of creation")
            if TARGET != "huld":
                user.settle(topic, last)
            error, partitions = user.metadata(topic)
            equal((error, len(partitions)), (0, last + 1), "metadata's error and partitions")
            equal([each for each in partitions if each[0] != 0 or each[2] < 0], [], "partitions that are not led")
            equal(user.produce(topic, last, raw.batch(b"value")), (0, 0), "answer to produce")
            equal(user.list_offset(topic, last, -1), (0, 1), "answer to ListOffsets")


@test(limit_s=60)
def usable_right_after_auto_creation():
    with raw.Connection(BOOTSTRAP) as creator, raw.Connection(BOOTSTRAP) as user:
        for _ in range(200):
            topic = topic_name()
            error, _ = creator.metadata(topic, create=True)
            if TARGET != "huld":
                user.settle(topic, 0)
            else:
                equal(error, 0, "error of the metadata request that creates")
            equal(user.produce(topic, 0, raw.batch(b"value")), (0, 0), "answer to produce")


@test
def long_poll_idle():
    topic = topic_name()
    with raw.Connection(BOOTSTRAP) as connection:
        equal(connection.create_topic(topic), 0, "error of creation")
        connection.settle(topic, 0)
        for max_wait_ms in (100, 700):
            began = time.monotonic()
            answer = connection.fetch(topic, max_wait_ms=max_wait_ms, min_bytes=100_000)
            tap.check_long_poll(time.monotonic() - began, max_wait_ms / 1000)
            equal(answer, (0, 0, b""), "error, high watermark and records")


@test(limit_s=60)
def compressed_bombs():
    if TARGET != "huld":
        raise Skip("Kafka takes them")
    topic = topic_name()
    bomb = raw.gzip_batch(bytes(100 << 20))
    check(len(bomb) < 200_000, "the bomb is small on the wire")
    with raw.Connection(BOOTSTRAP) as connection:
        equal(connection.create_topic(topic), 0, "error of creation")
    errors = []

    def attack():
        with raw.Connection(BOOTSTRAP) as connection:
            errors.extend(connection.produce(topic, 0, bomb)[0] for _ in range(3))

    before = rss_bytes()
    attackers = [threading.Thread(target=attack) for _ in range(20)]
    with Healthy():
        for attacker in attackers:
            attacker.start()
        for attacker in attackers:
            attacker.join()
    equal(errors, [87] * 60, "errors of the bombs")
    bounded(before)


@test
def long_poll_wakes():
    topic = topic_name()
    with raw.Connection(BOOTSTRAP) as reader, raw.Connection(BOOTSTRAP) as writer:
        equal(writer.create_topic(topic), 0, "error of creation")
        writer.settle(topic, 0)
        reader.send_fetch(topic, 0, 0, 9_000, 100_000)
        writer.produce(topic, 0, raw.batch(bytes(60_000)))
        reader.socket.settimeout(0.3)
        try:
            raise AssertionError(f"answered with too little: {tap.shorten(reader.receive_fetch())}")
        except TimeoutError:
            pass
        reader.socket.settimeout(5)
        writer.produce(topic, 0, raw.batch(bytes(60_000)))
        began = time.monotonic()
        error, _, records = reader.receive_fetch()
        check(time.monotonic() - began < 0.2, "did not wake at once")
        equal((error, len(records) > 120_000), (0, True), "error, and whether both batches came")


def own_broker(log):
    binary = os.environ.get("HULD_BIN")
    if not binary:
        raise Skip("needs huld's own process")
    return brokers.start_huld(binary, log)


def log_file():
    return tempfile.NamedTemporaryFile("r", prefix="huld-", suffix=".log", errors="replace")


@test
def one_log_line_names_the_cause():
    with log_file() as log:
        process, port = own_broker(log.name)
        try:
            for attack, word in [("tls_1_2_hello", "TLS"), ("http_get", "HTTP"), ("key_9999", "9999")]:
                before = log.seek(0, os.SEEK_END)
                with socket.create_connection(("127.0.0.1", port), timeout=CLOSE_LIMIT_S) as peer:
                    peer.sendall(ATTACKS[attack])
                    try:
                        equal(peer.recv(100), b"", "answer")
                    except ConnectionResetError:
                        pass
                lines = lines_after(log, before)
                equal(len(lines), 1, f"log lines for {attack}")
                check(word in lines[0], f"{attack} is logged as {lines[0]}")
            grown_from = os.path.getsize(log.name)
            for _ in range(2000):
                with socket.create_connection(("127.0.0.1", port), timeout=CLOSE_LIMIT_S) as peer:
                    peer.sendall(ATTACKS["http_get"])
            grown = os.path.getsize(log.name) - grown_from
            check(grown < LOG_GROWTH_LIMIT_BYTES, f"the log grew by {grown} bytes for 2,000 probes")
        finally:
            process.kill()
            process.wait()


def lines_after(log, position):
    """What has been logged since; the line may come a moment after the connection's end."""
    deadline = time.monotonic() + 2
    while True:
        log.seek(position)
        lines = log.read().splitlines()
        if lines or time.monotonic() > deadline:
            return lines
        time.sleep(0.01)


def ends_with_a_parked_fetch(number):
    with log_file() as log:
        process, port = own_broker(log.name)
        try:
            topic = topic_name()
            with raw.Connection(f"127.0.0.1:{port}") as connection, raw.Connection(f"127.0.0.1:{port}") as idle:
                equal(idle.api_versions()[0], 0, "error")
                equal(connection.create_topic(topic), 0, "error of creation")
                connection.send_fetch(topic, 0, 0, 60_000, 100_000)
                # The next answer on another connection shows that the fetch before it was read.
                equal(idle.metadata(topic)[0], 0, "error of metadata")
                time.sleep(0.05)
                began = time.monotonic()
                process.send_signal(number)
                error, _, records = connection.receive_fetch()
                equal((error, records), (0, b""), "error and records of the parked fetch")
                code = process.wait(timeout=5)
                equal(code, 0, "exit code")
                elapsed = time.monotonic() - began
                check(elapsed < 1, f"ended after {elapsed:.2f} s")
        except subprocess.TimeoutExpired:
            raise AssertionError("still running 5 s after the signal") from None
        finally:
            process.kill()
            process.wait()


@test
def sigterm_answers_parked_fetch():
    ends_with_a_parked_fetch(signal.SIGTERM)


@test
def sigint_answers_parked_fetch():
    ends_with_a_parked_fetch(signal.SIGINT)


tap.main()
