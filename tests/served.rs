//! A small HTTP server on loopback. A test says what it answers, and sees what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

/// A request that the server got.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// What the server answers to a request.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the body is sent a byte a second.
    pub is_slow: bool,
}

impl Answer {
    pub fn json(body: &Value) -> Self {
        Self { status: 200, body: body.to_string().into_bytes(), ..Self::default() }
    }

    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// An error as Redfish services send it, with the id of its message.
    pub fn error(status: u16, id: &str, text: &str) -> Self {
        let info = serde_json::json!([{"MessageId": id, "Message": text}]);
        let error = serde_json::json!({"error": {"@Message.ExtendedInfo": info}});
        Self { status, ..Self::json(&error) }
    }

    /// Adds a header.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    fn write(&self, to: &mut impl Write) -> std::io::Result<()> {
        let mut head = format!(
            "HTTP/1.1 {} so\r\nContent-Length: {}\r\nConnection: close\r\n",
            self.status,
            self.body.len()
        );
        for (name, value) in &self.headers {
            head.extend([name.as_str(), ": ", value, "\r\n"]);
        }
        head.push_str("\r\n");
        to.write_all(head.as_bytes())?;
        if self.is_slow {
            for byte in &self.body {
                to.write_all(&[*byte])?;
                to.flush()?;
                crate::sandbox::pause(1000);
            }
        }
        to.write_all(&self.body)?;
        to.flush()
    }
}

/// Serves until the test is over, and keeps every request.
pub struct Server {
    address: SocketAddr,
    tls: bool,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Serves HTTP without TLS.
    pub fn plain(answers: impl FnMut(&Request) -> Answer + Send + 'static) -> Self {
        Self::start(None, answers)
    }

    /// Serves a folder at `/images`, as a web server does whose user is in our group.
    pub fn of_folder(folder: &Path) -> Self {
        let folder = folder.to_owned();
        Self::plain(move |request| {
            let path = request.path.strip_prefix("/images/").filter(|path| !path.contains(".."));
            let file = path.map(|path| folder.join(path));
            let readable = file.filter(|file| is_readable_by_group(file, &folder));
            match readable.and_then(|file| std::fs::read(file).ok()) {
                Some(body) => Answer { body, ..Answer::status(200) },
                None => Answer::status(404),
            }
        })
    }

    /// Serves HTTPS with a certificate and its key, as PEM.
    pub fn tls(
        (certificate, key): &(String, String),
        answers: impl FnMut(&Request) -> Answer + Send + 'static,
    ) -> Self {
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.unwrap(), key)
            .unwrap();
        Self::start(Some(Arc::new(config)), answers)
    }

    fn start(
        tls: Option<Arc<ServerConfig>>,
        answers: impl FnMut(&Request) -> Answer + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let server = Self {
            address: listener.local_addr().unwrap(),
            tls: tls.is_some(),
            asked: Arc::clone(&asked),
        };
        let answers = Arc::new(Mutex::new(answers));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let tls = tls.clone();
                let asked = Arc::clone(&asked);
                let answers = Arc::clone(&answers);
                std::thread::spawn(move || {
                    let answer = |request: &Request| {
                        asked.lock().unwrap().push(request.clone());
                        (answers.lock().unwrap())(request)
                    };
                    // A client that hangs up is no failure of the server.
                    drop(match tls {
                        None => serve(stream, answer),
                        Some(config) => {
                            let connection = ServerConnection::new(config).unwrap();
                            serve(StreamOwned::new(connection, stream), answer)
                        }
                    });
                });
            }
        });
        server
    }

    /// Scheme, host and port of its URLs.
    pub fn origin(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.address)
    }

    /// The address of a system of this server, as `bmc.address` has it.
    pub fn bmc_address(&self, system: &str) -> String {
        let scheme = if self.tls { "redfish" } else { "redfish+http" };
        format!("{scheme}://{}{system}", self.address)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
}

/// Whether our group may read a file below a folder, and nobody else may.
fn is_readable_by_group(file: &Path, folder: &Path) -> bool {
    let mut folders = file.ancestors().skip(1).take_while(|path| path.starts_with(folder));
    has_group_bits(file, 0o040) && folders.all(|path| has_group_bits(path, 0o050))
}

/// Whether a path has these permissions for its group, and none for others.
fn has_group_bits(path: &Path, bits: u32) -> bool {
    let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    mode & bits == bits && mode.is_multiple_of(8)
}

/// Reads one request, and writes the answer to it.
fn serve<S: Read + Write>(stream: S, answer: impl Fn(&Request) -> Answer) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    let mut request = Request { method, path, ..Request::default() };
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        request.headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = request.header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    request.body = String::from_utf8_lossy(&body).into_owned();
    answer(&request).write(stream.get_mut())
}

/// A listener that accepts no connection, and its address: clients wait for ever.
pub fn black_hole() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("redfish://{}", listener.local_addr().unwrap());
    (listener, address)
}

/// A port where nobody listens.
pub fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Sends a request on to another server as it is, and returns the answer.
pub fn forward_request(to: SocketAddr, request: &Request) -> Answer {
    let mut stream = TcpStream::connect(to).unwrap();
    let authorization = request.header("authorization").unwrap_or_default();
    let Request { method, path, body, .. } = request;
    let length = body.len();
    let text = format!(
        "{method} {path} HTTP/1.0\r\nHost: {to}\r\nAuthorization: {authorization}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    // At once: a server may answer, and close, before it has read everything.
    stream.write_all(text.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let response = String::from_utf8_lossy(&bytes);
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, body: body.as_bytes().to_vec(), ..Answer::default() }
}
