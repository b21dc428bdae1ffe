"""Several Apache Kafka brokers, each a process, and a stand-in for the part of huld's control interface that steers them."""

import base64
import http.server
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time

START_LIMIT_S = 90
STOP_LIMIT_S = 60
CONTROLLER = 100


class KafkaCluster:
    """Brokers 1 to N, and a controller that is no broker, so that it goes on whatever happens to them."""

    def __init__(self, layout, home, size, settings):
        self.layout = layout
        self.home = home
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        ports = free_ports(size + 1)
        self.ports = dict(zip([CONTROLLER, *range(1, size + 1)], ports))
        self.processes = {}
        cluster_id = "K" + base64.urlsafe_b64encode(secrets.token_bytes(16)).decode()[1:22]
        try:
            for node in self.ports:
                self.properties(node).write_text(self.configuration(node, settings))
                self.java(node, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", self.properties(node)).wait()
            # Together, since each takes its time to start.
            for node in self.ports:
                self.launch(node)
            for node in self.ports:
                self.await_port(node)
            self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler_for(self))
        except BaseException:
            self.kill_all()
            raise
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.variables = {
            "HULD_BOOTSTRAP": ",".join(f"127.0.0.1:{self.ports[broker]}" for broker in range(1, size + 1)),
            "HULD_TARGET": "kafka",
            "HULD_CONTROL": f"http://127.0.0.1:{self.server.server_port}",
        }

    def properties(self, node):
        return self.home / f"{node}.properties"

    def configuration(self, node, settings):
        role, listener = ("controller", "CONTROLLER") if node == CONTROLLER else ("broker", "PLAINTEXT")
        lines = [
            f"process.roles={role}",
            f"node.id={node}",
            f"controller.quorum.voters={CONTROLLER}@127.0.0.1:{self.ports[CONTROLLER]}",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            f"listeners={listener}://127.0.0.1:{self.ports[node]}",
            f"log.dirs={self.home}/data-{node}",
            *settings,
        ]
        return "".join(f"{line}\n" for line in lines)

    def java(self, node, name, *arguments):
        with (self.home / f"{node}.log").open("a") as log:
            command = ["java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-cp", f"{self.layout.jars}/*", name, *map(str, arguments)]
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.home,
                                    start_new_session=True)

    def launch(self, node):
        self.processes[node] = self.java(node, "kafka.Kafka", self.properties(node))

    def await_port(self, node):
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.ports[node]), timeout=1).close()
                return
            except OSError:
                if self.processes[node].poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"Apache Kafka {node} did not start, see {self.home}/{node}.log") from None
                time.sleep(0.1)  # Another program's start-up; it has no line to wait for when its logging is off.

    def steer(self, broker, action):
        """Does to a broker what huld's control interface would do; returns when it is done."""
        process = self.processes[broker]
        if action == "start":
            self.launch(broker)
            self.await_port(broker)
            return
        numbers = {"stop": signal.SIGTERM, "kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "thaw": signal.SIGCONT}
        process.send_signal(numbers[action])
        if action in ("stop", "kill"):
            process.wait(STOP_LIMIT_S)

    def stop(self):
        """Ends them all; gives what was wrong with them, or None."""
        ended = [node for node, process in self.processes.items() if process.poll() is not None]
        self.server.shutdown()
        self.server.server_close()
        self.kill_all()
        return f"brokers {ended} of Apache Kafka had ended, see {self.home}" if ended else None

    def kill_all(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        for data in self.home.glob("data-*"):
            shutil.rmtree(data, ignore_errors=True)


def handler_for(cluster):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            _, _, broker, action = self.path.split("/")
            try:
                cluster.steer(int(broker), action)
                status, text = 200, "{}"
            except Exception as error:  # Told to the test, which fails with it.
                status, text = 500, str(error)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            # Java's client doesn't know that HTTP/1.0 means so, and would send the next request into a closed connection.
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    return Handler


def free_ports(count):
    # All are held until the last is drawn, so that no port comes twice.
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
