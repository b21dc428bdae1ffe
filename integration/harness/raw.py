"""A few Kafka requests on a raw socket, at versions without compact fields: for attacks and for looking closely."""

import gzip
import socket
import struct
import time

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS, CREATE_TOPICS = 0, 1, 2, 3, 10, 18, 19
CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
BATCH_OVERHEAD = 61


class Closed(Exception):
    """The broker closed the connection."""


class Connection:
    """One connection, to the first broker if there are several; requests are answered in order."""

    def __init__(self, bootstrap, timeout_s=10):
        host, port = bootstrap.split(",")[0].rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self.correlation = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, key, version, body):
        self.correlation += 1
        self.socket.sendall(frame(key, version, self.correlation, body))

    def receive(self):
        """The next answer, after its correlation id."""
        (length,) = struct.unpack(">i", self.exactly(4))
        answer = self.exactly(length)
        (correlation,) = struct.unpack(">i", answer[:4])
        if correlation != self.correlation:
            raise AssertionError(f"answer to {correlation} instead of {self.correlation}")
        return Reader(answer[4:])

    def exactly(self, length):
        parts = bytearray()
        while len(parts) < length:
            try:
                part = self.socket.recv(length - len(parts))
            except (ConnectionResetError, BrokenPipeError) as error:
                raise Closed(str(error)) from None
            if not part:
                raise Closed("end of stream")
            parts += part
        return bytes(parts)

    def call(self, key, version, body):
        self.send(key, version, body)
        return self.receive()

    def api_versions(self):
        """Error code and {key: (lowest, highest)}."""
        reader = self.call(API_VERSIONS, 0, b"")
        error = reader.int16()
        return error, {key: (low, high) for key, low, high in reader.array(lambda: (reader.int16(), reader.int16(), reader.int16()))}

    def create_topic(self, topic, partitions=1):
        body = struct.pack(">i", 1) + string(topic) + struct.pack(">ihii", partitions, 1, 0, 0) + struct.pack(">ib", 10_000, 0)
        reader = self.call(CREATE_TOPICS, 2, body)
        reader.int32()
        return reader.array(lambda: (reader.string(), reader.int16(), reader.string()))[0][1]

    def metadata(self, topic, create=False):
        """Topic's error and [(partition's error, partition, leader)]."""
        reader = self.call(METADATA, 4, struct.pack(">i", 1) + string(topic) + struct.pack(">b", create))
        reader.int32()
        reader.array(lambda: (reader.int32(), reader.string(), reader.int32(), reader.string()))
        reader.string(), reader.int32()

        def partition():
            answer = reader.int16(), reader.int32(), reader.int32()
            reader.array(reader.int32), reader.array(reader.int32)
            return answer

        def one():
            error = reader.int16()
            reader.string(), reader.int8()
            return error, reader.array(partition)

        return reader.array(one)[0]

    def brokers(self):
        """[(id, host, port, rack)]."""
        reader = self.call(METADATA, 4, struct.pack(">ib", 0, 0))
        reader.int32()
        return reader.array(lambda: (reader.int32(), reader.string(), reader.int32(), reader.string()))

    def transaction_coordinator(self, transactional_id):
        """Error code and the id of the broker."""
        reader = self.call(FIND_COORDINATOR, 1, string(transactional_id) + struct.pack(">b", 1))
        reader.int32()
        error, _, broker = reader.int16(), reader.string(), reader.int32()
        return error, broker

    def produce(self, topic, partition, batch, acks=-1):
        """Error code and base offset."""
        body = string(None) + struct.pack(">hi", acks, 10_000) + struct.pack(">i", 1) + string(topic)
        body += struct.pack(">ii", 1, partition) + struct.pack(">i", len(batch)) + batch
        reader = self.call(PRODUCE, 7, body)
        reader.int32(), reader.string(), reader.int32(), reader.int32()
        return reader.int16(), reader.int64()

    def send_fetch(self, topic, partition, offset, max_wait_ms, min_bytes):
        body = struct.pack(">iiiib", -1, max_wait_ms, min_bytes, 50 << 20, 0) + struct.pack(">i", 1) + string(topic)
        self.send(FETCH, 4, body + struct.pack(">iiqi", 1, partition, offset, 50 << 20))

    def receive_fetch(self):
        """Error code, high watermark and record bytes."""
        reader = self.receive()
        reader.int32(), reader.int32(), reader.string(), reader.int32(), reader.int32()
        error, high_watermark, _ = reader.int16(), reader.int64(), reader.int64()
        for _ in range(max(0, reader.int32())):
            reader.int64(), reader.int64()
        return error, high_watermark, reader.bytes()

    def fetch(self, topic, partition=0, offset=0, max_wait_ms=500, min_bytes=1):
        self.send_fetch(topic, partition, offset, max_wait_ms, min_bytes)
        return self.receive_fetch()

    def list_offset(self, topic, partition, timestamp):
        """Error code and offset."""
        body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, partition, timestamp)
        reader = self.call(LIST_OFFSETS, 1, body)
        reader.int32(), reader.string(), reader.int32(), reader.int32()
        error, _, offset = reader.int16(), reader.int64(), reader.int64()
        return error, offset

    def settle(self, topic, partition, limit_s=5):
        """Waits until a new partition takes requests: real Kafka refuses them for a moment after the creation."""
        deadline = time.monotonic() + limit_s
        while self.list_offset(topic, partition, -1)[0] != 0 or self.metadata(topic)[0] != 0:
            if time.monotonic() > deadline:
                raise AssertionError(f"partition {partition} not usable after {limit_s} s")
            time.sleep(0.01)


