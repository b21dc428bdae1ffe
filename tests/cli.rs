//! The program from outside: exit codes, signals, what it prints.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const ONE_SECOND: Duration = Duration::from_secs(1);

fn huld(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_huld"));
    command.args(arguments).env_remove("RUST_LOG").stdin(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KAFKA_")) {
        command.env_remove(name);
    }
    command
}

fn output(arguments: &[&str]) -> Output {
    huld(arguments).output().unwrap()
}

fn exec(script: &str) -> Output {
    output(&["exec", "--", "sh", "-c", script])
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// A broker on a free port, its standard output, and the address that it printed last.
fn serve() -> (Child, BufReader<std::process::ChildStdout>, Vec<String>) {
    let mut child = huld(&["--port", "0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.contains("://127.0.0.1:")) {
        let mut line = String::new();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "the broker ended: {lines:?}");
        lines.push(line);
    }
    (child, out, lines)
}

fn address(lines: &[String]) -> &str {
    lines.last().and_then(|line| line.trim().strip_prefix("huld: listening on PLAINTEXT://")).unwrap()
}

/// Sends an ApiVersions request, reads its answer and returns how long that was.
fn ask(stream: &mut TcpStream) -> i32 {
    stream.set_read_timeout(Some(5 * ONE_SECOND)).unwrap();
    stream.write_all(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 255, 255]).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let length = i32::from_be_bytes(length);
    stream.read_exact(&mut vec![0; length as usize]).unwrap();
    length
}

#[test]
fn ready_lines_are_those_that_container_wrappers_wait_for() {
    let (mut child, _out, lines) = serve();
    for expected in
        ["Transitioning from RECOVERY to RUNNING", "[KafkaServer id=1] started", "Kafka Server started"]
    {
        assert!(lines.iter().any(|line| line.contains(expected)), "{expected} in {lines:?}");
    }
    assert!(ask(&mut TcpStream::connect(address(&lines)).unwrap()) > 0);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
}

#[test]
fn terminate_and_interrupt_end_it_in_good_order() {
    for end in [Signal::TERM, Signal::INT] {
        let (mut child, _out, lines) = serve();
        let mut client = TcpStream::connect(address(&lines)).unwrap();
        ask(&mut client);
        let began = Instant::now();
        signal(&child, end);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert!(began.elapsed() < ONE_SECOND);
        assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 0, "a client sees a proper end");
    }
}

