//! Clients that push their metrics (KIP-714).

use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
    PushTelemetryRequest, PushTelemetryResponse,
};
use uuid::Uuid;

use super::*;
use crate::base::ErrorCode;
use crate::wire::compression::compress;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

impl World {
    /// Sets configs of a client-metrics resource; a null value deletes. Returns the error code.
    fn set_subscription(&mut self, name: &str, configs: &[(&str, Option<&str>)]) -> i16 {
        let client = self.connect();
        let configs = configs.iter().map(|(key, value)| {
            AlterableConfig::default()
                .with_name(text(key))
                .with_config_operation(i8::from(value.is_none()))
                .with_value(value.map(text))
        });
        let resource = AlterConfigsResource::default()
            .with_resource_type(16)
            .with_resource_name(text(name))
            .with_configs(configs.collect());
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        let response: IncrementalAlterConfigsResponse = self.ask(client, 1, &request);
        response.responses[0].error_code
    }

    fn subscription(&mut self, client: ConnectionId, id: Uuid) -> GetTelemetrySubscriptionsResponse {
        let request = GetTelemetrySubscriptionsRequest::default().with_client_instance_id(id);
        self.ask(client, 0, &request)
    }

    fn push(&mut self, client: ConnectionId, request: &PushTelemetryRequest) -> i16 {
        let response: PushTelemetryResponse = self.ask(client, 0, request);
        response.error_code
    }

    fn advertises_telemetry(&mut self) -> bool {
        let client = self.connect();
        let request = ApiVersionsRequest::default();
        let response: ApiVersionsResponse = self.ask(client, 2, &request);
        response.api_keys.iter().filter(|row| matches!(row.api_key, 71 | 72)).count() == 2
    }
}

fn push_for(subscription: &GetTelemetrySubscriptionsResponse) -> PushTelemetryRequest {
    PushTelemetryRequest::default()
        .with_client_instance_id(subscription.client_instance_id)
        .with_subscription_id(subscription.subscription_id)
        .with_metrics(Bytes::from_static(b"metrics"))
}

#[test]
fn a_client_is_told_what_to_push_and_how_often() {
    let mut world = World::new();
    assert!(!world.advertises_telemetry());
    let client = world.connect();
    let nothing = world.subscription(client, Uuid::nil());
    assert_eq!((nothing.error_code, nothing.push_interval_ms), (0, 300_000));
    assert!(!nothing.client_instance_id.is_nil() && nothing.requested_metrics.is_empty());
    assert_eq!(nothing.accepted_compression_types, [4, 3, 1, 2]);
    assert_eq!(nothing.telemetry_max_bytes, 1 << 20);

    assert_eq!(world.set_subscription("a", &[("metrics", Some("y,x")), ("interval.ms", Some("1000"))]), 0);
    let some = [("metrics", Some("z")), ("interval.ms", Some("500")), ("match", Some("client_id=other"))];
    assert_eq!(world.set_subscription("b", &some), 0);
    assert!(world.advertises_telemetry());
    // The subscriptions have changed, so that it may ask before its time.
    let wanted = world.subscription(client, nothing.client_instance_id);
    assert_eq!((wanted.error_code, wanted.push_interval_ms), (0, 1000));
    assert_eq!(wanted.requested_metrics, ["x", "y"].map(text));
    assert_ne!(wanted.subscription_id, nothing.subscription_id);

    let matching = [("match", Some("client_id=test.*,client_source_address=127\\..*"))];
    assert_eq!(world.set_subscription("b", &matching), 0);
    let wanted = world.subscription(client, nothing.client_instance_id);
    assert_eq!((wanted.push_interval_ms, wanted.requested_metrics.len()), (500, 3));
    assert_eq!(world.set_subscription("a", &[("metrics", Some("*"))]), 0);
    let wanted = world.subscription(client, nothing.client_instance_id);
    assert_eq!(wanted.requested_metrics, [text("*")], "all is more than some");
}

#[test]
fn a_client_is_selected_by_its_software() {
    let mut world = World::new();
    let selecting = [("metrics", Some("m")), ("match", Some("client_software_name=some-client"))];
    assert_eq!(world.set_subscription("s", &selecting), 0);
    let client = world.connect();
    assert!(world.subscription(client, Uuid::nil()).requested_metrics.is_empty(), "it has not said yet");
    let software = ApiVersionsRequest::default()
        .with_client_software_name(text("some-client"))
        .with_client_software_version(text("1"));
    let _: ApiVersionsResponse = world.ask(client, 3, &software);
    assert_eq!(world.subscription(client, Uuid::nil()).requested_metrics, [text("m")]);
}

#[test]
fn pushes_come_in_time_and_for_what_is_wanted() {
    let mut world = World::new();
    world.set_subscription("a", &[("metrics", Some("x")), ("interval.ms", Some("1000"))]);
    let client = world.connect();
    let wanted = world.subscription(client, Uuid::nil());
    let push = push_for(&wanted);
    let throttled = ErrorCode::ThrottlingQuotaExceeded.code();
    assert_eq!(world.push(client, &push), 0, "the first push may come at any time");
    assert_eq!(world.push(client, &push), throttled);
    assert_eq!(world.subscription(client, wanted.client_instance_id).error_code, throttled);
    world.advance(Duration::from_millis(999));
    assert_eq!(world.push(client, &push), throttled);
    world.advance(Duration::from_millis(1));
    assert_eq!(world.push(client, &push), 0);

    world.advance(Duration::from_millis(1000));
    let other = push.clone().with_subscription_id(wanted.subscription_id ^ 1);
    assert_eq!(world.push(client, &other), ErrorCode::UnknownSubscriptionId.code());
    let again = world.subscription(client, wanted.client_instance_id);
    assert_eq!(again.error_code, 0, "it was told to ask again, and may at once");

    world.advance(Duration::from_millis(1000));
    assert_eq!(world.push(client, &push.clone().with_terminating(true)), 0);
    assert_eq!(world.push(client, &push), ErrorCode::InvalidRequest.code(), "that was the last one");
    for id in [Uuid::nil(), Uuid::from_u128(1)] {
        let code = world.push(client, &push.clone().with_client_instance_id(id));
        assert_eq!(code, ErrorCode::InvalidRequest.code());
    }
    let counts = world.cluster.telemetry();
    assert_eq!((counts.pushes, counts.bytes), (3, 3 * 7));
    assert_eq!((counts.throttled, counts.unknown_subscription), (3, 1));
}

