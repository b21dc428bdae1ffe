//! The shell over real sockets. Every wait for the other side is bounded by a read timeout.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::*;
use crate::base::ConnectionId;
use crate::faults::{HoldPoint, HoldRule};

const PATIENCE: Duration = Duration::from_secs(5);

fn start(settings: &[(&str, &str)]) -> Broker {
    let options = BrokerOptions::default();
    let options =
        settings.iter().fold(options, |options, (key, value)| options.with_setting(key, value).unwrap());
    Broker::start(options).unwrap()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A framed request without client id.
fn request(key: i16, version: i16, correlation_id: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend((10 + body.len() as i32).to_be_bytes());
    frame.extend(key.to_be_bytes());
    frame.extend(version.to_be_bytes());
    frame.extend(correlation_id.to_be_bytes());
    frame.extend((-1i16).to_be_bytes());
    frame.extend(body);
    frame
}

fn api_versions(correlation_id: i32) -> Vec<u8> {
    request(18, 0, correlation_id, &[])
}

/// Reads one response and returns its correlation id and body.
fn response(stream: &mut TcpStream) -> (i32, Vec<u8>) {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut frame = vec![0; i32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).unwrap();
    (i32::from_be_bytes(frame[..4].try_into().unwrap()), frame[4..].to_vec())
}

/// The connection answers.
fn assert_alive(stream: &mut TcpStream, correlation_id: i32) {
    stream.write_all(&api_versions(correlation_id)).unwrap();
    let (answered, body) = response(stream);
    assert_eq!(answered, correlation_id);
    assert_eq!(body[..2], [0, 0], "without error");
}

/// The connection is closed without another byte.
fn assert_closed(stream: &mut TcpStream) {
    let mut byte = [0];
    match stream.read(&mut byte) {
        Ok(0) => {}
        Ok(_) => panic!("the broker sent {byte:?}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

#[test]
fn answers_on_both_families_of_localhost() {
    let broker = start(&[]);
    assert_alive(&mut connect(broker.address()), 1);
    let v6 = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), broker.address().port());
    if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        assert_alive(&mut connect(v6), 2);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let broker = start(&[]);
    let mut stream = connect(broker.address());
    let requests: Vec<u8> = (0..1000).flat_map(api_versions).collect();
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(&requests).unwrap());
    for correlation_id in 0..1000 {
        assert_eq!(response(&mut stream).0, correlation_id);
    }
    sender.join().unwrap();
}

#[test]
fn requests_before_a_half_close_are_answered() {
    let broker = start(&[]);
    let mut stream = connect(broker.address());
    stream.write_all(&[api_versions(1), api_versions(2)].concat()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(response(&mut stream).0, 1);
    assert_eq!(response(&mut stream).0, 2);
    assert_closed(&mut stream);
}

#[test]
fn what_is_no_request_closes_its_connection_alone() {
    let broker = start(&[]);
    let mut healthy = connect(broker.address());
    let bad: [&[u8]; 9] = [
        &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3],
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &[0, 0, 0, 0],
        &(-1i32).to_be_bytes(),
        &i32::MAX.to_be_bytes(),
        &((100 << 20) + 1i32).to_be_bytes(),
        &request(9999, 0, 1, &[]),
        &request(0, 32767, 1, &[]),
        &[0, 0, 0, 5, 0, 18, 0, 0, 0],
    ];
    for (round, bytes) in bad.iter().enumerate() {
        let mut stream = connect(broker.address());
        stream.write_all(bytes).unwrap();
        assert_closed(&mut stream);
        assert_alive(&mut healthy, round as i32);
    }
}

#[test]
fn a_request_before_a_bad_one_is_answered() {
    let broker = start(&[]);
    let mut stream = connect(broker.address());
    stream.write_all(&api_versions(1)).unwrap();
    assert_eq!(response(&mut stream).0, 1);
    stream.write_all(&request(9999, 0, 2, &[])).unwrap();
    assert_closed(&mut stream);
}

#[test]
fn quiet_connections_are_closed_and_active_ones_are_not() {
    let max_idle = Duration::from_millis(400);
    let broker = start(&[("connections.max.idle.ms", "400")]);
    let began = Instant::now();
    let mut quiet = connect(broker.address());
    let mut half_a_frame = connect(broker.address());
    half_a_frame.write_all(&api_versions(1)[..7]).unwrap();
    let address = broker.address();
    let active = std::thread::spawn(move || {
        let mut active = connect(address);
        for correlation_id in 0..20 {
            assert_alive(&mut active, correlation_id);
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    assert_closed(&mut quiet);
    let lasted = began.elapsed();
    assert!(lasted >= max_idle && lasted < 3 * max_idle, "{lasted:?}");
    assert_closed(&mut half_a_frame);
    active.join().unwrap();
}

#[test]
fn a_client_that_does_not_read_holds_up_itself_alone_and_not_for_ever() {
    let broker = start(&[("connections.max.idle.ms", "400")]);
    let mut deaf = connect(broker.address());
    let shouting = std::thread::spawn(move || {
        // Ends when the broker has closed the connection; until then it blocks once all buffers between are full.
        let requests = api_versions(1).repeat(1000);
        let mut sent = 0;
        while deaf.write_all(&requests).is_ok() {
            sent += requests.len();
        }
        sent
    });
    while !shouting.is_finished() {
        assert_alive(&mut connect(broker.address()), 2);
    }
    let sent = shouting.join().unwrap();
    assert!(sent < 64 << 20, "{sent} bytes were taken from a client that doesn't read");
    wait_for_open(&broker, 0);
}

#[test]
fn a_panic_ends_its_connection_alone() {
    let broker = start(&[]);
    let mut unlucky = connect(broker.address());
    let mut healthy = connect(broker.address());
    assert_alive(&mut unlucky, 1);
    assert_alive(&mut healthy, 2);
    broker.driver().command(Command::PanicAtNextRequest(ConnectionId(1 << 32))).unwrap();
    unlucky.write_all(&api_versions(3)).unwrap();
    assert_closed(&mut unlucky);
    assert_eq!(broker.panics(), 1);
    assert_alive(&mut healthy, 4);
    assert_alive(&mut connect(broker.address()), 5);
}

#[test]
fn connections_above_the_limit_wait_for_a_place() {
    let broker = start(&[("max.connections", "1")]);
    let mut first = connect(broker.address());
    assert_alive(&mut first, 1);
    let mut second = connect(broker.address());
    second.write_all(&api_versions(2)).unwrap();
    second.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(second.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "nobody answers yet");
    second.set_read_timeout(Some(PATIENCE)).unwrap();
    drop(first);
    assert_eq!(response(&mut second).0, 2);
}

#[test]
fn connections_above_the_limit_of_their_address_are_closed() {
    let broker = start(&[("max.connections.per.ip", "1")]);
    let mut first = connect(broker.address());
    assert_alive(&mut first, 1);
    assert_closed(&mut connect(broker.address()));
    assert_alive(&mut first, 2);
    drop(first);
    wait_for_open(&broker, 0);
    assert_alive(&mut connect(broker.address()), 3);
}

/// Changes one config of broker 1, and returns the error's number.
fn alter(stream: &mut TcpStream, key: &str, value: &str) -> i16 {
    let string = |text: &str| [&(text.len() as i16).to_be_bytes(), text.as_bytes()].concat();
    let mut body = Vec::new();
    body.extend(1i32.to_be_bytes());
    body.push(4);
    body.extend(string("1"));
    body.extend(1i32.to_be_bytes());
    body.extend(string(key));
    body.push(0);
    body.extend(string(value));
    body.push(0);
    stream.write_all(&request(44, 0, 1, &body)).unwrap();
    let (_, answer) = response(stream);
    // Throttle time and the number of resources come before it.
    i16::from_be_bytes([answer[8], answer[9]])
}

#[test]
fn a_limit_that_is_raised_lets_those_in_who_wait_and_one_that_is_lowered_closes_the_quietest() {
    let broker = start(&[("max.connections", "1")]);
    let mut first = connect(broker.address());
    assert_alive(&mut first, 1);
    let mut second = connect(broker.address());
    second.write_all(&api_versions(2)).unwrap();
    second.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(second.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "nobody answers yet");
    second.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(alter(&mut first, "max.connections", "3"), 0);
    assert_eq!(response(&mut second).0, 2);
    let mut third = connect(broker.address());
    assert_alive(&mut third, 3);
    assert_eq!(alter(&mut first, "max.connections", "2"), 0);
    assert_closed(&mut second);
    assert_alive(&mut third, 4);
    assert_alive(&mut first, 5);
}

#[test]
fn limits_of_addresses_and_listeners_act_at_once() {
    let broker = start(&[]);
    let mut first = connect(broker.address());
    assert_alive(&mut first, 1);
    assert_eq!(alter(&mut first, "max.connections.per.ip", "1"), 0);
    assert_closed(&mut connect(broker.address()));
    assert_eq!(alter(&mut first, "max.connections.per.ip.overrides", "127.0.0.1:2,::1:0"), 0);
    let mut second = connect(broker.address());
    assert_alive(&mut second, 2);
    assert_closed(&mut connect(broker.address()));
    assert_eq!(alter(&mut first, "max.connections.per.ip.overrides", "127.0.0.1:two"), 42);
    assert_eq!(alter(&mut first, "max.connections.per.ip.overrides", "127.0.0.1:9"), 0);
    assert_eq!(alter(&mut first, "listener.name.plaintext.max.connections", "2"), 0);
    let mut third = connect(broker.address());
    third.write_all(&api_versions(3)).unwrap();
    third.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(third.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "it waits for a place");
    third.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(alter(&mut first, "listener.name.plaintext.max.connections", "3"), 0);
    assert_eq!(response(&mut third).0, 3);
}

#[test]
fn each_broker_counts_its_own_connections() {
    let options = BrokerOptions::default().with_brokers(2).with_setting("max.connections", "1").unwrap();
    let broker = Broker::start(options).unwrap();
    let mut streams: Vec<TcpStream> = broker.addresses().iter().map(|address| connect(*address)).collect();
    for (at, stream) in streams.iter_mut().enumerate() {
        assert_alive(stream, at as i32);
    }
}

#[test]
fn dropping_the_broker_closes_its_connections() {
    let broker = start(&[]);
    let address = broker.address();
    let mut stream = connect(address);
    assert_alive(&mut stream, 1);
    let began = Instant::now();
    drop(broker);
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_closed(&mut stream);
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_port_in_use_is_an_error() {
    let broker = start(&[]);
    let listeners = Some(vec![localhost(broker.address().port())]);
    let error = Broker::start(BrokerOptions { listeners, ..BrokerOptions::default() }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert!(error.to_string().starts_with("can't listen on 127.0.0.1:"), "{error}");
}

#[test]
fn many_connections_are_served_in_turn() {
    let broker = start(&[]);
    let mut streams: Vec<TcpStream> = (0..20).map(|_| connect(broker.address())).collect();
    for round in 0..20 {
        streams.iter_mut().for_each(|stream| assert_alive(stream, round));
    }
}

/// Waits until only so many connections are open.
fn wait_for_open(broker: &Broker, count: usize) {
    let event = async {
        loop {
            let closed = broker.driver().connection_closed();
            if broker.driver().open_connections() == count {
                return;
            }
            closed.await;
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, event).await }).unwrap();
}

/// Fetch v4 of partition 0 from offset 0, which waits for one byte.
fn fetch(topic: &str, correlation_id: i32, max_wait_ms: i32) -> Vec<u8> {
    let mut body = Vec::new();
    for number in [-1, max_wait_ms, 1, 1 << 20] {
        body.extend(i32::to_be_bytes(number));
    }
    body.push(0);
    body.extend(1i32.to_be_bytes());
    body.extend((topic.len() as i16).to_be_bytes());
    body.extend(topic.as_bytes());
    body.extend(1i32.to_be_bytes());
    body.extend(0i32.to_be_bytes());
    body.extend(0i64.to_be_bytes());
    body.extend((1i32 << 20).to_be_bytes());
    request(1, 4, correlation_id, &body)
}

fn start_with_topic() -> Broker {
    Broker::start(BrokerOptions::default().with_topic("waits", 1)).unwrap()
}

/// A connection whose fetch is parked.
fn parked(broker: &Broker, max_wait_ms: i32) -> TcpStream {
    let before = broker.driver().parked();
    let mut stream = connect(broker.address());
    stream.write_all(&fetch("waits", 1, max_wait_ms)).unwrap();
    // The broker's thread handles one connection after the other: once a second one that came later has its answer,
    // the first one's request has been handled.
    let mut other = connect(broker.address());
    while broker.driver().parked() == before {
        assert_alive(&mut other, 2);
    }
    stream
}

#[test]
fn a_parked_fetch_is_answered_when_its_time_is_up_and_not_before() {
    let broker = start_with_topic();
    let began = Instant::now();
    let mut stream = connect(broker.address());
    stream.write_all(&fetch("waits", 7, 300)).unwrap();
    stream.write_all(&api_versions(8)).unwrap();
    assert_eq!(response(&mut stream).0, 7, "what was asked later waits");
    let lasted = began.elapsed();
    assert!(lasted >= Duration::from_millis(300) && lasted < Duration::from_millis(700), "{lasted:?}");
    assert_eq!(response(&mut stream).0, 8);
}

#[test]
fn a_connection_that_breaks_takes_its_waits_with_it() {
    let broker = start_with_topic();
    for pipelined in [&[][..], &api_versions(2)] {
        let mut stream = parked(&broker, i32::MAX);
        stream.write_all(pipelined).unwrap();
        assert_eq!(broker.driver().parked(), 1);
        reset(stream);
        wait_for_open(&broker, 0);
        assert_eq!(broker.driver().parked(), 0);
    }
}

#[test]
fn a_client_that_sends_no_more_may_break_off_later() {
    let broker = start_with_topic();
    let stream = parked(&broker, i32::MAX);
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    reset(stream);
    wait_for_open(&broker, 0);
    assert_eq!(broker.driver().parked(), 0);
}

/// Closes a connection so that the other side gets an error.
fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
}

#[test]
fn what_waits_is_answered_to_a_client_that_sends_no_more() {
    let broker = start_with_topic();
    let began = Instant::now();
    let mut stream = connect(broker.address());
    stream.write_all(&[fetch("waits", 1, 200), fetch("waits", 2, 100)].concat()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(response(&mut stream).0, 1);
    assert!(began.elapsed() >= Duration::from_millis(200));
    assert_eq!(response(&mut stream).0, 2);
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_closed(&mut stream);
}

#[test]
fn a_client_that_sends_no_more_is_idle_though_its_request_waits() {
    let options = BrokerOptions::default().with_topic("waits", 1);
    let broker = Broker::start(options.with_setting("connections.max.idle.ms", "500").unwrap()).unwrap();
    drop(parked(&broker, i32::MAX));
    wait_for_open(&broker, 0);
    assert_eq!(broker.driver().parked(), 0);
}

#[test]
fn a_client_that_sends_no_more_takes_what_is_held_with_it() {
    for point in [HoldPoint::BeforeApply, HoldPoint::AfterApply] {
        let broker = start_with_topic();
        let fetches = HoldRule { api: Some(1), ..HoldRule::new(point) };
        broker.command(Command::AddHold(fetches)).unwrap();
        // Is held at once or once it has waited; in either case its client has sent its last by then, or does so now.
        for wait_ms in [0, 200] {
            let mut stream = parked(&broker, wait_ms);
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            assert_closed(&mut stream);
            wait_for_open(&broker, 0);
            assert_eq!(broker.driver().parked(), 0);
        }
    }
}

#[test]
fn parked_fetches_are_answered_when_the_broker_stops() {
    let broker = start_with_topic();
    let mut stream = parked(&broker, i32::MAX);
    let began = Instant::now();
    drop(broker);
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(response(&mut stream).0, 1);
    assert_closed(&mut stream);
}

#[test]
fn a_connection_whose_request_waits_is_not_idle() {
    let options = BrokerOptions::default().with_topic("waits", 1);
    let broker = Broker::start(options.with_setting("connections.max.idle.ms", "100").unwrap()).unwrap();
    let mut stream = connect(broker.address());
    stream.write_all(&fetch("waits", 1, 600)).unwrap();
    assert_eq!(response(&mut stream).0, 1);
    assert_closed(&mut stream);
}

#[test]
fn a_topic_that_cannot_be_made_is_an_error_at_the_start() {
    let error = Broker::start(BrokerOptions::default().with_topic("a/b", 1)).unwrap_err();
    assert!(error.to_string().starts_with("can't create topic 'a/b': "), "{error}");
}

/// Host and port of the only broker in Metadata v1.
fn advertised(address: SocketAddr) -> (String, u16) {
    let mut stream = connect(address);
    stream.write_all(&request(3, 1, 1, &0i32.to_be_bytes())).unwrap();
    let (_, body) = response(&mut stream);
    assert_eq!(body[..4], 1i32.to_be_bytes(), "one broker");
    let length = usize::from(u16::from_be_bytes([body[8], body[9]]));
    let (host, rest) = body[10..].split_at(length);
    (String::from_utf8(host.to_vec()).unwrap(), i32::from_be_bytes(rest[..4].try_into().unwrap()) as u16)
}

#[test]
fn each_client_is_told_the_address_that_it_came_to() {
    let listeners = ["[::]:0", "A://127.0.0.1:0", "B://:0"].map(|text| parse_listener(text).unwrap());
    let options = BrokerOptions { listeners: Some(listeners.to_vec()), ..BrokerOptions::default() };
    let runtime = Server::runtime().unwrap();
    let server = {
        let _context = runtime.enter();
        Server::bind(options).unwrap()
    };
    let ports: Vec<u16> = server.listeners().map(|(_, _, addresses)| addresses[0].port()).collect();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::spawn(move || runtime.block_on(server.run(async { drop(stopped.await) })));
    for port in ports {
        let told = advertised(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
        assert_eq!(told, ("127.0.0.1".to_owned(), port));
    }
    drop(stop);
    thread.join().unwrap();
}

#[test]
fn what_is_advertised_is_told_to_everyone() {
    let mut listener = localhost(0);
    listener.advertised = Some(parse_advertised("kafka.test:19092").unwrap());
    let options = BrokerOptions { listeners: Some(vec![listener]), ..BrokerOptions::default() };
    let broker = Broker::start(options).unwrap();
    assert_eq!(advertised(broker.address()), ("kafka.test".to_owned(), 19092));
}

#[test]
fn memory_is_given_back_once_many_connections_have_closed() {
    static ASKED: (Mutex<usize>, std::sync::Condvar) = (Mutex::new(0), std::sync::Condvar::new());
    let options = BrokerOptions {
        give_back_memory: || {
            *ASKED.0.lock().unwrap() += 1;
            ASKED.1.notify_all();
        },
        ..BrokerOptions::default()
    };
    // The shorter the bound, the more often it is looked at.
    let broker = Broker::start(options.with_setting("connections.max.idle.ms", "1000").unwrap()).unwrap();
    let mut streams: Vec<TcpStream> = (0..MANY_CONNECTIONS + 1).map(|_| connect(broker.address())).collect();
    streams.iter_mut().for_each(|stream| assert_alive(stream, 1));
    assert_closed(&mut streams[0]);
    drop(streams);
    let asked = ASKED.0.lock().unwrap();
    let (asked, _) = ASKED.1.wait_timeout_while(asked, PATIENCE, |asked| *asked == 0).unwrap();
    assert_eq!(*asked, 1);
}

#[test]
fn each_broker_has_a_port_of_its_own_and_a_killed_one_refuses() {
    let broker = Broker::start(BrokerOptions::default().with_brokers(3)).unwrap();
    let mut streams: Vec<TcpStream> = broker.addresses().iter().map(|address| connect(*address)).collect();
    for (at, stream) in streams.iter_mut().enumerate() {
        assert_alive(stream, at as i32);
    }
    broker.command(Command::KillBroker(NodeId(2))).unwrap();
    assert_closed(&mut streams[1]);
    let refused = TcpStream::connect(broker.addresses()[1]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_alive(&mut streams[0], 7);
    assert_eq!(broker.brokers()[1], (NodeId(2), crate::cluster::BrokerState::Down));
    let error = broker.command(Command::KillBroker(NodeId(2))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_broker_that_starts_again_listens_where_it_did_and_others_come_and_go() {
    let broker = Broker::start(BrokerOptions::default().with_brokers(2)).unwrap();
    let second = broker.addresses()[1];
    broker.command(Command::StopBroker(NodeId(2))).unwrap();
    assert_eq!(TcpStream::connect(second).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let start = Command::StartBroker { broker: NodeId(2), kept: crate::cluster::Kept::Everything };
    broker.command(start).unwrap();
    assert_alive(&mut connect(second), 1);
    let new = NewBroker { id: None, rack: None, listeners: vec![localhost(0)] };
    assert_eq!(broker.add_broker(new).unwrap(), NodeId(3));
    let taken = NewBroker { id: Some(NodeId(2)), rack: None, listeners: vec![localhost(0)] };
    assert_eq!(broker.add_broker(taken).unwrap_err().to_string(), "there is a broker 2 already");
    broker.command(Command::KillBroker(NodeId(3))).unwrap();
    broker.command(Command::RemoveBroker(NodeId(3))).unwrap();
    assert_eq!(broker.brokers().len(), 2);
}

const HOUR: Duration = Duration::from_secs(3600);
const HOUR_MS: i32 = 3_600_000;

#[test]
fn under_a_manual_clock_an_hour_passes_when_it_is_told_to() {
    let options = BrokerOptions::default().with_pace(Pace::Manual).with_topic("waits", 1);
    let broker = Broker::start(options).unwrap();
    let (pace, start) = broker.time();
    assert_eq!(pace, Pace::Manual);
    let mut stream = parked(&broker, HOUR_MS);
    broker.advance(HOUR - Duration::from_millis(1));
    assert_eq!(broker.waits().len(), 1);
    broker.advance(Duration::from_millis(1));
    assert_eq!(response(&mut stream).0, 1);
    let now = broker.time().1;
    assert_eq!(now.instant - start.instant, HOUR);
    assert_eq!(now.wall.as_millis() - start.wall.as_millis(), i64::from(HOUR_MS));
}

#[test]
fn a_change_of_pace_reaches_who_waits_already() {
    let broker = start_with_topic();
    let mut stream = parked(&broker, HOUR_MS);
    // The timer sleeps for the hour that this would take; it has to hear of the new pace.
    broker.set_pace(Pace::Times(10_000));
    assert_eq!(response(&mut stream).0, 1);
    broker.set_pace(Pace::Machine);
    let mut stream = parked(&broker, HOUR_MS);
    broker.advance(HOUR);
    assert_eq!(response(&mut stream).0, 1);
}