#[test]
fn a_closed_standard_output_does_not_end_it() {
    let (mut child, out, lines) = serve();
    drop(out);
    ask(&mut TcpStream::connect(address(&lines)).unwrap());
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn exec_tells_its_command_where_the_broker_is() {
    let ended = exec("echo $KAFKA_BOOTSTRAP_SERVERS $BOOTSTRAP_SERVERS");
    let printed = String::from_utf8(ended.stdout).unwrap();
    let words: Vec<&str> = printed.split_whitespace().collect();
    let [first, second] = words[..] else { panic!("{printed}") };
    assert_eq!(first, second);
    assert!(first.starts_with("127.0.0.1:") && !first.ends_with(":0"), "{first}");
    assert!(TcpStream::connect(first).is_err(), "the broker is gone");
}

#[test]
fn exec_returns_its_commands_exit_code() {
    assert_eq!(exec("exit 0").status.code(), Some(0));
    assert_eq!(exec("exit 37").status.code(), Some(37));
    assert_eq!(exec("kill -KILL $$").status.code(), Some(137));
}

#[test]
fn exec_of_what_cannot_be_run_is_an_error() {
    for (command, code) in [("no-such-command-anywhere", 127), ("/", 126)] {
        let ended = output(&["exec", "--", command]);
        assert_eq!(ended.status.code(), Some(code));
        let printed = String::from_utf8(ended.stderr).unwrap();
        assert!(printed.starts_with(&format!("huld: can't run '{command}': ")), "{printed}");
        assert_eq!(printed.lines().count(), 1);
    }
}

#[test]
fn exec_passes_signals_on() {
    for (passed, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP")] {
        let script = format!("trap 'exit 42' {name}; echo ready; while :; do sleep 0.01; done");
        let mut child = huld(&["exec", "--", "sh", "-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        signal(&child, passed);
        assert_eq!(child.wait().unwrap().code(), Some(42), "{name}");
    }
}

#[test]
fn wrong_usage_is_one_line_and_exit_code_2() {
    for arguments in [&["--advertise", "0.0.0.0:9092"][..], &["--listen", "host:port"], &["--brokers", "65"]]
    {
        let ended = output(arguments);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        let printed = String::from_utf8(ended.stderr).unwrap();
        assert!(printed.starts_with("huld: ") && printed.lines().count() == 1, "{printed}");
        assert!(printed.contains(arguments[1]), "{printed}");
    }
    assert_eq!(output(&["--no-such-option"]).status.code(), Some(2));
    // A negative number is a wrong value, and not an option.
    let negative: [(&[&str], &str); 5] = [
        (&["--brokers", "-1"], "'-1' for '--brokers"),
        (&["--seed", "-1"], "'-1' for '--seed"),
        (&["--port", "-1"], "'-1' for '--port"),
        (&["hold", "add", "--count", "-1"], "'-1' for '--count"),
        (&["clock", "advance", "-5s"], "'-5s' for '<SPAN>'"),
    ];
    for (arguments, expected) in negative {
        let ended = output(arguments);
        let printed = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.code() == Some(2) && printed.contains(expected), "{arguments:?}: {printed}");
    }
}

#[test]
fn a_port_in_use_is_exit_code_1_and_says_what_to_do() {
    let (mut child, _out, lines) = serve();
    let port = address(&lines).rsplit(':').next().unwrap().to_owned();
    let ended = output(&["--port", &port]);
    assert_eq!(ended.status.code(), Some(1));
    let printed = String::from_utf8(ended.stderr).unwrap();
    assert!(printed.contains(&port) && printed.contains("--port"), "{printed}");
    signal(&child, Signal::KILL);
    child.wait().unwrap();
}

#[test]
fn version_is_printed() {
    let ended = output(&["--version"]);
    assert_eq!(String::from_utf8(ended.stdout).unwrap(), concat!("huld ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn refused_connections_are_one_line_in_the_log() {
    let mut child = huld(&["--port", "0", "--log-format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("://127.0.0.1:") {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0);
    }
    let lines = [line];
    for _ in 0..50 {
        let mut stream = TcpStream::connect(address(&lines)).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        stream.set_read_timeout(Some(5 * ONE_SECOND)).unwrap();
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    }
    signal(&child, Signal::TERM);
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    child.wait().unwrap();
    assert!(log.lines().count() <= 20, "{log}");
    assert!(log.lines().all(|line| line.starts_with('{') && line.contains("WARN")), "{log}");
    assert!(log.contains("HTTP"), "{log}");
}

#[test]
fn a_client_changes_the_level_of_a_logger() {
    let mut child = huld(&["--port", "0"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("://127.0.0.1:") {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0);
    }
    let lines = [line];
    ask(&mut TcpStream::connect(address(&lines)).unwrap());
    // IncrementalAlterConfigs v0: of the loggers (8) of broker 1, one is set (0).
    let string = |text: &str| [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat();
    let header = [&[0, 44, 0, 0, 0, 0, 0, 1, 0xff, 0xff][..], &[0, 0, 0, 1, 8], &string("1"), &[0, 0, 0, 1]];
    let set = [&string("huld.server.listener")[..], &[0], &string("DEBUG"), &[0]];
    let request = [header.concat(), set.concat()].concat();
    let mut admin = TcpStream::connect(address(&lines)).unwrap();
    admin.write_all(&(request.len() as u32).to_be_bytes()).unwrap();
    admin.write_all(&request).unwrap();
    let mut answer = [0; 18];
    admin.read_exact(&mut answer).unwrap();
    // Length, correlation id, throttle time, one resource, no error.
    assert_eq!(answer[4..], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
    ask(&mut TcpStream::connect(address(&lines)).unwrap());
    // The one before is seen to be gone by the time that this is answered.
    ask(&mut TcpStream::connect(address(&lines)).unwrap());
    signal(&child, Signal::TERM);
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    child.wait().unwrap();
    let told = "a client has changed levels of loggers: ";
    let (before, after) = log.split_once(told).unwrap_or_else(|| panic!("{log}"));
    assert!(!before.contains("DEBUG"), "{log}");
    assert!(after.lines().next().unwrap().contains("huld.server.listener=DEBUG"), "{log}");
    assert!(after.contains("DEBUG huld::server::listener: "), "{log}");
}

/// A file for one test, gone when this is dropped.
struct File(std::path::PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("huld-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        File(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_wrong_setting_is_named_with_its_place() {
    let file = File::new("wrong.properties", "# a comment\nnum.partitions=many\n");
    let path = file.0.to_str().unwrap();
    let ended = output(&["--config", path, "--port", "0"]);
    assert_eq!(ended.status.code(), Some(2));
    let printed = String::from_utf8(ended.stderr).unwrap();
    assert!(printed.starts_with(&format!("huld: {path}:2: num.partitions=many: ")), "{printed}");
    for (arguments, expected) in [
        (&["--config", "/no/such/file"][..], "huld: --config /no/such/file: "),
        (&["--set", "num.partitions"], "huld: --set num.partitions: "),
        (&["--config", "/dev/zero"], "huld: --config /dev/zero: is larger than 1048576 bytes"),
        (&["--memory", "much"], "huld: --memory much: "),
        (&["--memory", "-5"], "huld: --memory -5: "),
        (&["--topic", "a:none"], "huld: --topic a:none: "),
        (&["--port", "0", "--topic", "a/b"], "huld: can't create topic 'a/b': "),
    ] {
        let ended = output(arguments);
        let printed = String::from_utf8(ended.stderr).unwrap();
        assert!(printed.starts_with(expected), "{arguments:?}: {printed}");
        assert_eq!((ended.status.code(), printed.lines().count()), (Some(2), 1), "{arguments:?}");
    }
}

#[test]
fn a_file_for_apache_kafka_starts_and_unknown_settings_warn_once() {
    let text = "process.roles=broker,controller\nnode.id=7\ncontroller.quorum.voters=7@localhost:19093\n\
                listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://:19093\ncontroller.listener.names=CONTROLLER\n\
                log.dirs=/no/such/folder\nnum.network.threads=3\nno.such.setting=1\n";
    let file = File::new("kafka.properties", text);
    let mut child = huld(&["--config", file.0.to_str().unwrap()])
        .env("KAFKA_NUM_PARTITIONS", "3")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = String::new();
    while !lines.contains("huld: listening on PLAINTEXT://127.0.0.1:") {
        assert_ne!(out.read_line(&mut lines).unwrap(), 0, "{lines}");
    }
    assert!(lines.contains("[KafkaServer id=7] started"), "{lines}");
    signal(&child, Signal::TERM);
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(log.matches("no.such.setting").count(), 1, "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[test]
fn running_out_of_file_descriptors_ends_nothing() {
    let script = format!("ulimit -n 32 && exec {} --port 0", env!("CARGO_BIN_EXE_huld"));
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = vec![String::new()];
    while !lines[0].contains("://127.0.0.1:") {
        lines[0].clear();
        assert_ne!(out.read_line(&mut lines[0]).unwrap(), 0, "the broker ended");
    }
    let mut first = TcpStream::connect(address(&lines)).unwrap();
    ask(&mut first);
    let mut clients: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(address(&lines)).unwrap()).collect();
    ask(&mut first);
    // Those that were left waiting are served once others have gone.
    let mut last = clients.pop().unwrap();
    drop(clients);
    ask(&mut last);
    signal(&child, Signal::TERM);
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(log.contains("Too many open files"), "{log}");
    assert!(log.lines().count() <= 20, "{log}");
}
