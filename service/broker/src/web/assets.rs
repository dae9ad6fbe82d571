//! The pages, as `make web` builds them from `client/web`: few files, part of the program.

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};

/// A file.
#[derive(Debug)]
pub(crate) struct WebAsset {
    path: &'static str,
    kind: &'static str,
    content: &'static [u8],
}

macro_rules! built {
    ($path:literal, $file:literal, $kind:literal) => {
        WebAsset {
            path: $path,
            kind: $kind,
            content: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../client/web/dist/", $file)),
        }
    };
}

/// All files.
pub(crate) const ALL: [WebAsset; 4] = [
    built!("/", "index.html", "text/html; charset=utf-8"),
    built!("/app.js", "app.js", "text/javascript; charset=utf-8"),
    built!("/app.css", "app.css", "text/css; charset=utf-8"),
    built!("/icon.svg", "icon.svg", "image/svg+xml"),
];

impl WebAsset {
    /// Its place on this server.
    pub(crate) fn path(&self) -> &'static str {
        self.path
    }

    pub(crate) fn response(&self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.content));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        // A new version is seen at once; all of it is a few packets.
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most bytes of all files together.
    const MOST: usize = 160_000;

    #[test]
    fn the_pages_are_small_and_load_nothing_from_elsewhere() {
        let whole: usize = ALL.iter().map(|asset| asset.content.len()).sum();
        assert!(whole <= MOST, "{whole} bytes; at most {MOST}");
        let page = std::str::from_utf8(ALL[0].content).unwrap();
        assert!(page.starts_with("<!doctype html>"), "{page}");
        assert!(!page.contains("://") && !page.contains("<style") && !page.contains("style="), "{page}");
        assert_eq!(page.matches("<script").count(), page.matches("<script type=\"module\" src=\"/app.js\">").count());
    }
}
