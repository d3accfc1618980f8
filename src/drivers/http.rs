//! HTTP to a management controller: its own origin only, with limits of size and time, and with
//! credentials only once its certificate is believed.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::Value;
use ureq::http::{Method, Request, Response};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, TcpConnector,
    Transport, TransportAdapter,
};
use ureq::{Agent, Body, config::Config};

use crate::model::host::ErrorReason;

use super::controller::ControllerError;
use super::trust::{SeenCertificate, Trust, explain_refusal};

/// No answer of a management controller is larger.
const LARGEST: u64 = 4 << 20;
const CONNECTING: Duration = Duration::from_secs(10);
/// Redirects within the origin that are followed.
const REDIRECTS: usize = 3;
/// As much of what a controller says as is repeated.
const SAID: usize = 300;

pub struct HttpClient {
    agent: Agent,
    origin: String,
    authorization: String,
    trust: Trust,
    seen: SeenCertificate,
    /// How long an answer may take.
    pub patience: Duration,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Value,
    pub location: Option<String>,
    pub etag: Option<String>,
    pub retry_after: Option<u64>,
}

impl HttpClient {
    pub fn new(origin: &str, user: &str, password: &str, trust: Trust) -> Result<Self, String> {
        let (config, seen) = trust.client_config()?;
        let connector = Connector::<()>::chain(TcpConnector::default(), Secure(config));
        let config = Config::builder()
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("poolctl/", env!("CARGO_PKG_VERSION")))
            .accept("application/json")
            .timeout_connect(Some(CONNECTING))
            .max_idle_connections(0)
            .build();
        let agent = Agent::with_parts(config, connector, DefaultResolver::default());
        let authorization = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        let patience = Duration::from_secs(30);
        Ok(Self { agent, origin: origin.into(), authorization, trust, seen, patience })
    }

    /// One request and its answer; a GET follows redirects within the origin.
    pub fn send_request(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        etag: Option<&str>,
    ) -> Result<Reply, ControllerError> {
        let mut path = self.path(path)?;
        for _ in 0..=REDIRECTS {
            let reply = self.once(method, &path, body, etag)?;
            if !matches!(reply.status, 301 | 302 | 303 | 307 | 308) {
                return Ok(reply);
            }
            let to = reply.location.unwrap_or_default();
            if method != Method::GET {
                return Err(
                    format!("{path}: a {method} is not sent on to `{}`", shorten(&to)).into()
                );
            }
            path = self.path(&to)?;
        }
        Err(format!("{path}: more than {REDIRECTS} redirects").into())
    }

    /// A link as a path of this origin; others are not followed.
    fn path(&self, link: &str) -> Result<String, String> {
        let base = url::Url::parse(&self.origin).map_err(|error| error.to_string())?;
        let url = base.join(link).map_err(|error| format!("`{}`: {error}", shorten(link)))?;
        if url.origin() != base.origin() {
            let to = url.origin().ascii_serialization();
            return Err(format!("it refers to another host, {}, which is not asked", shorten(&to)));
        }
        Ok(url[url::Position::BeforePath..url::Position::AfterQuery].to_owned())
    }

    fn once(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        etag: Option<&str>,
    ) -> Result<Reply, ControllerError> {
        let mut request = Request::builder()
            .method(method.clone())
            .uri(format!("{}{path}", self.origin))
            .header("Authorization", &self.authorization)
            .header("OData-Version", "4.0");
        if let Some(etag) = etag {
            request = request.header("If-Match", etag);
        }
        let bytes = match body {
            Some(body) => {
                request = request.header("Content-Type", "application/json");
                body.to_string().into_bytes()
            }
            None => Vec::new(),
        };
        let wrong = |error: &dyn std::fmt::Display| format!("{path}: {error}");
        // What has no body says so: some controllers insist.
        let bare = body.is_none() && (method == Method::GET || method == Method::DELETE);
        let sent = if bare {
            let request = request.body(()).map_err(|error| wrong(&error))?;
            let request = self.agent.configure_request(request);
            self.agent.run(request.timeout_global(Some(self.patience)).build())
        } else {
            let request = request.body(bytes).map_err(|error| wrong(&error))?;
            let request = self.agent.configure_request(request);
            self.agent.run(request.timeout_global(Some(self.patience)).build())
        };
        self.read(sent.map_err(|error| self.why(&error))?, path)
    }

    fn read(&self, mut answer: Response<Body>, path: &str) -> Result<Reply, ControllerError> {
        let header = |name: &str| {
            let value = answer.headers().get(name)?.to_str().ok()?;
            Some(value.to_owned()).filter(|text| !text.is_empty())
        };
        let (location, etag) = (header("location"), header("etag"));
        let retry_after = header("retry-after").and_then(|text| text.parse().ok());
        let status = answer.status().as_u16();
        let limited = answer.body_mut().with_config().limit(LARGEST);
        let bytes = limited.read_to_vec().map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(_) => {
                format!("{path}: the answer is larger than {} MiB", LARGEST >> 20).into()
            }
            error => self.why(&error),
        })?;
        let body = match serde_json::from_slice(&bytes) {
            Ok(body) => body,
            Err(_) if bytes.is_empty() || status >= 300 || status == 202 => Value::Null,
            Err(error) => return Err(format!("{path}: the answer is no JSON: {error}").into()),
        };
        Ok(Reply { status, body, location, etag, retry_after })
    }

    fn why(&self, error: &ureq::Error) -> ControllerError {
        let origin = &self.origin;
        let message = match error {
            ureq::Error::Timeout(ureq::Timeout::Connect) => {
                format!("{origin} does not answer (for {} s)", CONNECTING.as_secs())
            }
            ureq::Error::Timeout(_) => {
                format!("{origin} does not answer (for {} s)", self.patience.as_secs())
            }
            ureq::Error::HostNotFound => format!("{origin}: there is no such host"),
            ureq::Error::BodyExceedsLimit(_) => format!("{origin}: the answer is too large"),
            ureq::Error::Io(error) => {
                let inner = error.get_ref().and_then(|one| one.downcast_ref::<rustls::Error>());
                if let Some(rustls::Error::InvalidCertificate(why)) = inner {
                    let seen = self.seen.lock().ok().and_then(|seen| seen.clone());
                    let why = explain_refusal(why, &self.trust, &seen.unwrap_or_default());
                    return ControllerError::new(
                        ErrorReason::CertificateRefused,
                        format!("{origin}: {why}"),
                    );
                }
                match error.kind() {
                    std::io::ErrorKind::ConnectionRefused => {
                        format!("{origin} refuses connections: nothing listens there")
                    }
                    std::io::ErrorKind::TimedOut => format!("{origin} does not answer"),
                    _ => format!("{origin} is not reached: {}", shorten(&error.to_string())),
                }
            }
            other => format!("{origin}: {}", shorten(&other.to_string())),
        };
        message.into()
    }
}

/// What a stranger says, short.
pub fn shorten(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).take(SAID).collect()
}

/// TLS by our own rules around a connection, where the address wants it.
#[derive(Debug)]
struct Secure(Arc<ClientConfig>);

struct Stream {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl<In: Transport> Connector<In> for Secure {
    type Out = Either<In, Stream>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(transport) = chained else { return Ok(None) };
        if !details.needs_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let host = details.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|_| ureq::Error::Tls("no name to verify"))?;
        let mut conn = ClientConnection::new(Arc::clone(&self.0), name)
            .map_err(|_| ureq::Error::Tls("TLS cannot begin"))?;
        let mut sock = TransportAdapter::new(transport.boxed(), details.current_time.clone());
        sock.set_timeout(details.timeout);
        conn.complete_io(&mut sock)?;
        let (input, output) =
            (details.config.input_buffer_size(), details.config.output_buffer_size());
        let stream = StreamOwned { conn, sock };
        Ok(Some(Either::B(Stream { buffers: LazyBuffers::new(input, output), stream })))
    }
}

impl Transport for Stream {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        let bytes = self.buffers.output().get(..amount).unwrap_or_default();
        Ok(self.stream.write_all(bytes)?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        let read = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Stream")
    }
}
