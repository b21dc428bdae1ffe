//! The control interface from outside: over HTTP, and by the program's own subcommands.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use bytes::BytesMut;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::{GroupId, OffsetCommitRequest, RequestHeader, TopicName};
use kafka_protocol::protocol::{Encodable, HeaderVersion, Request, StrBytes};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(20);

fn huld(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_huld"));
    command.args(arguments).env_remove("RUST_LOG").env_remove("HULD_CONTROL").stdin(Stdio::null());
    command
}

/// Running brokers, which end with the test.
struct Cluster {
    child: Child,
    control: String,
    brokers: Vec<String>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Cluster {
    /// Three brokers whose time stands, with a topic `t` on all of them.
    fn start() -> Cluster {
        let arguments = [
            "--port",
            "0",
            "--brokers",
            "3",
            "--control",
            "127.0.0.1:0",
            "--clock",
            "manual",
            "--set",
            "default.replication.factor=3",
            "--topic",
            "t:1",
        ];
        let mut child = huld(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut cluster = Cluster { child, control: String::new(), brokers: Vec::new() };
        for line in out.lines() {
            let line = line.unwrap();
            if let Some(address) = line.strip_prefix("huld: control at http://") {
                cluster.control = address.to_owned();
            } else if let Some((_, address)) = line.split_once("PLAINTEXT://127.0.0.1") {
                cluster.brokers.push(format!("127.0.0.1{address}"));
            }
            if cluster.brokers.len() == 3 {
                break;
            }
        }
        assert!(!cluster.control.is_empty() && cluster.brokers.len() == 3, "{:?}", cluster.brokers);
        cluster
    }

    /// An HTTP request as it is written, and status and body of its answer.
    fn raw(&self, head: &str, body: &[u8]) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.control).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        write!(stream, "{head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n").unwrap();
        // Of a body that is refused not all may be read.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}")))
    }

    fn request(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.raw(&format!("{method} {path} HTTP/1.1\r\nHost: {}", self.control), body.as_bytes())
    }

