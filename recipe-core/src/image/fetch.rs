//! Downloads of images. Knows no pixels. A client's URL may name any machine, so by default only public addresses are
//! connected to; see `address`.

mod address;

use std::fmt;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

use ureq::config::{AutoHeaderValue, Config};
use ureq::http::{header, HeaderMap, Response, StatusCode, Uri};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Body};
use url::{Host, Url};

pub use address::is_public;

use super::error::{ImageError, ImageErrorKind, Result};
use super::limits::ImageLimits;

/// As the reference: one attempt, from the name to the last byte.
const ATTEMPT: Duration = Duration::from_secs(60);
/// As the reference: how long to wait before each further attempt.
const WAITS: [Duration; 3] = [Duration::from_millis(300), Duration::from_millis(600), Duration::from_secs(1)];
/// As the reference.
const MOST_REDIRECTS: usize = 5;
/// The HTTP client takes no more addresses of one name.
const MOST_ADDRESSES: usize = 16;

type Filter = dyn Fn(&str, IpAddr) -> bool + Send + Sync;
type Lookup = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Downloads images over HTTP. A name is looked up once for a request, each address is checked, and only a checked one
/// is connected to; every redirect is a request of its own. No proxy is used, since one would look names up itself.
#[derive(Clone)]
pub struct ImageFetcher {
    most_bytes: usize,
    internal_addresses: bool,
    filter: Option<Arc<Filter>>,
    lookup: Arc<Lookup>,
}

impl Default for ImageFetcher {
    fn default() -> Self {
        Self {
            most_bytes: ImageLimits::default().image_bytes,
            internal_addresses: false,
            filter: None,
            lookup: Arc::new(|host, port| (host, port).to_socket_addrs().map(Iterator::collect)),
        }
    }
}

impl fmt::Debug for ImageFetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageFetcher")
            .field("most_bytes", &self.most_bytes)
            .field("internal_addresses", &self.internal_addresses)
            .field("filter", &self.filter.is_some())
            .finish_non_exhaustive()
    }
}

impl ImageFetcher {
    /// The same with a limit for one image, in bytes.
    #[must_use]
    pub fn with_max_bytes(self, max_bytes: usize) -> Self {
        Self { most_bytes: max_bytes, ..self }
    }

    /// The same for addresses that are not public, too: of this machine, of its network, of its cloud's services.
    #[must_use]
    pub fn with_internal_addresses(self) -> Self {
        Self { internal_addresses: true, ..self }
    }

    /// The same, but asks before it connects, with the host as in the URL (an IPv6 address without brackets) and one
    /// of its addresses. It is asked only about addresses that are allowed otherwise.
    #[must_use]
    pub fn with_destination_filter(self, filter: impl Fn(&str, IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self { filter: Some(Arc::new(filter)), ..self }
    }

    /// The same with another way to look up a name and a port than that of the system.
    #[must_use]
    pub fn with_lookup(
        self,
        lookup: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self { lookup: Arc::new(lookup), ..self }
    }

    /// The body behind a URL, in one attempt of at most a minute.
    ///
    /// # Errors
    ///
    /// Kind `Fetch` where there is no whole answer, `FetchStatus` for a status that is no success, `ImageTooLarge`, or
    /// `DestinationRejected` where no address may be connected to.
    pub fn fetch(&self, url: &str) -> Result<Vec<u8>> {
        self.attempt(url, Instant::now() + ATTEMPT).map_err(|failure| failure.error(url, self.most_bytes))
    }

    /// What loads the URLs of one call of `resolve`, tries again included, in the time that starts now.
    pub fn downloads(&self, limits: &ImageLimits) -> impl Fn(&str) -> Result<Vec<u8>> + Sync + '_ {
        let end = Instant::now() + limits.download_time;
        move |url| self.download(url, end)
    }

    fn download(&self, url: &str, end: Instant) -> Result<Vec<u8>> {
        let mut waits = WAITS.into_iter();
        loop {
            let failure = match self.attempt(url, end.min(Instant::now() + ATTEMPT)) {
                Ok(body) => return Ok(body),
                Err(failure) => failure,
            };
            let wait = failure.may_pass().and_then(|least| waits.next().map(|wait| wait.max(least)));
            match wait {
                Some(wait) if Instant::now() + wait < end => std::thread::sleep(wait),
                _ => return Err(failure.error(url, self.most_bytes)),
            }
        }
    }

    fn attempt(&self, url: &str, end: Instant) -> std::result::Result<Vec<u8>, Failure> {
        let mut url = Url::parse(url).map_err(|_| Failure::Url)?;
        for _ in 0..=MOST_REDIRECTS {
            url.set_fragment(None);
            let response = self.get(&url, end)?;
            let status = response.status();
            if status.is_success() {
                return self.body(response);
            }
            let target = redirect(status, response.headers()).and_then(|target| url.join(target).ok());
            url = target.filter(is_http).ok_or_else(|| Failure::status(status, response.headers()))?;
        }
        Err(Failure::Redirects)
    }

