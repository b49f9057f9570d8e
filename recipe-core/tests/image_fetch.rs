//! Downloads of images: where they may go, and what they make of answers. The servers are on loopback addresses.

#![cfg(all(feature = "fetch", target_os = "linux"))]
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use recipe_core::image::fetch::{is_public, ImageFetcher};
use recipe_core::image::{ImageError, ImageErrorKind, ImageLimits};

/// A server and the heads of the requests that it got.
struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Serves on an address of this machine. `answer` gets the path and how many requests came before.
fn serve(ip: &str, answer: impl Fn(&str, usize) -> String + Send + 'static) -> Server {
    let listener = TcpListener::bind((ip, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    std::thread::spawn(move || {
        for (before, connection) in listener.incoming().enumerate() {
            let mut connection = connection.unwrap();
            let mut head = String::new();
            let mut reader = BufReader::new(connection.try_clone().unwrap());
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap_or(0) > 0 {}
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            seen.lock().unwrap().push(head);
            let _ = connection.write_all(answer(&path, before).as_bytes());
        }
    });
    Server { address, requests }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// An answer without a body. The line may go on with headers.
fn status(line: &str) -> String {
    let length = if line.contains("Content-Length") { "" } else { "Content-Length: 0\r\n" };
    format!("HTTP/1.1 {line}\r\n{length}Connection: close\r\n\r\n")
}

fn redirect(to: &str) -> String {
    status(&format!("302 Found\r\nLocation: {to}"))
}

/// A fetcher for the servers of these tests.
fn open() -> ImageFetcher {
    ImageFetcher::default().with_internal_addresses()
}

/// A fetcher that connects only to 127.0.0.1, as a fetcher connects only to public addresses.
fn guarded() -> ImageFetcher {
    open().with_destination_filter(|_, address| address == IpAddr::from([127, 0, 0, 1]))
}

fn refused(fetched: Result<Vec<u8>, ImageError>) -> (ImageErrorKind, bool) {
    let error = fetched.unwrap_err();
    (error.kind(), error.is_retryable())
}

const REJECTED: (ImageErrorKind, bool) = (ImageErrorKind::DestinationRejected, false);

#[test]
fn addresses_are_public_or_not() {
    let internal = [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.0.1",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.168.1.1",
        "198.18.0.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff::1",
        "4000::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ];
    for address in internal {
        assert!(!is_public(address.parse().unwrap()), "{address}");
    }
    let public = [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "128.0.0.1",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.169.0.0",
        "223.255.255.255",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2001:4860:4860::8888",
        "2606:4700::1111",
        "2a00:1450:4001::1",
    ];
    for address in public {
        assert!(is_public(address.parse().unwrap()), "{address}");
    }
}

#[test]
fn internal_addresses_are_refused_in_every_spelling() {
    let server = serve("127.0.0.1", |_, _| ok("secret"));
    let port = server.address.port();
    let hosts = [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "127.1",
        "0",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "１２７.0.0.1",
        "user@127.0.0.1",
    ];
    for host in hosts {
        let fetched = ImageFetcher::default().fetch(&format!("http://{host}:{port}/a.png"));
        assert_eq!(refused(fetched), REJECTED, "{host}");
    }
    // An answer of the name service that has one bad and one good address is good for the good one alone.
    let fetcher = ImageFetcher::default().with_lookup(move |_, _| Ok(vec![([127, 0, 0, 1], port).into()]));
    assert_eq!(refused(fetcher.fetch("http://pictures.example/a.png")), REJECTED);
    assert_eq!(server.requests(), Vec::<String>::new());
    assert_eq!(open().fetch(&server.url("/a.png")).unwrap(), b"secret");
}

#[test]
fn a_filter_narrows_and_never_opens() {
    let server = serve("127.0.0.1", |_, _| ok("secret"));
    let all = ImageFetcher::default().with_destination_filter(|_, _| true);
    assert_eq!(refused(all.fetch(&server.url("/"))), REJECTED);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let none = open().with_destination_filter(move |host, address| {
        seen.lock().unwrap().push(format!("{host} {address}"));
        false
    });
    for url in ["http://2130706433:1/", "http://[::1]:1/"] {
        assert_eq!(refused(none.fetch(url)), REJECTED);
    }
    assert_eq!(*asked.lock().unwrap(), ["127.0.0.1 127.0.0.1", "::1 ::1"]);
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[test]
fn redirects_are_checked() {
    let inner = serve("127.0.0.2", |_, _| ok("secret"));
    let target = inner.url("/");
    let outer = serve("127.0.0.1", move |_, _| redirect(&target));
    let error = guarded().fetch(&outer.url("/a.png")).unwrap_err();
    assert_eq!(error.kind(), ImageErrorKind::DestinationRejected);
    assert_eq!(error.to_string(), format!("image[0]: Failed to download image from {}", outer.url("/a.png")));
    assert_eq!((outer.requests().len(), inner.requests().len()), (1, 0));
}

#[test]
fn the_checked_address_is_the_one_that_is_used() {
    let good = serve("127.0.0.1", |_, _| ok("picture"));
    let port = good.address.port();
    // The name service says something else from the second time on.
    let lookups = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&lookups);
    let rebinding = guarded().with_lookup(move |_, _| {
        let last = if asked.fetch_add(1, Ordering::Relaxed) == 0 { 1 } else { 2 };
        Ok(vec![([127, 0, 0, last], port).into()])
    });
    let url = "http://pictures.example/a.png";
    assert_eq!(rebinding.fetch(url).unwrap(), b"picture");
    assert_eq!(lookups.load(Ordering::Relaxed), 1);
    assert_eq!(refused(rebinding.fetch(url)), REJECTED);
    // Of several addresses only those that are allowed are connected to.
    let several = guarded().with_lookup(move |_, _| Ok([2, 3, 1].map(|last| ([127, 0, 0, last], port).into()).into()));
    assert_eq!(several.fetch(url).unwrap(), b"picture");
    assert!(good.requests().iter().all(|head| head.to_lowercase().contains("\r\nhost: pictures.example\r\n")));
}

#[test]
fn a_redirect_to_a_name_is_looked_up_and_checked_again() {
    let inner = serve("127.0.0.2", |_, _| ok("secret"));
    let outer = serve("127.0.0.1", |_, _| redirect("http://pictures.example/again"));
    let ports = [outer.address.port(), inner.address.port()];
    let lookups = AtomicUsize::new(0);
    let fetcher = guarded().with_lookup(move |_, _| {
        let time = lookups.fetch_add(1, Ordering::Relaxed).min(1);
        Ok(vec![([127, 0, 0, 1 + time as u8], ports[time]).into()])
    });
    assert_eq!(refused(fetcher.fetch("http://pictures.example/a.png")), REJECTED);
    assert_eq!((outer.requests().len(), inner.requests().len()), (1, 0));
}

#[test]
fn five_redirects_are_followed() {
    let server = serve("127.0.0.1", |path, _| match path[1..].parse().unwrap() {
        0 => ok("picture"),
        left => redirect(&format!("{}#part", left - 1)),
    });
    assert_eq!(open().fetch(&server.url("/5#part")).unwrap(), b"picture");
    assert!(server.requests().iter().all(|head| !head.contains("part")));
    assert_eq!(refused(open().fetch(&server.url("/6"))), (ImageErrorKind::Fetch, true));
    for target in ["ftp://127.0.0.1/", "file:///etc/passwd", "data:image/png,x", "http://", "http://[", ""] {
        let server = serve("127.0.0.1", move |_, before| if before == 0 { redirect(target) } else { ok("") });
        let expected = if target.is_empty() { Ok(vec![]) } else { Err((ImageErrorKind::FetchStatus, false)) };
        let fetched = open().fetch(&server.url("/"));
        assert_eq!(fetched.map_err(|error| (error.kind(), error.is_retryable())), expected, "{target}");
    }
    let nowhere = serve("127.0.0.1", |_, _| status("302 Found"));
    assert_eq!(refused(open().fetch(&nowhere.url("/"))), (ImageErrorKind::FetchStatus, false));
}

#[test]
fn requests_are_plain() {
    let server = serve("127.0.0.1", |_, _| ok("\u{1f}gzip"));
    assert_eq!(open().fetch(&server.url("/ä b?c=ö|")).unwrap(), "\u{1f}gzip".as_bytes());
    let head = server.requests().remove(0).to_lowercase();
    assert!(head.starts_with("get /%c3%a4%20b?c=%c3%b6| http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\naccept: */*\r\n"), "{head}");
    for absent in ["user-agent", "accept-encoding", "cookie", "referer"] {
        assert!(!head.contains(absent), "{head}");
    }
}

#[test]
fn what_is_no_http_url_reaches_nothing() {
    let fetcher = open().with_lookup(|_, _| panic!("nothing is looked up"));
    for url in ["", "http", "http://", "httpx://a", "ftp://a/", "data:image/png;base64,AAAA", "file:///etc/passwd"] {
        assert_eq!(refused(fetcher.fetch(url)), (ImageErrorKind::Fetch, true), "{url}");
    }
}

#[test]
fn bodies_are_bounded() {
    let fetcher = open().with_max_bytes(8);
    let exact = serve("127.0.0.1", |_, _| ok("12345678"));
    assert_eq!(fetcher.fetch(&exact.url("/")).unwrap(), b"12345678");
    let declared = serve("127.0.0.1", |_, _| status("200 OK\r\nContent-Length: 99999999999"));
    let chunk = "4\r\nabcd\r\n";
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let endless = serve("127.0.0.1", move |_, _| format!("{head}{}", chunk.repeat(3)));
    for server in [declared, endless] {
        let error = fetcher.fetch(&server.url("/")).unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), (ImageErrorKind::ImageTooLarge, false));
        assert_eq!(error.to_string(), "image[0]: image file size exceeds limit 0 MB");
    }
}

/// A download as the resolver does it.
fn download(fetcher: &ImageFetcher, url: &str, time: Duration) -> Result<Vec<u8>, ImageError> {
    fetcher.downloads(&ImageLimits { download_time: time, ..ImageLimits::default() })(url)
}

#[test]
fn only_what_may_pass_is_tried_again() {
    let minute = Duration::from_secs(60);
    let tries = |answers: &'static [&'static str]| {
        let server = serve("127.0.0.1", move |_, before| match answers.get(before) {
            Some(&answer) => status(answer),
            None => ok("picture"),
        });
        let fetched = download(&open(), &server.url("/"), minute);
        (server.requests().len(), fetched.map_err(|error| (error.kind(), error.is_retryable())))
    };
    let picture = || Ok(b"picture".to_vec());
    assert_eq!(tries(&["503 Busy", "500 Broken"]), (3, picture()));
    assert_eq!(tries(&["429 Slowly\r\nRetry-After: 1"]), (2, picture()));
    assert_eq!(tries(&["408 Late"]), (2, picture()));
    // A body that is too short.
    assert_eq!(tries(&["200 OK\r\nContent-Length: 9"]), (2, picture()));
    assert_eq!(tries(&["503 Busy"; 9]), (4, Err((ImageErrorKind::FetchStatus, true))));
    assert_eq!(tries(&["404 Gone"]), (1, Err((ImageErrorKind::FetchStatus, false))));
    assert_eq!(tries(&["304 Same"]), (1, Err((ImageErrorKind::FetchStatus, false))));
    // The server wants to be left alone for longer than there is time.
    assert_eq!(tries(&["429 Slowly\r\nRetry-After: 3600"]), (1, Err((ImageErrorKind::FetchStatus, true))));
    assert_eq!(tries(&["204 Nothing"]), (1, Ok(vec![])));
}

#[test]
fn a_server_or_a_name_service_that_hangs_ends_with_the_time() {
    let short = Duration::from_millis(200);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    assert_eq!(refused(download(&open(), &url, short)), (ImageErrorKind::Fetch, true));
    let slow = serve("127.0.0.1", |_, _| {
        std::thread::sleep(Duration::from_secs(3600));
        String::new()
    });
    assert_eq!(refused(download(&open(), &slow.url("/"), short)), (ImageErrorKind::Fetch, true));
    let lost = open().with_lookup(|_, _| loop {
        std::thread::park();
    });
    assert_eq!(refused(download(&lost, "http://pictures.example/", short)), (ImageErrorKind::Fetch, true));
}