    fn get(&self, path: &str) -> Value {
        let (status, answer) = self.request("GET", path, "");
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.request("POST", path, &body.to_string());
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// What a subcommand prints; it must succeed.
    fn run(&self, arguments: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.output(arguments);
        assert!(status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    fn output(&self, arguments: &[&str]) -> Output {
        huld(arguments).env("HULD_CONTROL", &self.control).output().unwrap()
    }

    /// A connection whose ApiVersions request is held by a rule that is there.
    fn held(&self, broker: usize) -> TcpStream {
        let mut stream = self.connect(broker);
        ask(&mut stream);
        // Each look is a request that the same thread serves, so that the other one's turn comes.
        while self.get("/waits")["waits"].as_array().unwrap().iter().all(|wait| wait["kind"] != "Held") {}
        stream
    }

    fn connect(&self, broker: usize) -> TcpStream {
        let stream = TcpStream::connect(&self.brokers[broker]).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}

/// Sends an ApiVersions request.
fn ask(stream: &mut TcpStream) {
    stream.write_all(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 255, 255]).unwrap();
}

/// Whether an answer comes; none if the connection is closed.
fn is_answered(stream: &mut TcpStream) -> bool {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Ok(()) => i32::from_be_bytes(length) > 4,
        Err(error) => {
            assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "neither answered nor closed");
            false
        }
    }
}

#[test]
fn what_is_held_is_seen_and_released() {
    let cluster = Cluster::start();
    let id = cluster.run(&["hold", "add", "--api", "apiversions", "--broker", "2", "--count", "2"]);
    assert_eq!(id.trim(), "1");
    let mut stream = cluster.held(1);
    ask(&mut cluster.connect(0));
    let waits = cluster.get("/waits");
    let wait = waits["waits"].as_array().unwrap().iter().find(|wait| wait["kind"] == "Held").unwrap();
    assert_eq!((&wait["broker"], &wait["hold"], &wait["left_ms"]), (&json!(2), &json!(1), &Value::Null));
    assert_eq!(
        (&wait["waits_for"], &wait["progress"]),
        (&json!("hold 1"), &json!("ApiVersions, not applied yet"))
    );
    assert_eq!(wait["peer"], json!(stream.local_addr().unwrap().to_string()));
    let listed = cluster.run(&["waits"]);
    let id = wait["id"].as_str().unwrap();
    assert!(listed.lines().any(|line| line.starts_with(id)), "{listed}");
    for (query, count) in [
        ("kind=Held", 1),
        ("kind=held,Produce&broker=2", 1),
        ("kind=Held&broker=1", 0),
        ("kind=Produce", 0),
        ("kind=Held&client_id=nobody", 0),
    ] {
        let waits = cluster.get(&format!("/waits?{query}"));
        assert_eq!(waits["waits"].as_array().unwrap().len(), count, "{query}: {waits}");
    }
    assert_eq!(cluster.run(&["waits", "--kind", "Held", "--broker", "2"]).lines().count(), 2);
    assert_eq!(cluster.run(&["release", id]).trim(), "released: 1");
    assert!(is_answered(&mut stream));
    let again = cluster.output(&["release", id]);
    assert_eq!(again.status.code(), Some(1));
    let told = String::from_utf8(again.stderr).unwrap();
    assert!(told.contains(&format!("nothing waits as {id}")) && told.contains("GET /waits"), "{told}");

    let mut stream = cluster.held(1);
    assert_eq!(cluster.get("/holds")["holds"][0]["left"], 0);
    let purgatories = cluster.get("/metrics");
    let held =
        purgatories["purgatories"].as_array().unwrap().iter().find(|one| one["kind"] == "Held").unwrap();
    assert_eq!((&held["num_delayed_operations"], &held["released"]), (&json!(1), &json!(1)));
    assert_eq!(cluster.run(&["hold", "remove", "1"]).trim(), "released: 1");
    assert!(is_answered(&mut stream));
    assert_eq!(cluster.run(&["hold"]).lines().count(), 1, "the headings alone");

    cluster.run(&["hold", "add", "--point", "after-apply-then-disconnect"]);
    let mut stream = cluster.connect(2);
    ask(&mut stream);
    assert!(!is_answered(&mut stream));
}

/// A commit of client `shop` in group `g` for topic `t`.
fn commit(stream: &mut TcpStream) {
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(1);
    let topic = TopicName(StrBytes::from_static_str("t"));
    let topics = vec![OffsetCommitRequestTopic::default().with_name(topic).with_partitions(vec![partition])];
    let request = OffsetCommitRequest::default()
        .with_group_id(GroupId(StrBytes::from_static_str("g")))
        .with_topics(topics);
    let header = RequestHeader::default()
        .with_request_api_key(OffsetCommitRequest::KEY)
        .with_request_api_version(8)
        .with_client_id(Some(StrBytes::from_static_str("shop")));
    let mut frame = BytesMut::new();
    header.encode(&mut frame, OffsetCommitRequest::header_version(8)).unwrap();
    request.encode(&mut frame, 8).unwrap();
    stream.write_all(&(frame.len() as u32).to_be_bytes()).unwrap();
    stream.write_all(&frame).unwrap();
}

#[test]
fn requests_are_held_by_each_condition_at_each_point() {
    let cluster = Cluster::start();
    let held = || cluster.get("/waits?kind=Held")["waits"].as_array().unwrap().clone();
    let conditions = [
        ("api", json!("OffsetCommit"), json!("Fetch")),
        ("client_id", json!("shop"), json!("other")),
        ("topic", json!("t"), json!("u")),
        ("group", json!("g"), json!("h")),
        ("broker", json!(2), json!(3)),
    ];
    for point in ["before-apply", "after-apply", "after-apply-then-disconnect"] {
        for (condition, same, other) in &conditions {
            let rule = |value: &Value| json!({ "point": point, "count": 1, *condition: value });
            let elsewhere = cluster.post("/holds", rule(other))["id"].clone();
            let mut stream = cluster.connect(1);
            commit(&mut stream);
            assert!(is_answered(&mut stream), "{point}, {condition} {other}");
            let id = cluster.post("/holds", rule(same))["id"].clone();
            let mut stream = cluster.connect(1);
            commit(&mut stream);
            if point != "after-apply-then-disconnect" {
                while held().is_empty() {}
                let wait = held()[0].clone();
                let of_client = (&wait["hold"], &wait["client_id"], &wait["broker"], &wait["waits_for"]);
                assert_eq!(of_client, (&id, &json!("shop"), &json!(2), &json!(format!("hold {id}"))));
                assert!(wait["progress"].as_str().unwrap().starts_with("OffsetCommit, "), "{wait}");
                cluster.post(&format!("/waits/{}/release", wait["id"].as_str().unwrap()), json!({}));
            }
            assert_eq!(
                is_answered(&mut stream),
                point != "after-apply-then-disconnect",
                "{point}, {condition}"
            );
            let mut stream = cluster.connect(1);
            commit(&mut stream);
            assert!(is_answered(&mut stream), "it was to hold one");
            for id in [elsewhere, id] {
                assert_eq!(cluster.request("DELETE", &format!("/holds/{id}"), "").0, 200);
            }
        }
    }
}

#[test]
fn time_stands_until_it_is_moved() {
    let cluster = Cluster::start();
    let before = cluster.get("/clock");
    assert_eq!(before["pace"], "manual");
    cluster.run(&["hold", "add", "--api", "ApiVersions", "--time-limit", "1h"]);
    let mut stream = cluster.held(0);
    assert!(cluster.run(&["clock", "advance", "3599s"]).starts_with("pace manual"));
    assert!(cluster.run(&["waits"]).contains("1.0 s"), "what is left");
    let later = cluster.post("/clock/advance", json!({ "by_ms": 1000 }));
    assert!(is_answered(&mut stream));
    for field in ["wall_ms", "since_start_ms"] {
        assert_eq!(later[field].as_i64().unwrap() - before[field].as_i64().unwrap(), 3_600_000, "{field}");
    }
    let to = later["wall_ms"].as_i64().unwrap() + 5;
    assert_eq!(cluster.post("/clock/advance", json!({ "to_wall_ms": to }))["wall_ms"], json!(to));
    let (status, refused) =
        cluster.request("POST", "/clock/advance", &json!({ "to_wall_ms": to - 1 }).to_string());
    assert_eq!((status, &refused["error"]["what"]), (409, &json!("that time passed 1 ms ago")));
    let mut stream = cluster.held(0);
    assert_eq!(cluster.post("/clock", json!({ "pace": "x10000" }))["pace"], "x10000");
    assert!(is_answered(&mut stream));
    assert!(cluster.run(&["clock", "set", "machine"]).starts_with("pace machine"));
    assert_eq!(cluster.output(&["clock", "set", "fast"]).status.code(), Some(2));
}

#[test]
fn brokers_stop_and_start() {
    let cluster = Cluster::start();
    let states = || {
        let brokers = cluster.get("/brokers");
        let states = brokers["brokers"].as_array().unwrap().iter().map(|broker| broker["state"].clone());
        states.collect::<Vec<_>>()
    };
    for stop in ["stop", "kill"] {
        let mut client = cluster.connect(1);
        cluster.run(&["broker", stop, "2"]);
        assert_eq!(states(), ["running", "down", "running"]);
        assert!(!is_answered(&mut client));
        assert!(TcpStream::connect(&cluster.brokers[1]).is_err(), "nobody listens");
        let (status, refused) = cluster.request("POST", "/brokers/2/freeze", "");
        assert_eq!(status, 409, "{refused}");
        cluster.run(&["broker", "start", "2"]);
        let mut client = cluster.connect(1);
        ask(&mut client);
        assert!(is_answered(&mut client));
    }
    let mut client = cluster.connect(2);
    cluster.run(&["broker", "freeze", "3"]);
    assert_eq!(states(), ["running", "running", "frozen"]);
    ask(&mut client);
    assert!(cluster.run(&["broker"]).contains("frozen"));
    cluster.run(&["broker", "thaw", "3"]);
    assert!(is_answered(&mut client));
    let added = cluster.post("/brokers", json!({ "rack": "r" }));
    assert_eq!(added, json!({ "id": 4 }));
    assert_eq!(cluster.get("/brokers")["brokers"][3]["rack"], "r");
    cluster.post("/brokers/4/kill", json!({}));
    assert_eq!(cluster.request("DELETE", "/brokers/4", "").0, 200);
    assert_eq!(states().len(), 3);
    let unknown = cluster.output(&["broker", "kill", "9"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8(unknown.stderr).unwrap().contains("there is no broker 9; there are 1, 2, 3"));
}

#[test]
fn partitions_and_links_are_seen_and_changed() {
    let cluster = Cluster::start();
    let partition = |cluster: &Cluster| cluster.get("/partitions/t")["partitions"][0].clone();
    let first = partition(&cluster);
    assert_eq!((first["isr"].as_array().unwrap().len(), first["logs"].as_array().unwrap().len()), (3, 3));
    for (log, broker) in first["logs"].as_array().unwrap().iter().zip(1..) {
        let of_broker = json!({
            "broker": broker,
            "leads": first["leader"] == broker,
            "leader_epoch": first["leader_epoch"],
            "log_start_offset": 0,
            "high_watermark": 0,
            "last_stable_offset": 0,
            "log_end_offset": 0,
        });
        assert_eq!(*log, of_broker);
    }
    cluster.post("/partitions/t/0/pin", json!({}));
    assert_eq!(partition(&cluster)["pinned"], true);
    assert_eq!(cluster.request("DELETE", "/partitions/t/0/pin", "").0, 200);
    assert_eq!(partition(&cluster)["pinned"], false);
    let leader = first["leader"].as_i64().unwrap();
    let other = leader % 3 + 1;
    cluster.post("/partitions/t/0/leader", json!({ "broker": other }));
    let moved = partition(&cluster);
    assert_eq!(
        (&moved["leader"], moved["leader_epoch"].as_i64() > first["leader_epoch"].as_i64()),
        (&json!(other), true)
    );
    cluster.post("/partitions/t/0/fetcher", json!({ "broker": leader, "frozen": true }));
    cluster.post("/partitions/t/0/isr", json!({ "isr": [other] }));
    assert_eq!(partition(&cluster)["isr"], json!([other]));

    cluster.post("/links", json!({ "from": 1, "to": "controller", "delay_ms": 50 }));
    cluster.post("/links", json!({ "from": 1, "to": "controller", "cut": true }));
    let links = cluster.get("/links");
    let links = links["links"].as_array().unwrap();
    assert_eq!(links.len(), 12);
    assert!(links.contains(&json!({ "from": 1, "to": "controller", "delay_ms": 50, "cut": true })));
    assert!(links.contains(&json!({ "from": "controller", "to": 1, "delay_ms": 0, "cut": false })));

    cluster
        .post("/topics", json!({ "name": "made", "partitions": 2, "configs": { "retention.ms": "1000" } }));
    assert_eq!(cluster.get("/partitions/made")["partitions"].as_array().unwrap().len(), 2);
    let (status, again) = cluster.request("POST", "/topics", r#"{"name": "made"}"#);
    assert_eq!((status, &again["error"]["what"]), (409, &json!("Topic 'made' already exists.")));
}

#[test]
fn errors_say_what_where_and_what_to_do() {
    let cluster = Cluster::start();
    let host = format!("Host: {}", cluster.control);
    let large = vec![b' '; (64 << 10) + 1];
    let requests: [(&str, &str, &[u8], u16); 23] = [
        ("GET /nowhere", &host, b"", 404),
        ("PUT /waits", &host, b"", 405),
        ("POST /holds", &host, b"{", 400),
        ("POST /holds", &host, b"{}", 400),
        ("POST /holds", &host, br#"{"point": "before-apply", "topc": "t"}"#, 400),
        ("POST /holds", &host, br#"{"point": "before-apply", "api": "Heartbeat", "topic": "t"}"#, 400),
        ("POST /holds", &host, &large, 413),
        ("DELETE /holds/1", &host, b"", 404),
        ("GET /waits?kind=Helt", &host, b"", 400),
        ("GET /waits?kinds=Held", &host, b"", 400),
        ("POST /waits/1/release", &host, b"", 400),
        ("POST /clock", &host, br#"{"pace": "x0"}"#, 400),
        ("POST /clock/advance", &host, br#"{"by_ms": 99999999999999}"#, 400),
        ("GET /partitions/none", &host, b"", 404),
        ("POST /holds", &host, br#"["before-apply", null, null, null, null, null, null, null]"#, 400),
        ("POST /links", &host, br#"{"from": 1, "to": 1, "cut": true}"#, 400),
        ("POST /links", &host, br#"{"from": 1, "to": 9, "cut": true}"#, 404),
        ("POST /brokers", &host, br#"{"id": -1}"#, 400),
        ("POST /brokers", &host, br#"{"id": 1}"#, 409),
        ("POST /brokers", &host, br#"{"listen": ["192.0.2.1:0"]}"#, 409),
        ("POST /brokers", &host, br#"{"listen": ["127.0.0.1:0:0"]}"#, 400),
        ("GET /waits", "Host: example.com", b"", 403),
        ("GET /waits", &format!("{host}\r\nOrigin: http://example.com"), b"", 403),
    ];
    for (line, headers, body, expected) in requests {
        let (status, answer) = cluster.raw(&format!("{line} HTTP/1.1\r\n{headers}"), body);
        assert_eq!(status, expected, "{line}: {answer}");
        let error = &answer["error"];
        assert_eq!(error["where"], json!(line.split('?').next()));
        for field in ["what", "do"] {
            assert!(error[field].as_str().is_some_and(|text| !text.is_empty()), "{line}: {answer}");
        }
    }
    assert_eq!(cluster.get("/holds")["holds"], json!([]), "nothing was made");
}

#[test]
fn bodies_that_never_come_keep_nobody_waiting() {
    let cluster = Cluster::start();
    let mut stuck: Vec<TcpStream> = (0..64)
        .map(|_| {
            let mut stream = TcpStream::connect(&cluster.control).unwrap();
            stream
                .write_all(b"POST /holds HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
                .unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream
        })
        .collect();
    // It waits to be accepted until one of the others has been told.
    cluster.get("/brokers");
    let mut answer = [0; 12];
    stuck[0].read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
}

#[test]
fn every_route_is_documented() {
    let cluster = Cluster::start();
    let documented =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/control.md")).unwrap();
    let routes = cluster.get("/");
    let routes = routes["routes"].as_array().unwrap();
    for route in routes {
        let line = format!("| `{} {}` |", route["method"].as_str().unwrap(), route["path"].as_str().unwrap());
        assert!(documented.contains(&line), "{line}");
    }
    let rows = documented
        .lines()
        .filter(|line| ["| `GET /", "| `POST /", "| `DELETE /"].iter().any(|start| line.starts_with(start)));
    assert_eq!(rows.count(), routes.len());
}

#[test]
fn it_is_off_unless_asked_for_and_on_loopback_only() {
    let refused = huld(&["--port", "0", "--control", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("0.0.0.0:0") && told.contains("loopback"), "{told}");
    let nonsense = huld(&["--port", "0", "--control", "9099"]).output().unwrap();
    assert_eq!(nonsense.status.code(), Some(2));
    let nobody = huld(&["waits"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(2));
    assert!(String::from_utf8(nobody.stderr).unwrap().contains("HULD_CONTROL"));
    let elsewhere = huld(&["waits", "--control", "127.0.0.1:1"]).output().unwrap();
    assert_eq!(elsewhere.status.code(), Some(1));
    assert!(String::from_utf8(elsewhere.stderr).unwrap().contains("--control"));
    let told = huld(&["exec", "--", "sh", "-c", "echo control: $HULD_CONTROL"]).output().unwrap();
    assert_eq!(String::from_utf8(told.stdout).unwrap().trim(), "control:");
    let script = "huld=$0; echo $($huld waits --json)";
    let binary = env!("CARGO_BIN_EXE_huld");
    let told =
        huld(&["exec", "--control", "127.0.0.1:0", "--", "sh", "-c", script, binary]).output().unwrap();
    assert_eq!(String::from_utf8(told.stdout).unwrap().trim(), r#"{"waits":[]}"#);
}
