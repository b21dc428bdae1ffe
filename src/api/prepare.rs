//! From a frame to a request that the cluster can take: header, version, preflight, decode, and the checks of
//! batches. Pure, so that every connection does it on a task of its own.

use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::Decodable;

use super::{AnyRequest, ApiEntry, Request, api_versions, entry, produce};
use crate::wire;
use crate::wire::header::{HeaderError, RequestHeader};

/// Bounds of one connection's requests.
#[derive(Clone, Copy, Debug)]
pub struct PrepareLimits {
    /// The most bytes that a compressed batch may hold once decompressed. Default 64 MiB.
    pub max_decompressed_bytes: usize,
}

impl Default for PrepareLimits {
    fn default() -> Self {
        PrepareLimits { max_decompressed_bytes: 64 << 20 }
    }
}

/// A request, ready to be handled.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Goes back with the response.
    pub correlation_id: i32,
    /// Version of the request, and so of the response.
    pub version: i16,
    /// The client's name for itself, if it gave one.
    pub client_id: Option<Arc<str>>,
    /// What is asked.
    pub request: Request,
}

/// Why a frame can't be answered: its connection is closed, as Kafka does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The header can't be read.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// No such API, or not one that huld serves.
    #[error("API key {key} is not served")]
    UnknownApi {
        /// The number asked for.
        key: i16,
    },
    /// The API is served, but not at this version.
    #[error("{name} is served at versions {min} to {max}, not at {version}")]
    UnsupportedVersion {
        /// Name of the API.
        name: &'static str,
        /// Version asked for.
        version: i16,
        /// Lowest version served.
        min: i16,
        /// Highest version served.
        max: i16,
    },
    /// Lengths or counts that the frame can't hold.
    #[error("{name} v{version} is malformed: {reason}")]
    Malformed {
        /// Name of the API.
        name: &'static str,
        /// Version of the request.
        version: i16,
        /// What was wrong.
        reason: String,
    },
}

/// What `prepare` of an API may know beside the request.
#[derive(Clone, Debug)]
pub(crate) struct Preparation {
    pub(crate) entry: &'static ApiEntry,
    pub(crate) version: i16,
    pub(crate) limits: PrepareLimits,
}

impl Preparation {
    pub(crate) fn malformed(&self, reason: impl Into<String>) -> Refusal {
        Refusal::Malformed { name: self.entry.name, version: self.version, reason: reason.into() }
    }
}

/// So many compressed bytes may hold megabytes of records, which take milliseconds to look at.
pub(crate) const HEAVY_COMPRESSED_BYTES: usize = 512;

/// Prepares the requests of one connection, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Preparer {
    limits: PrepareLimits,
    /// The last request's client id: clients rarely change it, so it is allocated once a connection.
    client_id: Option<Arc<str>>,
}

impl Preparer {
    /// A preparer with these bounds.
    pub fn new(limits: PrepareLimits) -> Self {
        Preparer { limits, client_id: None }
    }

    /// Whether preparing this frame takes so long that others should not have to wait for it: it brings records or
    /// metrics to be decompressed.
    pub fn is_heavy(&self, frame: &Bytes) -> bool {
        if frame.len() < HEAVY_COMPRESSED_BYTES {
            return false;
        }
        let Ok((header, len)) = RequestHeader::parse(frame) else { return false };
        let is = |key: ApiKey| header.api_key == key as i16;
        let compressed_bytes = || produce::compressed_bytes(header.api_version, frame.slice(len..));
        is(ApiKey::PushTelemetry) || (is(ApiKey::Produce) && compressed_bytes() >= HEAVY_COMPRESSED_BYTES)
    }

    /// Reads the request in `frame` (header and body, without the length before it).
    ///
    /// # Errors
    /// A [`Refusal`] if the frame isn't a request that huld can answer; the connection must then be closed.
    pub fn prepare(&mut self, frame: Bytes) -> Result<Prepared, Refusal> {
        let header = self.header(&frame)?;
        let entry = entry(header.key).ok_or(Refusal::UnknownApi { key: header.key })?;
        let body = frame.slice(header.len..);
        let unsupported = !(entry.min_version..=entry.max_version).contains(&header.version);
        if unsupported && header.key == ApiKey::ApiVersions as i16 {
            let request = AnyRequest::ApiVersions(Box::new(api_versions::Request::UnsupportedVersion));
            return Ok(self.prepared(header, 0, request));
        }
        if unsupported {
            return Err(Refusal::UnsupportedVersion {
                name: entry.name,
                version: header.version,
                min: entry.min_version,
                max: entry.max_version,
            });
        }
        let preparation = Preparation { entry, version: header.version, limits: self.limits };
        let request = AnyRequest::decode(header.key, body, &preparation)?;
        let version = header.version;
        Ok(self.prepared(header, version, request))
    }

    fn prepared(&self, header: Header, version: i16, request: AnyRequest) -> Prepared {
        Prepared {
            correlation_id: header.correlation_id,
            version,
            client_id: self.client_id.clone(),
            request: Request(request),
        }
    }

    fn header(&mut self, frame: &Bytes) -> Result<Header, Refusal> {
        let (header, len) = RequestHeader::parse(frame)?;
        if self.client_id.as_deref() != header.client_id.as_deref() {
            self.client_id = header.client_id.as_deref().map(Arc::from);
        }
        Ok(Header {
            key: header.api_key,
            version: header.api_version,
            correlation_id: header.correlation_id,
            len,
        })
    }
}

/// What is kept of a header, beside the client id.
struct Header {
    key: i16,
    version: i16,
    correlation_id: i32,
    /// Bytes before the body.
    len: usize,
}

pub(crate) fn decode<W: Decodable>(body: Bytes, preparation: &Preparation) -> Result<W, Refusal> {
    wire::decode::decode(preparation.entry.key, preparation.version, body)
        .map_err(|error| preparation.malformed(error.to_string()))
}