    fn get(&self, url: &Url, end: Instant) -> std::result::Result<Response<Body>, Failure> {
        if !is_http(url) {
            return Err(Failure::Url);
        }
        let addresses = self.addresses(url, end)?;
        let uri: Uri = url.as_str().parse().map_err(|_| Failure::Url)?;
        let config = Config::builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent(AutoHeaderValue::None)
            .accept_encoding(AutoHeaderValue::None)
            .timeout_global(Some(end.saturating_duration_since(Instant::now())))
            .build();
        // An agent for each request: no connection outlives the check of its address.
        let agent = Agent::with_parts(config, DefaultConnector::default(), Checked(addresses));
        agent.get(uri).call().map_err(|_| Failure::Answer)
    }

    /// The addresses of a URL's host that may be connected to: at least one.
    fn addresses(&self, url: &Url, end: Instant) -> std::result::Result<Vec<SocketAddr>, Failure> {
        let port = url.port_or_known_default().ok_or(Failure::Url)?;
        let (host, found) = match url.host().ok_or(Failure::Url)? {
            Host::Ipv4(address) => (address.to_string(), vec![(address, port).into()]),
            Host::Ipv6(address) => (address.to_string(), vec![(address, port).into()]),
            Host::Domain(name) => (name.to_owned(), self.look_up(name, port, end)?),
        };
        if found.is_empty() {
            return Err(Failure::Answer);
        }
        let allowed: Vec<SocketAddr> =
            found.into_iter().filter(|address| self.allows(&host, address.ip())).take(MOST_ADDRESSES).collect();
        if allowed.is_empty() {
            return Err(Failure::Rejected);
        }
        Ok(allowed)
    }

    fn allows(&self, host: &str, address: IpAddr) -> bool {
        let address = address.to_canonical();
        (self.internal_addresses || is_public(address))
            && self.filter.as_ref().is_none_or(|filter| filter(host, address))
    }

    /// The system's lookup takes no time limit, so a thread of its own does it, and is left alone after the end.
    fn look_up(&self, host: &str, port: u16, end: Instant) -> std::result::Result<Vec<SocketAddr>, Failure> {
        let (sender, answer) = mpsc::sync_channel(1);
        let (lookup, host) = (Arc::clone(&self.lookup), host.to_owned());
        let thread = std::thread::Builder::new().name("image lookup".to_owned());
        thread.spawn(move || sender.send(lookup(&host, port)).ok()).map_err(|_| Failure::Answer)?;
        let answer = answer.recv_timeout(end.saturating_duration_since(Instant::now()));
        answer.map_err(|_| Failure::Answer)?.map_err(|_| Failure::Answer)
    }

    fn body(&self, response: Response<Body>) -> std::result::Result<Vec<u8>, Failure> {
        let declared = response.body().content_length();
        if declared.is_some_and(|length| length > self.most_bytes as u64) {
            return Err(Failure::TooLarge);
        }
        let mut body = Vec::new();
        let most = (self.most_bytes as u64).saturating_add(1);
        response.into_body().into_reader().take(most).read_to_end(&mut body).map_err(|_| Failure::Answer)?;
        if body.len() > self.most_bytes {
            return Err(Failure::TooLarge);
        }
        Ok(body)
    }
}

fn is_http(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
}

/// The target of a redirect.
fn redirect(status: StatusCode, headers: &HeaderMap) -> Option<&str> {
    let redirects = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    headers.get(header::LOCATION).filter(|_| redirects)?.to_str().ok()
}

/// Tells the HTTP client the addresses that were checked, whatever a second lookup would say.
#[derive(Debug)]
struct Checked(Vec<SocketAddr>);

impl Resolver for Checked {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> std::result::Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        self.0.iter().for_each(|address| addresses.push(*address));
        Ok(addresses)
    }
}

/// Why an attempt gave no body.
enum Failure {
    /// There is nothing to ask for.
    Url,
    /// No whole answer came.
    Answer,
    /// One redirect too many.
    Redirects,
    /// No success. `wait` is what the server asks for.
    Status { status: StatusCode, wait: Duration },
    /// Too many bytes.
    TooLarge,
    /// No address may be connected to.
    Rejected,
}

impl Failure {
    fn status(status: StatusCode, headers: &HeaderMap) -> Self {
        let wait = headers.get(header::RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.parse().ok());
        Self::Status { status, wait: Duration::from_secs(wait.unwrap_or(0)) }
    }

    /// Whether another attempt may go better, and the least time to wait for that.
    fn may_pass(&self) -> Option<Duration> {
        match self {
            Self::Answer => Some(Duration::ZERO),
            Self::Status { status, wait } => is_passing(*status).then_some(*wait),
            Self::Url | Self::Redirects | Self::TooLarge | Self::Rejected => None,
        }
    }

    fn error(&self, url: &str, most_bytes: usize) -> ImageError {
        match self {
            // The reference calls these retryable, although it does not help with the first and the last.
            Self::Url | Self::Answer | Self::Redirects => ImageError::fetch(ImageErrorKind::Fetch, url, true),
            Self::Status { status, .. } => ImageError::fetch(ImageErrorKind::FetchStatus, url, is_passing(*status)),
            Self::TooLarge => ImageError::too_large(most_bytes),
            Self::Rejected => ImageError::fetch(ImageErrorKind::DestinationRejected, url, false),
        }
    }
}

/// Whether a status may be another one later: a fault of the server, or that it had no time or too much to do.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 429)
}