def leading(bootstrap, topic, partition=0, limit_s=5):
    """A connection to the leader of a partition, once it takes requests: real Kafka lets one wait after the creation."""
    deadline = time.monotonic() + limit_s
    with Connection(bootstrap) as connection:
        while True:
            leaders = {index: leader for _, index, leader in connection.metadata(topic)[1]}
            addresses = {broker: f"{host}:{port}" for broker, host, port, _ in connection.brokers()}
            address = addresses.get(leaders.get(partition))
            if address is not None:
                break
            if time.monotonic() > deadline:
                raise AssertionError(f"partition {partition} has no leader after {limit_s} s")
            time.sleep(0.01)
    leader = Connection(address)
    leader.settle(topic, partition, limit_s)
    return leader


class Reader:
    """Reads the fields of an answer one by one."""

    def __init__(self, data):
        self.data = data
        self.position = 0

    def take(self, length):
        part = self.data[self.position:self.position + length]
        if len(part) != length:
            raise AssertionError("the answer is too short")
        self.position += length
        return part

    def int8(self):
        return struct.unpack(">b", self.take(1))[0]

    def int16(self):
        return struct.unpack(">h", self.take(2))[0]

    def int32(self):
        return struct.unpack(">i", self.take(4))[0]

    def int64(self):
        return struct.unpack(">q", self.take(8))[0]

    def string(self):
        length = self.int16()
        return None if length < 0 else self.take(length).decode()

    def bytes(self):
        length = self.int32()
        return None if length < 0 else self.take(length)

    def array(self, element):
        return [element() for _ in range(self.int32())]


def codecs_of(bootstrap, topic, partition=0):
    """The names of the codecs in which the batches of a partition are stored."""
    with Connection(bootstrap) as connection:
        error, _, records = connection.fetch(topic, partition)
    if error:
        raise AssertionError(f"fetch answered error {error}")
    found = set()
    while len(records) >= BATCH_OVERHEAD:
        (length,) = struct.unpack(">i", records[8:12])
        (attributes,) = struct.unpack(">h", records[21:23])
        found.add(CODECS[attributes & 7])
        records = records[12 + length:]
    return found


def frame(key, version, correlation, body, client="raw"):
    payload = struct.pack(">hhi", key, version, correlation) + string(client) + body
    return struct.pack(">i", len(payload)) + payload


def string(text):
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text)) + text.encode()


def batch(*values, timestamp_ms=1_700_000_000_000):
    """One uncompressed record batch with these values, without keys."""
    records = b"".join(record(number, value) for number, value in enumerate(values))
    return batch_of(0, len(values), records, timestamp_ms)


def gzip_batch(value, timestamp_ms=1_700_000_000_000):
    """A record batch with one record, compressed with gzip."""
    return batch_of(1, 1, gzip.compress(record(0, value)), timestamp_ms)


def batch_of(attributes, count, records, timestamp_ms):
    checked = struct.pack(">hiqqqhii", attributes, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count) + records
    head = struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c(checked))
    return head + checked


def record(number, value):
    body = b"\0" + varint(0) + varint(number) + varint(-1) + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def varint(number):
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = CRC_TABLE[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


def crc_table():
    for number in range(256):
        for _ in range(8):
            number = (number >> 1) ^ (0x82F63B78 if number & 1 else 0)
        yield number


CRC_TABLE = list(crc_table())
