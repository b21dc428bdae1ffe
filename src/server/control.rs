//! The steering interface over HTTP: its routes, and the one listener on the loopback interface. What requests and
//! answers look like is [`crate::control`]'s business; docs/control.md tells it to users.
//!
//! Whoever reaches it may do everything, so it is for processes of this machine alone: it listens on loopback addresses
//! only, and refuses what a browser sends for a page of elsewhere (an `Origin`, or a `Host` that is not this machine).

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::handler::Handler;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{MethodRouter, delete, get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::clock::{Pace, PaceError};
use super::doors::{AddBrokerError, NewBroker};
use super::driver::Driver;
use super::options::{StartError, localhost, parse_listener};
use crate::base::NodeId;
use crate::cluster::Command;
use crate::control::{self, Blame, Problem};

/// The most bytes in a request's body.
const MAX_BODY_BYTES: usize = 64 << 10;
/// The most connections at a time; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 64;
/// How long a request's header may take to come, and so how long a connection may be quiet; and how long its body may.
const PATIENCE: Duration = Duration::from_secs(10);
/// The furthest that the clock is moved on by one request: it goes from one thing that happens to the next.
const MAX_ADVANCE: Duration = Duration::from_hours(366 * 24);
/// How long accepting pauses after a failure, such as having no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The listener of the steering interface.
#[derive(Debug)]
pub(crate) struct ControlListener {
    socket: TcpListener,
    address: SocketAddr,
}

impl ControlListener {
    /// Listens on a loopback address. Must be called within a runtime.
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, StartError> {
        if !address.ip().to_canonical().is_loopback() {
            return Err(StartError::ControlNotLoopback { address });
        }
        let bind = || {
            let socket = std::net::TcpListener::bind(address)?;
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?;
            Ok(ControlListener { socket: TcpListener::from_std(socket)?, address })
        };
        bind().map_err(|source| StartError::Listen { address, source })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves requests until it is dropped, and every connection with it.
    pub(crate) async fn run(self, driver: Arc<Driver>) {
        let router = router(driver);
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut served = JoinSet::new();
        loop {
            let Ok(permit) = connections.clone().acquire_owned().await else { return };
            let stream = match self.socket.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!("the control interface can't accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            while served.try_join_next().is_some() {}
            let service = TowerToHyperService::new(router.clone());
            served.spawn(async move {
                let _permit = permit;
                let mut http = http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
                // A client that goes early is its own affair.
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }
}

type Owner = State<Arc<Driver>>;
type Outcome = Result<Json<Value>, Problem>;

/// One thing that can be asked.
struct Route {
    method: Method,
    path: &'static str,
    what: &'static str,
    handler: MethodRouter<Arc<Driver>>,
}

impl Route {
    fn get<H, T>(path: &'static str, what: &'static str, handler: H) -> Route
    where
        H: Handler<T, Arc<Driver>>,
        T: 'static,
    {
        Route { method: Method::GET, path, what, handler: get(handler) }
    }

    fn post<H, T>(path: &'static str, what: &'static str, handler: H) -> Route
    where
        H: Handler<T, Arc<Driver>>,
        T: 'static,
    {
        Route { method: Method::POST, path, what, handler: post(handler) }
    }

    fn delete<H, T>(path: &'static str, what: &'static str, handler: H) -> Route
    where
        H: Handler<T, Arc<Driver>>,
        T: 'static,
    {
        Route { method: Method::DELETE, path, what, handler: delete(handler) }
    }
}

/// Everything that can be asked.
fn routes() -> Vec<Route> {
    let mut routes = routes_of_waits_and_time();
    routes.extend(routes_of_the_cluster());
    routes
}

fn routes_of_waits_and_time() -> Vec<Route> {
    vec![
        Route::get("/", "this list", list),
        Route::get("/waits", "what waits", waits),
        Route::post("/waits/{id}/release", "let one wait go", release),
        Route::get("/metrics", "what the purgatories count", metrics),
        Route::get("/holds", "the rules that hold requests", holds),
        Route::post("/holds", "make a rule", add_hold),
        Route::delete("/holds/{id}", "take a rule away, and let go what it holds", remove_hold),
        Route::post("/holds/{id}/release", "let go what a rule holds", release_hold),
        Route::get("/clock", "the brokers' time", clock),
        Route::post("/clock", "let time go otherwise", set_clock),
        Route::post("/clock/advance", "move time on", advance_clock),
    ]
}

fn routes_of_the_cluster() -> Vec<Route> {
    const BROKER: &str = "/brokers/{id}";
    const PIN: &str = "/partitions/{topic}/{index}/pin";
    let to = |command: fn(NodeId) -> Command| move |owner: Owner, id: Id| to_broker(owner, id, command);
    let pin = |pinned| move |owner: Owner, at: At| pin(owner, at, pinned);
    vec![
        Route::get("/brokers", "the brokers and how they are", brokers),
        Route::post("/brokers", "add a broker", add_broker),
        Route::delete(BROKER, "remove a broker that is down", to(Command::RemoveBroker)),
        Route::post("/brokers/{id}/stop", "stop a broker in good order", to(Command::StopBroker)),
        Route::post("/brokers/{id}/kill", "end a broker without a goodbye", to(Command::KillBroker)),
        Route::post("/brokers/{id}/start", "start a broker that is down", start_broker),
        Route::post("/brokers/{id}/freeze", "stop a broker's process", to(Command::FreezeBroker)),
        Route::post("/brokers/{id}/thaw", "let a frozen broker go on", to(Command::ThawBroker)),
        Route::get("/links", "the links between the brokers and the controller", links),
        Route::post("/links", "make a link slow, cut or whole", set_link),
        Route::get("/partitions", "all partitions and their replicas", partitions),
        Route::get("/partitions/{topic}", "a topic's partitions and their replicas", partitions_of),
        Route::post(PIN, "keep a high watermark where it is", pin(true)),
        Route::delete(PIN, "let a high watermark go on", pin(false)),
        Route::post("/partitions/{topic}/{index}/leader", "move a partition's leader", move_leader),
        Route::post("/partitions/{topic}/{index}/isr", "set a partition's ISR", set_isr),
        Route::post("/partitions/{topic}/{index}/fetcher", "freeze or thaw a fetcher", freeze_fetcher),
        Route::post("/topics", "make a topic", create_topic),
    ]
}

fn router(driver: Arc<Driver>) -> Router {
    let routed = routes()
        .into_iter()
        .fold(Router::new(), |router, Route { path, handler, .. }| router.route(path, handler));
    let missing = |_: Request| async {
        Problem::new(Blame::Missing, "there is no such route", "GET / lists the routes")
    };
    routed.fallback(missing).layer(middleware::from_fn(guard)).with_state(driver)
}

/// Refuses what is not from this machine's own programs, and makes every error JSON that says where it happened.
async fn guard(request: Request, next: Next) -> Result<Response, Infallible> {
    let place = format!("{} {}", request.method(), request.uri().path());
    let checked = match check_origin(request.headers()) {
        Ok(()) => whole(request).await,
        Err(problem) => Err(problem),
    };
    let response = match checked {
        Ok(request) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    if !response.status().is_client_error() && !response.status().is_server_error() {
        return Ok(response);
    }
    let (status, problem) = (response.status(), response.extensions().get::<Problem>().cloned());
    let problem = match problem {
        Some(problem) => problem,
        None => refused_by_http(status, response.into_body()).await,
    };
    Ok((status, Json(json!({ "error": Problem { place, ..problem } }))).into_response())
}

/// The request once its body is there, for which others must not wait for ever.
async fn whole(request: Request) -> Result<Request, Problem> {
    let (head, body) = request.into_parts();
    match tokio::time::timeout(PATIENCE, to_bytes(body, MAX_BODY_BYTES)).await {
        Ok(Ok(body)) => Ok(Request::from_parts(head, Body::from(body))),
        Ok(Err(_)) => {
            let what = format_args!("the body is larger than {MAX_BODY_BYTES} bytes, or broke off");
            Err(Problem::new(Blame::Size, what, "send less at a time, and all that Content-Length says"))
        }
        Err(_) => {
            let what = format_args!("the body was not there after {} s", PATIENCE.as_secs());
            Err(Problem::new(Blame::Slow, what, "send as much as Content-Length says"))
        }
    }
}

/// An error that was not ours to word.
async fn refused_by_http(status: StatusCode, body: Body) -> Problem {
    let text = to_bytes(body, MAX_BODY_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    match status {
        StatusCode::METHOD_NOT_ALLOWED => Problem::new(
            Blame::Method,
            "there is a route of this path, but not for this method",
            "GET / lists the routes",
        ),
        _ => Problem::new(Blame::Request, text, "see docs/control.md"),
    }
}

fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let refuse = |what| {
        Err(Problem::new(Blame::Forbidden, what, "ask from a program on this machine, by a loopback address"))
    };
    if headers.contains_key(header::ORIGIN) {
        return refuse("a page in a browser asks");
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if is_this_machine(host) { Ok(()) } else { refuse("the Host is not this machine") }
}

/// Whether a `Host` header, with or without a port, names the loopback interface.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((address, _)) => address,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = match self.blame {
            Blame::Request => StatusCode::BAD_REQUEST,
            Blame::Missing => StatusCode::NOT_FOUND,
            Blame::State => StatusCode::CONFLICT,
            Blame::Forbidden => StatusCode::FORBIDDEN,
            Blame::Size => StatusCode::PAYLOAD_TOO_LARGE,
            Blame::Slow => StatusCode::REQUEST_TIMEOUT,
            Blame::Method => StatusCode::METHOD_NOT_ALLOWED,
            Blame::Ours => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

type Id = Path<String>;
type At = Path<(String, String)>;

fn shown(view: impl Serialize) -> Outcome {
    let value = serde_json::to_value(view);
    value.map(Json).map_err(|error| Problem::new(Blame::Ours, error, "report it"))
}

/// Has a command carried out, and answers once the listening sockets are as it wants them.
async fn carry_out(driver: &Driver, command: Command) -> Outcome {
    let done = driver.command(command)?;
    match driver.doors_settled().await {
        Ok(failures) if failures.is_empty() => shown(control::done(done)),
        Ok(failures) => Err(Problem::new(Blame::State, failures.join("; "), "free the port")),
        Err(_) => Err(Problem::new(Blame::State, "the brokers stop", "start them again")),
    }
}

async fn list() -> Outcome {
    let list =
        |route: Route| json!({ "method": route.method.as_str(), "path": route.path, "what": route.what });
    shown(json!({ "routes": routes().into_iter().map(list).collect::<Vec<_>>() }))
}

type Asked<T> = Result<Query<T>, QueryRejection>;

async fn waits(State(driver): Owner, query: Asked<control::WaitsRequest>) -> Outcome {
    let Query(request) = query.map_err(|error| {
        let advice = "ask by kind, client_id and broker, or for all";
        Problem::new(Blame::Request, error.body_text(), advice)
    })?;
    let filter = request.filter()?;
    shown(driver.look(|cluster, now| control::waits(cluster, now, filter)))
}

async fn release(State(driver): Owner, Path(id): Id) -> Outcome {
    carry_out(&driver, control::wait_id(&id)?).await
}

async fn metrics(State(driver): Owner) -> Outcome {
    shown(driver.look(|cluster, _| control::metrics(cluster)))
}

async fn holds(State(driver): Owner) -> Outcome {
    shown(driver.look(|cluster, _| control::holds(cluster)))
}

async fn add_hold(State(driver): Owner, body: Bytes) -> Outcome {
    carry_out(&driver, control::read::<control::HoldRequest>(&body)?.command()?).await
}

async fn remove_hold(State(driver): Owner, Path(id): Id) -> Outcome {
    carry_out(&driver, Command::RemoveHold(control::hold_id(&id)?)).await
}

async fn release_hold(State(driver): Owner, Path(id): Id) -> Outcome {
    carry_out(&driver, Command::ReleaseHold(control::hold_id(&id)?)).await
}

async fn clock(State(driver): Owner) -> Outcome {
    let (pace, now) = driver.time();
    shown(json!({
        "pace": pace.to_string(),
        "wall_ms": now.wall.as_millis(),
        "since_start_ms": now.instant.as_millis(),
    }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClockRequest {
    pace: String,
}

async fn set_clock(State(driver): Owner, body: Bytes) -> Outcome {
    let ClockRequest { pace } = control::read(&body)?;
    let pace: Pace =
        pace.parse().map_err(|error: PaceError| Problem::new(Blame::Request, error, "name one of these"))?;
    driver.set_pace(pace);
    clock(State(driver)).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdvanceRequest {
    by_ms: Option<u64>,
    to_wall_ms: Option<i64>,
}

async fn advance_clock(State(driver): Owner, body: Bytes) -> Outcome {
    let AdvanceRequest { by_ms, to_wall_ms } = control::read(&body)?;
    let span_ms = match (by_ms, to_wall_ms) {
        (Some(by_ms), None) => by_ms,
        (None, Some(wall_ms)) => {
            let ahead = wall_ms.saturating_sub(driver.time().1.wall.as_millis());
            u64::try_from(ahead).map_err(|_| {
                Problem::new(
                    Blame::State,
                    format_args!("that time passed {} ms ago", -ahead),
                    "name a later one: time does not go back",
                )
            })?
        }
        (by_ms, _) => {
            let what = match by_ms {
                None => "it is not said how far",
                Some(_) => "it is said twice how far",
            };
            return Err(Problem::new(Blame::Request, what, "send either by_ms or to_wall_ms"));
        }
    };
    let span = Duration::from_millis(span_ms);
    if span > MAX_ADVANCE {
        let what = format_args!("time moves on by {} days at most at a time", MAX_ADVANCE.as_secs() / 86_400);
        return Err(Problem::new(Blame::Request, what, "do it several times"));
    }
    let end = driver.begin_advance(span);
    while !driver.step_towards(end) {
        // Clients that were answered have their turn.
        tokio::task::yield_now().await;
    }
    clock(State(driver)).await
}

async fn brokers(State(driver): Owner) -> Outcome {
    shown(driver.look(|cluster, _| control::brokers(cluster)))
}

async fn to_broker(State(driver): Owner, Path(id): Id, command: fn(NodeId) -> Command) -> Outcome {
    carry_out(&driver, command(control::node_id(&id)?)).await
}

async fn start_broker(State(driver): Owner, Path(id): Id, body: Bytes) -> Outcome {
    let request: control::StartRequest = control::read(&body)?;
    carry_out(&driver, request.command(control::node_id(&id)?)).await
}

async fn add_broker(State(driver): Owner, body: Bytes) -> Outcome {
    let request: control::NewBrokerRequest = control::read(&body)?;
    let wrong = |error| Problem::new(Blame::Request, error, "write listen as --listen has it");
    let mut listeners = request
        .listen
        .iter()
        .map(|text| parse_listener(text))
        .collect::<Result<Vec<_>, _>>()
        .map_err(wrong)?;
    if listeners.is_empty() {
        listeners.push(localhost(0));
    }
    let broker = NewBroker { id: request.id.map(NodeId), rack: request.rack, listeners };
    match driver.add_broker(broker).await {
        Ok(Ok(NodeId(id))) => shown(json!({ "id": id })),
        Ok(Err(AddBrokerError::Refused(error))) => Err(error.into()),
        Ok(Err(AddBrokerError::Listen(error @ StartError::Resolve { .. }))) => {
            Err(Problem::new(Blame::Request, error, "name an address of this machine"))
        }
        Ok(Err(AddBrokerError::Listen(error))) => Err(Problem::new(
            Blame::State,
            error,
            "name an address of this machine and a free port, or port 0",
        )),
        Err(_) => Err(Problem::new(Blame::State, "the brokers stop", "start them again")),
    }
}

async fn links(State(driver): Owner) -> Outcome {
    shown(driver.look(|cluster, _| control::links(cluster)))
}

async fn set_link(State(driver): Owner, body: Bytes) -> Outcome {
    let request: control::LinkRequest = control::read(&body)?;
    let command = driver.look(|cluster, _| request.command(|from, to| cluster.link(from, to)))?;
    carry_out(&driver, command).await
}

async fn partitions(State(driver): Owner) -> Outcome {
    shown(driver.look(|cluster, _| control::partitions(cluster, None)))
}

async fn partitions_of(State(driver): Owner, Path(topic): Id) -> Outcome {
    let view = driver.look(|cluster, _| control::partitions(cluster, Some(&topic)));
    shown(view.ok_or_else(|| {
        Problem::new(
            Blame::Missing,
            format_args!("there is no topic '{topic}'"),
            "GET /partitions lists what there is",
        )
    })?)
}

async fn pin(State(driver): Owner, Path((topic, index)): At, pinned: bool) -> Outcome {
    let index = control::partition_index(&index)?;
    carry_out(&driver, Command::PinHighWatermark { topic, index, pinned }).await
}

async fn move_leader(State(driver): Owner, Path((topic, index)): At, body: Bytes) -> Outcome {
    let request: control::LeaderRequest = control::read(&body)?;
    carry_out(&driver, request.command(topic, control::partition_index(&index)?)).await
}

async fn set_isr(State(driver): Owner, Path((topic, index)): At, body: Bytes) -> Outcome {
    let request: control::IsrRequest = control::read(&body)?;
    carry_out(&driver, request.command(topic, control::partition_index(&index)?)).await
}

async fn freeze_fetcher(State(driver): Owner, Path((topic, index)): At, body: Bytes) -> Outcome {
    let request: control::FetcherRequest = control::read(&body)?;
    carry_out(&driver, request.command(topic, control::partition_index(&index)?)).await
}

async fn create_topic(State(driver): Owner, body: Bytes) -> Outcome {
    carry_out(&driver, control::read::<control::TopicRequest>(&body)?.command()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_this_machine_are_known() {
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "127.1.2.3", "[::1]:80", "[::1]"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["", "example.com", "localhost.example.com:1", "10.0.0.1", "[2001:db8::1]:1", "0.0.0.0"] {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[tokio::test]
    async fn only_loopback_is_listened_on() {
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let error = ControlListener::bind(address.parse().unwrap()).unwrap_err();
            assert!(matches!(error, StartError::ControlNotLoopback { .. }), "{error}");
        }
        let bound = ControlListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        assert_ne!(bound.address().port(), 0);
    }
}
