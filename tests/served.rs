//! A small HTTP server of our own on loopback: what it is asked and what it answers are a test's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

/// What was asked.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub method: String,
    pub path: String,
    /// Name in lower case, value.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// What is answered.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// A second passes between two bytes.
    pub drips: bool,
}

impl Answer {
    pub fn json(body: &Value) -> Self {
        Self { status: 200, body: body.to_string().into_bytes(), ..Self::default() }
    }

    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub fn error(status: u16, id: &str, text: &str) -> Self {
        let info = serde_json::json!([{"MessageId": id, "Message": text}]);
        let error = serde_json::json!({"error": {"@Message.ExtendedInfo": info}});
        Self { status, ..Self::json(&error) }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    fn write(&self, to: &mut impl Write) -> std::io::Result<()> {
        let header = |(name, value): &(String, String)| format!("{name}: {value}\r\n");
        let headers = self.headers.iter().map(header).collect::<Vec<_>>().concat();
        let (status, length) = (self.status, self.body.len());
        let head = format!(
            "HTTP/1.1 {status} so\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n"
        );
        to.write_all(head.as_bytes())?;
        if self.drips {
            for byte in &self.body {
                to.write_all(&[*byte])?;
                to.flush()?;
                (0..10).for_each(|_| crate::rigs::pause());
            }
        }
        to.write_all(&self.body)?;
        to.flush()
    }
}

/// Serves until the test is over; everything that was asked is kept.
pub struct Server {
    address: SocketAddr,
    tls: bool,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub fn plain(answers: impl FnMut(&Asked) -> Answer + Send + 'static) -> Self {
        Self::start(None, answers)
    }

    /// As a web server does that is in our group and shows a folder at `/images`.
    pub fn of(folder: &Path) -> Self {
        let folder = folder.to_owned();
        let shows = |path: &Path, needs: u32| {
            let mode = std::fs::metadata(path).map_or(0, |found| found.permissions().mode());
            // Our group may, and nobody else.
            mode & needs == needs && mode.is_multiple_of(8)
        };
        Self::plain(move |asked| {
            let rest = asked.path.strip_prefix("/images/").filter(|rest| !rest.contains(".."));
            let path = rest.map(|rest| folder.join(rest));
            let served = path.filter(|path| {
                let mut folders =
                    path.ancestors().skip(1).take_while(|one| one.starts_with(&folder));
                shows(path, 0o040) && folders.all(|one| shows(one, 0o050))
            });
            match served.and_then(|path| std::fs::read(path).ok()) {
                Some(body) => Answer { body, ..Answer::status(200) },
                None => Answer::status(404),
            }
        })
    }

    /// With a certificate and its key, as PEM.
    pub fn tls(
        (certificate, key): &(String, String),
        answers: impl FnMut(&Asked) -> Answer + Send + 'static,
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
        answers: impl FnMut(&Asked) -> Answer + Send + 'static,
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
                let (tls, asked, answers) = (tls.clone(), Arc::clone(&asked), Arc::clone(&answers));
                std::thread::spawn(move || {
                    let answer = |one: &Asked| {
                        asked.lock().unwrap().push(one.clone());
                        (answers.lock().unwrap())(one)
                    };
                    // Whoever hangs up has had enough.
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

    pub fn origin(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.address)
    }

    /// As `bmc.address` has it.
    pub fn bmc(&self, system: &str) -> String {
        let scheme = if self.tls { "redfish" } else { "redfish+http" };
        format!("{scheme}://{}{system}", self.address)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve<S: Read + Write>(stream: S, answer: impl Fn(&Asked) -> Answer) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut asked = Asked { method, path, ..Asked::default() };
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        asked.headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = asked.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    asked.body = String::from_utf8_lossy(&body).into_owned();
    answer(&asked).write(stream.get_mut())
}

/// A socket on which nobody ever answers: connections wait for ever.
pub fn black_hole() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("redfish://{}", listener.local_addr().unwrap());
    (listener, address)
}

/// A port where nobody listens.
pub fn closed() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Sends a request on to another server as it is, and gives back what it says.
pub fn forward(to: SocketAddr, asked: &Asked) -> Answer {
    let mut stream = TcpStream::connect(to).unwrap();
    let authorization = asked.header("authorization").unwrap_or_default();
    let (method, path, body) = (&asked.method, &asked.path, &asked.body);
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: {to}\r\nAuthorization: {authorization}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, body: body.as_bytes().to_vec(), ..Answer::default() }
}