#[test]
fn metrics_are_bounded_and_must_decompress() {
    let mut world = World::with(&[("telemetry.max.bytes", "100")]);
    world.set_subscription("a", &[("metrics", Some("x")), ("interval.ms", Some("100"))]);
    world.limits.max_decompressed_bytes = 10_000;
    let client = world.connect();
    let wanted = world.subscription(client, Uuid::nil());
    assert_eq!(wanted.telemetry_max_bytes, 100);
    let mut push = |codec: i8, metrics: &[u8]| {
        world.advance(Duration::from_millis(100));
        let metrics = Bytes::copy_from_slice(metrics);
        world.push(client, &push_for(&wanted).with_compression_type(codec).with_metrics(metrics))
    };
    let squeezed = |codec, bytes| compress(codec, &vec![7; bytes]).unwrap();
    assert_eq!(push(0, &[7; 100]), 0);
    assert_eq!(push(0, &[7; 101]), ErrorCode::TelemetryTooLarge.code());
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        assert_eq!(push(codec as i8, &squeezed(codec, 1000)), 0, "{codec:?}");
        assert_eq!(push(codec as i8, b"nonsense"), ErrorCode::InvalidRecord.code(), "{codec:?}");
        assert_eq!(push(codec as i8, b""), 0, "{codec:?}");
    }
    let bomb = squeezed(Codec::Zstd, 10_001);
    assert_eq!(push(Codec::Zstd as i8, &bomb), ErrorCode::TelemetryTooLarge.code());
    for unknown in [5, 127, -1] {
        assert_eq!(push(unknown, b"x"), ErrorCode::UnsupportedCompressionType.code(), "{unknown}");
    }
    let counts = world.cluster.telemetry();
    assert_eq!((counts.pushes, counts.bytes, counts.unreadable), (9, 100 + 4 * 1000, 4));
}

#[test]
fn clients_are_forgotten_when_they_go_or_fall_silent() {
    let mut world = World::new();
    world.set_subscription("a", &[("metrics", Some("x")), ("interval.ms", Some("1000"))]);
    let client = world.connect();
    let wanted = world.subscription(client, Uuid::nil());
    let id = wanted.client_instance_id;
    let is_known = |world: &mut World, client| world.subscription(client, id).error_code != 0;
    assert!(is_known(&mut world, client));
    world.disconnect(client);
    let client = world.connect();
    assert!(!is_known(&mut world, client), "its connection has closed");
    // A push within the interval is refused to those alone who are known.
    assert_eq!(world.push(client, &push_for(&wanted)), 0);
    world.advance(Duration::from_secs(59));
    assert_eq!(world.push(client, &push_for(&wanted).with_terminating(true)), 0);
    world.advance(Duration::from_secs(60));
    assert_eq!(world.push(client, &push_for(&wanted)), 0, "after a minute it is another");
}

#[test]
fn no_more_subscriptions_and_clients_than_there_may_be() {
    use crate::controller::MAX_CLIENT_METRICS_SUBSCRIPTIONS;
    let mut world = World::new();
    let client = world.connect();
    let first = world.subscription(client, Uuid::nil()).client_instance_id;
    for number in 0..16_384u128 {
        let id = Uuid::from_u128(number + 2);
        assert_eq!(world.subscription(client, id).error_code, 0);
    }
    assert_eq!(world.subscription(client, first).error_code, 0, "the first had to make room");

    for number in 0..MAX_CLIENT_METRICS_SUBSCRIPTIONS {
        assert_eq!(world.set_subscription(&number.to_string(), &[("interval.ms", Some("1000"))]), 0);
    }
    let error = world.set_subscription("more", &[("interval.ms", Some("1000"))]);
    assert_eq!(error, ErrorCode::PolicyViolation.code());
    assert_eq!(world.set_subscription("0", &[("interval.ms", None)]), 0);
    assert_eq!(world.set_subscription("more", &[("interval.ms", Some("1000"))]), 0);
}

#[test]
fn what_is_no_subscription_is_refused() {
    let mut world = World::new();
    let mut code = |key, value| world.set_subscription("s", &[(key, Some(value))]);
    let (invalid_request, invalid_config) =
        (ErrorCode::InvalidRequest.code(), ErrorCode::InvalidConfig.code());
    assert_eq!(code("interval.ms", "99"), invalid_request);
    assert_eq!(code("no.such.key", "1"), invalid_request);
    assert_eq!(code("match", "client=a"), invalid_config);
    assert_eq!(code("match", "client_id=("), invalid_config);
    assert_eq!(code("interval.ms", "often"), invalid_config);
    assert!(!world.advertises_telemetry());
}
