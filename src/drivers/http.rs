//! Sends HTTP requests to one management controller: to its own origin only, with limits of size
//! and time, and with credentials only after its certificate was accepted. Never goes through a
//! proxy, and knows nothing of Redfish.

use std::cell::RefCell;
use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::{Value, json};
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

/// 4 MiB: no answer of a management controller is larger.
const LARGEST_ANSWER: u64 = 4 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may take, unless somebody sets another time.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the end of a session may take: nobody waits for its answer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The header with the token of a session.
const SESSION_TOKEN: &str = "x-auth-token";
/// Redirects within the origin that are followed, one after another.
const REDIRECTS: usize = 3;
/// Letters of what a controller says that are shown to people.
const SHOWN_LETTERS: usize = 300;

/// The account that a management controller is used with.
pub struct Login {
    pub user: String,
    pub password: String,
}

impl Login {
    /// The value of the header Authorization.
    fn to_header(&self) -> String {
        let Self { user, password } = self;
        format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
    }
}

/// Speaks to one management controller.
pub struct HttpClient {
    agent: Agent,
    /// Scheme, host and port.
    origin: String,
    login: Login,
    /// The session that requests belong to; without one they have user and password.
    session: RefCell<Option<Session>>,
    trust: Trust,
    seen_certificate: SeenCertificate,
    /// How long an answer may take.
    pub answer_timeout: Duration,
}

/// What proves that a request belongs to a session. It is never shown.
#[derive(Clone)]
pub struct SessionToken(String);

impl fmt::Debug for SessionToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SessionToken")
    }
}

/// A session that a controller has opened.
struct Session {
    token: SessionToken,
    /// The path of its resource; deleting it ends the session.
    path: Option<String>,
}

/// How a request proves who sends it.
enum Proof {
    Nothing,
    Password,
    Token(SessionToken),
}

/// An answer, whatever its status.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// Null for an answer without a body.
    pub body: Value,
    pub location: Option<String>,
    pub etag: Option<String>,
    /// In seconds.
    pub retry_after: Option<u64>,
    /// The token of the session that was opened.
    pub session_token: Option<SessionToken>,
}

impl HttpClient {
    /// Sends nothing yet. `origin` is scheme, host and port, without a slash at the end.
    pub fn new(origin: &str, login: Login, trust: Trust) -> Result<Self, String> {
        let (tls_config, seen_certificate) = trust.client_config()?;
        let connector = Connector::<()>::chain(TcpConnector::default(), TlsConnector(tls_config));
        let config = Config::builder()
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("poolctl/", env!("CARGO_PKG_VERSION")))
            .accept("application/json")
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .max_idle_connections(0)
            .build();
        Ok(Self {
            agent: Agent::with_parts(config, connector, DefaultResolver::default()),
            origin: origin.into(),
            login,
            session: RefCell::new(None),
            trust,
            seen_certificate,
            answer_timeout: ANSWER_TIMEOUT,
        })
    }

    /// Reads a resource that anybody may read, without a login, and returns the answer, whatever its
    /// status.
    pub fn get_without_login(&self, path: &str) -> Result<Reply, ControllerError> {
        self.send_once(&Method::GET, path, None, None, &Proof::Nothing)
    }

    /// Opens a session by a POST to this link, for all requests that follow. Returns the answer; if
    /// it is a refusal, requests go on with user and password.
    pub fn open_session(&self, link: &str) -> Result<Reply, ControllerError> {
        let path = self.path_of_link(link)?;
        let body = json!({"UserName": self.login.user, "Password": self.login.password});
        let reply = self.send_once(&Method::POST, &path, Some(&body), None, &Proof::Nothing)?;
        if reply.status < 300
            && let Some(token) = &reply.session_token
        {
            let location = reply.location.as_deref().or(reply.body["@odata.id"].as_str());
            let path = location.and_then(|location| self.path_of_link(location).ok());
            self.session.replace(Some(Session { token: token.clone(), path }));
        }
        Ok(reply)
    }

    /// Ends the session, if there is one: controllers have few of them.
    pub fn close_session(&mut self) {
        let Some(Session { token, path: Some(path) }) = self.session.take() else { return };
        self.answer_timeout = CLOSE_TIMEOUT;
        // If it fails, the controller ends the session after some minutes.
        drop(self.send_once(&Method::DELETE, &path, None, None, &Proof::Token(token)));
    }

    /// How requests prove who sends them.
    fn current_proof(&self) -> Proof {
        match &*self.session.borrow() {
            Some(session) => Proof::Token(session.token.clone()),
            None => Proof::Password,
        }
    }

    /// Sends a request. If its session is over, it is sent again with user and password.
    fn send_with_login(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        etag: Option<&str>,
    ) -> Result<Reply, ControllerError> {
        let proof = self.current_proof();
        let reply = self.send_once(method, path, body, etag, &proof)?;
        if reply.status != 401 || !matches!(proof, Proof::Token(_)) {
            return Ok(reply);
        }
        self.session.replace(None);
        self.send_once(method, path, body, etag, &Proof::Password)
    }

    /// Sends a request and returns its answer, whatever its status. A GET follows redirects within
    /// the origin; a redirect of anything else is an error.
    pub fn send_request(
        &self,
        method: &Method,
        link: &str,
        body: Option<&Value>,
        etag: Option<&str>,
    ) -> Result<Reply, ControllerError> {
        let mut path = self.path_of_link(link)?;
        for _ in 0..=REDIRECTS {
            let reply = self.send_with_login(method, &path, body, etag)?;
            if !matches!(reply.status, 301 | 302 | 303 | 307 | 308) {
                return Ok(reply);
            }
            let target = reply.location.unwrap_or_default();
            if method != Method::GET {
                return Err(format!(
                    "{path}: poolctl does not repeat a {method} at `{}`",
                    shorten(&target)
                )
                .into());
            }
            path = self.path_of_link(&target)?;
        }
        Err(format!("{path}: more than {REDIRECTS} redirects").into())
    }

    /// The path of a link within this origin. A link to another origin is an error: the credentials
    /// are not meant for it.
    fn path_of_link(&self, link: &str) -> Result<String, String> {
        let base = url::Url::parse(&self.origin).map_err(|error| error.to_string())?;
        let url = base.join(link).map_err(|error| format!("`{}`: {error}", shorten(link)))?;
        if url.origin() != base.origin() {
            let other_host = shorten(&url.origin().ascii_serialization());
            return Err(format!(
                "it refers to another host, {other_host}; poolctl does not ask that host"
            ));
        }
        Ok(url[url::Position::BeforePath..url::Position::AfterQuery].to_owned())
    }

    /// Sends one request and follows nothing. `etag` is sent as If-Match: the change is refused if
    /// the resource is no longer the one that was read.
    fn send_once(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        etag: Option<&str>,
        proof: &Proof,
    ) -> Result<Reply, ControllerError> {
        let mut builder = Request::builder()
            .method(method.clone())
            .uri(format!("{}{path}", self.origin))
            .header("OData-Version", "4.0");
        builder = match proof {
            Proof::Nothing => builder,
            Proof::Password => builder.header("Authorization", self.login.to_header()),
            Proof::Token(token) => builder.header(SESSION_TOKEN, &token.0),
        };
        if let Some(etag) = etag {
            builder = builder.header("If-Match", etag);
        }
        if body.is_some() {
            builder = builder.header("Content-Type", "application/json");
        }
        // A POST or PATCH without a body is sent with an empty one, so that it has a length: some
        // controllers insist on it.
        let is_bare = body.is_none() && (method == Method::GET || method == Method::DELETE);
        let result = if is_bare {
            let request = builder.body(()).map_err(|error| format!("{path}: {error}"))?;
            let configured = self.agent.configure_request(request);
            self.agent.run(configured.timeout_global(Some(self.answer_timeout)).build())
        } else {
            let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
            let request = builder.body(bytes).map_err(|error| format!("{path}: {error}"))?;
            let configured = self.agent.configure_request(request);
            self.agent.run(configured.timeout_global(Some(self.answer_timeout)).build())
        };
        self.read_reply(result.map_err(|error| self.explain_error(&error))?, path)
    }

    /// Reads an answer with its body, which must be JSON where there is one. An error, a redirect
    /// or an accepted task may come with something else, which is left out.
    fn read_reply(
        &self,
        mut response: Response<Body>,
        path: &str,
    ) -> Result<Reply, ControllerError> {
        let status = response.status().as_u16();
        let location = header(&response, "location");
        let etag = header(&response, "etag");
        let retry_after = header(&response, "retry-after").and_then(|seconds| seconds.parse().ok());
        let session_token = header(&response, SESSION_TOKEN).map(SessionToken);
        let limited_body = response.body_mut().with_config().limit(LARGEST_ANSWER);
        let bytes = limited_body.read_to_vec().map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(_) => {
                format!("{path}: the answer is larger than {} MiB", LARGEST_ANSWER >> 20).into()
            }
            error => self.explain_error(&error),
        })?;
        let body = match serde_json::from_slice(&bytes) {
            Ok(body) => body,
            Err(_) if bytes.is_empty() || status >= 300 || status == 202 => Value::Null,
            Err(error) => return Err(format!("{path}: the answer is not JSON: {error}").into()),
        };
        Ok(Reply { status, body, location, etag, retry_after, session_token })
    }

    /// Why there is no answer, for people.
    fn explain_error(&self, error: &ureq::Error) -> ControllerError {
        let origin = &self.origin;
        let message = match error {
            ureq::Error::Timeout(ureq::Timeout::Connect) => {
                format!("{origin} does not answer within {} s", CONNECT_TIMEOUT.as_secs())
            }
            ureq::Error::Timeout(_) => {
                format!("{origin} does not answer within {} s", self.answer_timeout.as_secs())
            }
            ureq::Error::HostNotFound => format!("{origin}: there is no such host"),
            ureq::Error::Io(error) => return self.explain_io_error(error),
            ureq::Error::BodyExceedsLimit(_) => {
                return format!("{origin}: the answer is too large").into();
            }
            error => return format!("{origin}: {}", shorten(&error.to_string())).into(),
        };
        ControllerError::away(message)
    }

    /// Says why a connection failed. A certificate that was not accepted is shown by its
    /// fingerprint, which can be pinned.
    fn explain_io_error(&self, error: &std::io::Error) -> ControllerError {
        let origin = &self.origin;
        let tls_error = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if let Some(rustls::Error::InvalidCertificate(certificate_error)) = tls_error {
            let fingerprint = self.seen_certificate.lock().ok().and_then(|seen| seen.clone());
            let reason =
                explain_refusal(certificate_error, &self.trust, &fingerprint.unwrap_or_default());
            return ControllerError::new(
                ErrorReason::CertificateRefused,
                format!("{origin}: {reason}"),
            );
        }
        let message = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => {
                format!("{origin} refuses connections: nothing listens there")
            }
            std::io::ErrorKind::TimedOut => format!("{origin} does not answer"),
            _ => format!("{origin} cannot be reached: {}", shorten(&error.to_string())),
        };
        ControllerError::away(message)
    }
}

/// The value of a header; None if it is missing, empty or no text.
fn header(response: &Response<Body>, name: &str) -> Option<String> {
    let value = response.headers().get(name)?.to_str().ok()?;
    if value.is_empty() { None } else { Some(value.to_owned()) }
}

/// What a controller says, cut and without control characters, so that it can be shown to people.
pub fn shorten(message: &str) -> String {
    message.chars().filter(|letter| !letter.is_control()).take(SHOWN_LETTERS).collect()
}

/// Puts TLS by our own rules of trust around a connection, if the address is one of https.
#[derive(Debug)]
struct TlsConnector(Arc<ClientConfig>);

/// A connection with TLS, as ureq's transport.
struct TlsStream {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsStream>;

    /// Adds TLS to a connection if its URL asks for that.
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
        // An IPv6 address is in brackets in a URL, but not in a certificate.
        let bare_host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let server_name = ServerName::try_from(bare_host)
            .map_err(|_| ureq::Error::Tls("the address has no name to verify"))?;
        let mut conn = ClientConnection::new(Arc::clone(&self.0), server_name)
            .map_err(|_| ureq::Error::Tls("TLS cannot start"))?;
        let mut sock = TransportAdapter::new(transport.boxed(), details.current_time.clone());
        sock.set_timeout(details.timeout);
        conn.complete_io(&mut sock)?;
        let buffers = LazyBuffers::new(
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        let stream = StreamOwned { conn, sock };
        Ok(Some(Either::B(TlsStream { buffers, stream })))
    }
}

impl Transport for TlsStream {
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
        let bytes_read = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(bytes_read);
        Ok(bytes_read > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for TlsStream {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("TlsStream")
    }
}
